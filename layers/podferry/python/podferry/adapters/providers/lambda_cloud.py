"""Lambda Cloud's virtual machines as a `GpuCloud`.

From the provider's documentation and public clients as of 2026-11-30. What to keep in mind: one
launch in 12 seconds, and one call of any kind in a second; no idempotency and names that are not
unique; each launch names one SSH key of the account; a machine that boots cannot be ended; it is
"terminating" for minutes; Lambda tells neither when a machine was made nor any ports. The account's
firewall has to let the pods' ports in.
"""

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import Field

from podferry.adapters.providers.lambda_offers import (
    PROVIDER,
    STARTED_MINUTES,
    Catalog,
    TypeRow,
    offers_of,
)
from podferry.adapters.providers.lambda_view import Instance, ports_tag, view_of
from podferry.adapters.providers.registry import EVERY_CALL
from podferry.adapters.providers.vm_launch import MAX_BOOTSTRAP, user_data
from podferry.adapters.providers.wire import ProviderHTTP, WireModel, parsed
from podferry.domain.errors import (
    CloudError,
    NotGoneYetError,
    OfferGoneError,
    OutcomeUnknownError,
    ProviderBusyError,
    ProviderRefusedError,
    QuotaExceededError,
)
from podferry.domain.offer import Channel, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import BootTraits, CloudTraits, LaunchRequest, MachineView, ViewState

DEFAULT_BASE_URL = "https://cloud.lambda.ai"
SSH_KEY = "podferry"
MAX_NAME = 64
MAX_USER_DATA = 1_000_000
"""Bytes; the documentation says 1 MB."""
_API = "/api/v1"
_LAUNCH_SECONDS = 12.0
_MIN_INTERVAL_SECONDS: Mapping[str, float] = {EVERY_CALL: 1.0, "create": _LAUNCH_SECONDS}

# What a refused launch means, by the beginning of its code.
REFUSALS: tuple[tuple[str, type[CloudError]], ...] = (
    ("instance-operations/launch/insufficient-capacity", OfferGoneError),
    ("instance-operations/launch/", ProviderRefusedError),
    ("global/quota-exceeded", QuotaExceededError),
    # Whoever runs the hosts for Lambda failed: it may have made one before.
    ("provider/", OutcomeUnknownError),
    ("global/internal-error", OutcomeUnknownError),
    ("global/", ProviderRefusedError),
)
_MISSING = "global/object-does-not-exist"
_DUPLICATE = "global/duplicate"

M = TypeVar("M", bound=WireModel)


class _Error(WireModel):
    code: str
    message: str = ""

    @property
    def words(self) -> str:
        """The last part of the code, and the message."""
        return f"{self.code.rpartition('/')[2]}: {self.message}"


class _Refused(WireModel):
    error: _Error


class _OneInstance(WireModel):
    data: Instance


class _AllInstances(WireModel):
    data: list[Instance]


class _LaunchedIds(WireModel):
    instance_ids: list[str] = Field(min_length=1)


class _Launched(WireModel):
    data: _LaunchedIds


class _TerminatedInstances(WireModel):
    terminated_instances: list[Instance]


class _Terminated(WireModel):
    data: _TerminatedInstances


class LambdaCloud:
    """Lambda with one key."""

    name = PROVIDER
    traits = CloudTraits(
        boots={
            Kind.VM: BootTraits(
                channel=Channel.CLOUD_INIT, bootstrap_limit=MAX_BOOTSTRAP, deadline_seconds=1500
            ),
        },
        poll_seconds=10,
        listing_settles_seconds=120,
        failed_is_final=False,
        markets=(Market.ON_DEMAND,),
        billing=STARTED_MINUTES,
        can_cancel_starting=False,
        reclaim_notice_seconds=None,
        shows_price=True,
        shows_billing_start=False,
    )
    """Intervals: OpenAPI 1.8.3. Billing: docs.lambda.ai, "public cloud billing". Machines of eight
    GPUs take 10 to 15 minutes to boot by public reports. There is no spot market."""
    min_interval_seconds = _MIN_INTERVAL_SECONDS

    def __init__(
        self, api_key: str, base_url: str | None = None, client: httpx.Client | None = None
    ) -> None:
        self._http = ProviderHTTP(
            self.name,
            _host(base_url or DEFAULT_BASE_URL),
            {"Authorization": f"Bearer {api_key}"},
            client,
        )
        self._lacks_ssh_key = False
        """Whether the last launch was refused for something that the account does not have."""

    def list_offers(self, wanted: Requirements) -> list[Offer]:  # noqa: ARG002 - no filters here
        """See the port. The API takes no filters."""
        catalog = self._ask("GET", "/instance-types", Catalog)
        rows = (self._http.read_offer(item, TypeRow) for item in catalog.data.values())
        return [offer for row in rows if row is not None for offer in offers_of(row)]

    def create(self, request: LaunchRequest) -> str:
        """See the port. Before the first launch ever the account's SSH key is made."""
        body = _launch_body(request)
        if self._lacks_ssh_key:
            self._add_ssh_key()
            raise _busy("its SSH key was made; nothing was rented yet")
        try:
            answer = self._http.send_create(
                "POST", f"{_API}/instance-operations/launch", body=body, own=frozenset({403})
            )
        except ProviderBusyError as error:
            error.retry_after_seconds = max(error.retry_after_seconds, _LAUNCH_SECONDS)
            raise
        if answer.is_success:
            return self._http.read_made(answer, _Launched).data.instance_ids[0]
        raise self._launch_refusal(answer)

    def find(self, stamp: str) -> list[MachineView]:
        """See the port. There is no filter by name."""
        return [view for view in self.list_machines() if view.stamp == stamp]

    def list_machines(self) -> list[MachineView]:
        """See the port. The list has no pages."""
        return [view_of(each) for each in self._ask("GET", "/instances", _AllInstances).data]

    def get(self, provider_id: str) -> MachineView:
        """See the port."""
        answer = self._http.send("GET", f"{_API}/instances/{quote(provider_id, safe='')}")
        if _says_missing(answer):
            return MachineView.missing(provider_id)
        return view_of(self._read(answer, _OneInstance).data)

    def give_up(self, provider_id: str) -> None:
        """See the port. The answer lists what is ended; anything else is explained by a look."""
        answer = self._http.send(
            "POST",
            f"{_API}/instance-operations/terminate",
            body={"instance_ids": [provider_id]},
        )
        if _says_missing(answer):
            return
        if answer.is_success:
            ended = self._http.read(answer, _Terminated).data.terminated_instances
            if any(each.id == provider_id for each in ended):
                return
        view = self.get(provider_id)
        if view.state not in {ViewState.GONE, ViewState.TERMINATING}:
            # The refusal may have been of a state that it has left meanwhile.
            raise NotGoneYetError(
                f"lambda did not end the machine, which is {view.raw_status}; ask again"
            )

    def _add_ssh_key(self) -> None:
        """Let Lambda make a pair and forget its private half: nobody logs in to the VM itself."""
        self._lacks_ssh_key = False
        answer = self._http.send("POST", f"{_API}/ssh-keys", body={"name": SSH_KEY})
        error = _error(answer)
        if error is not None and error.code == _DUPLICATE:
            # Then it was not the key that the account did not have.
            raise OfferGoneError("lambda does not know the instance type, or not there")
        if not answer.is_success:
            raise self._refused(answer)

    def _ask(self, method: str, path: str, model: type[M]) -> M:
        return self._read(self._http.send(method, f"{_API}{path}"), model)

    def _read(self, answer: httpx.Response, model: type[M]) -> M:
        if not answer.is_success:
            raise self._refused(answer)
        return self._http.read(answer, model)

    def _refused(self, answer: httpx.Response) -> CloudError:
        """The error of a safe call."""
        error = _error(answer)
        if error is None or error.code.startswith("provider/"):
            return ProviderBusyError(f"lambda answered {answer.status_code}; try again")
        return self._http.refused(answer, error.words)

    def _launch_refusal(self, answer: httpx.Response) -> CloudError:
        error = _error(answer)
        if error is None:
            return _busy(f"something in front of it answered {answer.status_code}")
        if error.code == _MISSING:
            self._lacks_ssh_key = True
            return _busy(f"{error.words} Its SSH key is made next")
        kinds = (kind for beginning, kind in REFUSALS if error.code.startswith(beginning))
        return self._http.refusal(answer, error.words, next(kinds, None))


def _host(base_url: str) -> str:
    """Without `/api/v1`, which the documentation counts among the address."""
    return base_url.rstrip("/").removesuffix(_API)


def _launch_body(request: LaunchRequest) -> dict[str, Any]:
    """No `image`: the default has Docker and the GPU driver."""
    if len(request.stamp) > MAX_NAME:
        raise ProviderRefusedError(
            f"lambda cannot launch this: the name has at most {MAX_NAME} characters"
        )
    return {
        "region_name": request.offer.reference["region"],
        "instance_type_name": request.offer.reference["instance_type"],
        "ssh_key_names": [SSH_KEY],
        "name": request.stamp,
        "user_data": user_data(request, MAX_USER_DATA),
        "tags": [ports_tag(request.ports)],
    }


def _error(answer: httpx.Response) -> _Error | None:
    refused = parsed(answer, _Refused)
    return None if refused is None else refused.error


def _says_missing(answer: httpx.Response) -> bool:
    error = _error(answer)
    return error is not None and error.code == _MISSING


def _busy(why: str) -> ProviderBusyError:
    return ProviderBusyError(f"lambda: {why}", retry_after_seconds=_LAUNCH_SECONDS)
