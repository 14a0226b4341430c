"""AWS's errors as ours: the only place that knows AWS's error codes as errors.

Codes that are answers ("that execution exists already") are read where they mean something, with
`code_of`. What is left is nobody's business but ours: an `InternalError` that names the code.
The SDK's own text stays in the exception's cause; it holds names of tables, roles and hosts.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from podferry.domain.errors import InternalError

CONDITION_FAILED = "ConditionalCheckFailedException"
TRANSACTION_CANCELED = "TransactionCanceledException"
_CONFLICTS = {CONDITION_FAILED, "TransactionConflictException", "TransactionInProgressException"}
_CONFLICT_REASONS = {"ConditionalCheckFailed", "TransactionConflict"}

_ADVICE = {
    "AccessDenied": "this function's role lacks a permission",
    "AccessDeniedException": "this function's role lacks a permission",
    "ExpiredToken": "the credentials have expired",
    "ExpiredTokenException": "the credentials have expired",
    "ProvisionedThroughputExceededException": "throttled; try again in a moment",
    "RequestLimitExceeded": "throttled; try again in a moment",
    "ResourceNotFoundException": "the deployment lacks something; deploy it again",
    "SlowDown": "throttled; try again in a moment",
    "ThrottlingException": "throttled; try again in a moment",
}


@contextmanager
def aws_errors(doing: str) -> Iterator[None]:
    """Turn what AWS or its SDK raises inside into an `InternalError` that says what was tried."""
    try:
        yield
    except ClientError as error:
        code = ", ".join((code_of(error), *cancellation_reasons(error)))
        advice = _ADVICE.get(code_of(error), "see the log of this function")
        raise InternalError(f"AWS answered {code} to: {doing} ({advice})") from error
    except BotoCoreError as error:
        name = type(error).__name__
        raise InternalError(f"no answer from AWS to: {doing} ({name})") from error


def code_of(error: ClientError) -> str:
    """AWS's name for the error; for answers without a body the HTTP status."""
    return str(error.response.get("Error", {}).get("Code", "an error without a code"))


def cancellation_reasons(error: ClientError) -> tuple[str, ...]:
    """Why each change of a transaction was refused, `None` where it was not; else empty."""
    reasons = error.response.get("CancellationReasons", [])
    return tuple(str(reason.get("Code", "None")) for reason in reasons)


def refused_position(error: ClientError) -> int | None:
    """The first change of a commit that met something else than it expected.

    `None` if the commit failed for any other reason.
    """
    if code_of(error) in _CONFLICTS:
        return 0
    if code_of(error) != TRANSACTION_CANCELED:
        return None
    reasons = cancellation_reasons(error)
    return next((i for i, reason in enumerate(reasons) if reason in _CONFLICT_REASONS), None)
