"""A toy market's containers as a `GpuCloud`: the smallest adapter that holds the whole contract.

The toy market is `toy_provider.py`; its wire API is as plain as one can be.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

import httpx
from pydantic import Field, ValidationError

from podferry.adapters.providers.wire import ProviderHTTP, WireModel
from podferry.domain.errors import (
    CloudError,
    NoCapacityError,
    OfferGoneError,
    OutcomeUnknownError,
    ProviderRefusedError,
)
from podferry.domain.machine import PublicPort
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import BootTraits, CloudTraits, LaunchRequest, MachineView, ViewState

DEFAULT_BASE_URL = "https://api.toy.test"
STARTED_MINUTES = BillingRule(increment_seconds=60)
MAX_SCRIPT = 10_000
REFUSALS: Mapping[str, type[CloudError]] = {"gone": OfferGoneError, "full": NoCapacityError}
STATES = {
    "ordered": ViewState.PROVISIONING,
    "up": ViewState.STARTING,
    "broken": ViewState.FAILED,
    "ended": ViewState.GONE,
}
NO_INTERVALS: Mapping[str, float] = {}


class _Ask(WireModel):
    id: str
    gpu: str
    vram_gib: int
    memory_gib: int
    disk_gib: int
    country: str
    microusd_per_hour: int


class _Asks(WireModel):
    asks: list[_Ask]


class _Machine(WireModel):
    id: str
    name: str
    status: str
    microusd_per_hour: int
    since: float | None = None
    host: str | None = None
    ports: dict[int, int] = Field(default_factory=dict)


class _Machines(WireModel):
    machines: list[_Machine]


class _Problem(WireModel):
    problem: str


class ToyCloud:
    """The toy market with one key."""

    name = "toy"
    traits = CloudTraits(
        boots={
            Kind.CONTAINER: BootTraits(
                channel=Channel.ENTRYPOINT, bootstrap_limit=MAX_SCRIPT, deadline_seconds=600
            )
        },
        poll_seconds=5,
        listing_settles_seconds=60,
        failed_is_final=True,
        markets=(Market.ON_DEMAND,),
        billing=STARTED_MINUTES,
        can_cancel_starting=True,
        reclaim_notice_seconds=None,
        shows_price=True,
        shows_billing_start=True,
    )
    min_interval_seconds = NO_INTERVALS

    def __init__(self, api_key: str, base_url: str | None = None) -> None:
        self._http = ProviderHTTP(self.name, base_url or DEFAULT_BASE_URL, {"X-Key": api_key})

    def list_offers(self, wanted: Requirements) -> list[Offer]:
        answer = self._http.send("GET", "/asks", params={"disk_gib": str(wanted.disk_gib)})
        return [_offer(ask) for ask in self._http.read(answer, _Asks).asks]

    def create(self, request: LaunchRequest) -> str:
        if len(request.bootstrap) > MAX_SCRIPT:
            raise ProviderRefusedError(f"toy takes at most {MAX_SCRIPT} characters of a script")
        body = {
            "ask": request.offer.reference["ask"],
            "name": request.stamp,
            "image": request.image,
            "script": request.bootstrap,
            "environment": request.environment,
            "ports": request.ports,
        }
        answer = self._http.send_create("POST", "/machines", body=body)
        if answer.is_success:
            return _made_id(answer)
        problem = self._http.read(answer, _Problem).problem
        raise REFUSALS.get(problem, ProviderRefusedError)(f"toy refused the launch: {problem}")

    def find(self, stamp: str) -> list[MachineView]:
        return [view for view in self.list_machines() if view.stamp == stamp]

    def list_machines(self) -> list[MachineView]:
        answer = self._http.send("GET", "/machines")
        return [_view(machine) for machine in self._http.read(answer, _Machines).machines]

    def get(self, provider_id: str) -> MachineView:
        answer = self._http.send("GET", _path(provider_id))
        if answer.status_code == httpx.codes.NOT_FOUND:
            return MachineView(
                provider_id=provider_id, stamp=None, state=ViewState.GONE, raw_status="404"
            )
        return _view(self._http.read(answer, _Machine))

    def give_up(self, provider_id: str) -> None:
        self._http.send("DELETE", _path(provider_id))


def _path(provider_id: str) -> str:
    return f"/machines/{quote(provider_id, safe='')}"


def _made_id(answer: httpx.Response) -> str:
    try:
        return _Machine.model_validate_json(answer.content).id
    except ValidationError as error:
        raise OutcomeUnknownError("toy took the launch but named no machine") from error


def _offer(ask: _Ask) -> Offer:
    return Offer(
        provider=ToyCloud.name,
        reference={"ask": ask.id},
        host=None,
        kind=Kind.CONTAINER,
        market=Market.ON_DEMAND,
        gpu_name=ask.gpu,
        gpu_count=1,
        vram_mib_per_gpu=ask.vram_gib * 1024,
        vcpus=None,
        memory_mib=ask.memory_gib * 1024,
        disk_gib=ask.disk_gib,
        country=ask.country,
        region=None,
        price_microusd_per_hour=ask.microusd_per_hour,
        billing=STARTED_MINUTES,
    )


def _view(machine: _Machine) -> MachineView:
    return MachineView(
        provider_id=machine.id,
        stamp=machine.name,
        state=STATES.get(machine.status, ViewState.UNKNOWN),
        raw_status=machine.status,
        price_microusd_per_hour=machine.microusd_per_hour,
        ports=tuple(
            PublicPort(internal=inside, host=machine.host, external=outside)
            for inside, outside in machine.ports.items()
            if machine.host
        ),
        billing_started_at=machine.since and datetime.fromtimestamp(machine.since, UTC),
    )
