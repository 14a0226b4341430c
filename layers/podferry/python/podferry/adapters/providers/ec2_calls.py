"""Calls to AWS by boto3: which key and region, time limits, and what an error code means.

Codes are from "Error codes for the Amazon EC2 API" (read 2026-11-30). As in `wire.py` there are
safe calls, whose passing faults are `ProviderBusyError`, and the create call, for which an answer
that does not say "nothing was made" is `OutcomeUnknownError`.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
)
from botocore.parsers import ResponseParserError

from podferry.adapters.providers.ec2_key import Ec2Key
from podferry.adapters.providers.scrub import scrub
from podferry.domain.errors import (
    CloudError,
    KeyRefusedError,
    NoCapacityError,
    OfferGoneError,
    OutcomeUnknownError,
    ProviderBusyError,
    ProviderRefusedError,
    QuotaExceededError,
)

_CONNECT_SECONDS = 10
_READ_SECONDS = 30

THROTTLED = frozenset({"RequestLimitExceeded", "Throttling", "ThrottlingException", "SlowDown"})
NO_ACCESS = frozenset({
    "AuthFailure", "UnauthorizedOperation", "InvalidClientTokenId", "SignatureDoesNotMatch",
    "IncompleteSignature", "MissingAuthenticationToken", "ExpiredToken", "RequestExpired",
    "UnrecognizedClientException", "AccessDeniedException",
    # STS: the role does not trust us, or not with this external id.
    "AccessDenied",
})  # fmt: skip
NOT_FOUND = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"})
REFUSALS: dict[str, type[CloudError]] = {
    "InsufficientInstanceCapacity": NoCapacityError,
    "InsufficientCapacity": NoCapacityError,
    "InsufficientHostCapacity": NoCapacityError,
    "UnfulfillableCapacity": NoCapacityError,
    # The type is not sold in this zone, or not by the spot market.
    "Unsupported": OfferGoneError,
    "UnsupportedOperation": OfferGoneError,
    "SpotMaxPriceTooLow": OfferGoneError,
    "VcpuLimitExceeded": QuotaExceededError,
    "InstanceLimitExceeded": QuotaExceededError,
    "MaxSpotInstanceCountExceeded": QuotaExceededError,
    "VolumeLimitExceeded": QuotaExceededError,
    # An instance of this token exists, made with another request: it is found by its stamp.
    "IdempotentParameterMismatch": OutcomeUnknownError,
}
_NOTHING_SENT = (EndpointConnectionError, ConnectTimeoutError)

Clients = Callable[[str, str], Any]
"""A boto3 client of (service, region)."""


def clients_of(key: Ec2Key, base_url: str | None) -> Clients:
    """Clients that wait a bounded time and try once: repeating is up to the caller."""
    from botocore.config import Config  # noqa: PLC0415

    # At DEBUG botocore writes bodies and signatures, whoever asked for DEBUG of what.
    logging.getLogger("botocore").setLevel(logging.INFO)
    config = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        # A capacity error has status 500: a retry would only repeat it.
        retries={"total_max_attempts": 1},
        parameter_validation=True,
    )
    session = _session(key, base_url, config)
    made: dict[tuple[str, str], Any] = {}
    # A session must not make two clients at the same time.
    making = threading.Lock()

    def client(service: str, region: str) -> Any:
        with making:
            known = made.get((service, region))
            if known is None:
                options = {"region_name": region, "endpoint_url": base_url, "config": config}
                known = session.client(service, **options)
                made[(service, region)] = known
            return known

    return client


def _session(key: Ec2Key, base_url: str | None, config: Any) -> Any:
    # Loading boto3 costs a function a second, which only users of this provider should pay.
    if key.role_arn is not None:
        from podferry.adapters.providers.ec2_role import session_of_role  # noqa: PLC0415

        return session_of_role(key, base_url, config)
    import boto3  # noqa: PLC0415

    return boto3.session.Session(
        aws_access_key_id=key.access_key_id, aws_secret_access_key=key.secret_access_key
    )


@contextmanager
def safe_call(key: Ec2Key) -> Iterator[None]:
    """Translate errors of a call that may be repeated."""
    try:
        yield
    except ClientError as error:
        raise _refused_or_busy(error, key) from error
    except (BotoCoreError, ResponseParserError) as error:
        raise ProviderBusyError(f"ec2 did not answer ({type(error).__name__})") from error


@contextmanager
def create_call(key: Ec2Key) -> Iterator[None]:
    """Translate errors of the create call."""
    try:
        yield
    except ClientError as error:
        code, said = code_of(error), _words(error, key)
        if code in REFUSALS:
            raise REFUSALS[code](said) from error
        if code not in THROTTLED and _status(error) >= 500:
            raise OutcomeUnknownError(f"{said}; a machine may exist") from error
        raise _refused_or_busy(error, key) from error
    except _NOTHING_SENT as error:
        kind = type(error).__name__
        raise ProviderBusyError(f"ec2 cannot be reached ({kind}); nothing was rented") from error
    except (BotoCoreError, ResponseParserError) as error:
        kind = type(error).__name__
        raise OutcomeUnknownError(f"the create call to ec2 was cut off ({kind})") from error


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _refused_or_busy(error: ClientError, key: Ec2Key) -> CloudError:
    code, said = code_of(error), _words(error, key)
    if code in THROTTLED or _status(error) >= 500:
        return ProviderBusyError(f"{said}; try again")
    if code in NO_ACCESS:
        return KeyRefusedError(
            f"{said}: the key is wrong, expired or lacks a right; renew the ec2 entry of the "
            "provider keys"
        )
    return ProviderRefusedError(said)


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _words(error: ClientError, key: Ec2Key) -> str:
    message = str(error.response.get("Error", {}).get("Message", "")) or "no reason"
    return f"ec2 answered {code_of(error)}: {scrub(message, key.secret_access_key or '')}"
