"""Google Compute Engine's GPU machines as a `GpuCloud`, on demand and spot.

From the compute v1 discovery document (revision 20261106) and Google's documentation as of
2026-11-30. What to keep in mind: a create call only starts an *operation*, in which capacity and
quota errors arrive later, and which is never waited for here; names are unique in a zone, and our
stamp is the name; `TERMINATED` means stopped; a machine does not show its price.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

import httpx
from pydantic import Field

from podferry.adapters.providers.gce_key import GceKey, Tokens, read_key
from podferry.adapters.providers.gce_launch import launch_body, volume_gib
from podferry.adapters.providers.gce_prices import COUNTRIES, MACHINES, GpuMachine, price_of
from podferry.adapters.providers.gce_refusals import refusal_of
from podferry.adapters.providers.gce_view import STAMP_LABEL, Instance, Operation, view_of
from podferry.adapters.providers.units import microusd
from podferry.adapters.providers.vm_launch import MAX_BOOTSTRAP
from podferry.adapters.providers.wire import ProviderHTTP, WireModel, pages
from podferry.domain.errors import (
    NotGoneYetError,
    ProviderBusyError,
    ProviderRefusedError,
)
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import BootTraits, CloudTraits, LaunchRequest, MachineView, ViewState

DEFAULT_BASE_URL = "https://compute.googleapis.com"
PER_SECOND = BillingRule(increment_seconds=1, minimum_seconds=60)
SPOT_NOTICE_SECONDS = 30
_PAGE_SIZE = "500"
_SOME_ZONE = "us-central1-a"
# 403 is also said for quotas, rates and closed accounts.
_OWN = frozenset({403})
_NO_INTERVALS: Mapping[str, float] = {}


class _Warning(WireModel):
    code: str = ""


class _MachineType(WireModel):
    name: str
    zone: str
    guest_cpus: int = Field(alias="guestCpus")
    memory_mb: int = Field(alias="memoryMb")


class _Scope(WireModel):
    """What an aggregated list has of one zone."""

    machine_types: list[_MachineType] = Field(default_factory=list, alias="machineTypes")
    instances: list[Instance] = Field(default_factory=list)
    warning: _Warning | None = None


class _AggregatedPage(WireModel):
    items: dict[str, _Scope] = Field(default_factory=dict)
    next_page_token: str | None = Field(default=None, alias="nextPageToken")
    warning: _Warning | None = None


class _Operations(WireModel):
    items: list[Operation] = Field(default_factory=list)


class GceCloud:
    """Compute Engine with one service account, in its project."""

    name = "gce"
    traits = CloudTraits(
        boots={
            Kind.VM: BootTraits(
                channel=Channel.STARTUP_SCRIPT, bootstrap_limit=MAX_BOOTSTRAP, deadline_seconds=900
            ),
        },
        poll_seconds=10,
        listing_settles_seconds=60,
        failed_is_final=True,
        markets=(Market.ON_DEMAND, Market.SPOT),
        billing=PER_SECOND,
        can_cancel_starting=True,
        reclaim_notice_seconds=SPOT_NOTICE_SECONDS,
        shows_price=False,
        shows_billing_start=True,
    )
    """Notice: guide "Spot VMs", at most 30 seconds until the end. Billing: by third parties that
    read the price pages. The metadata would hold 256 KB (guide "startup scripts")."""
    # Quotas are per minute and project, far above our pace.
    min_interval_seconds = _NO_INTERVALS

    def __init__(
        self, api_key: str, base_url: str | None = None, client: httpx.Client | None = None
    ) -> None:
        self._api_key = api_key
        self._http = ProviderHTTP(
            self.name,
            base_url or DEFAULT_BASE_URL,
            lambda: {"Authorization": f"Bearer {self._tokens.current()}"},
            client,
        )

    @cached_property
    def _key(self) -> GceKey:
        """Read at the first call: a bad key must not hide what this provider is."""
        return read_key(self._api_key)

    @cached_property
    def _tokens(self) -> Tokens:
        return Tokens(self._key)

    @property
    def _project(self) -> str:
        return f"/compute/v1/projects/{self._key.project_id}"

    def list_offers(self, wanted: Requirements) -> list[Offer]:
        """See the port. Every zone that has a type of our price table."""
        names = [name for name, machine in MACHINES.items() if _is_wanted(machine, wanted)]
        if not names:
            return []
        condition = " OR ".join(f'(name="{name}")' for name in names)
        return [
            offer
            for scope in self._scopes("machineTypes", condition)
            for machine_type in scope.machine_types
            for offer in _offers(machine_type, wanted)
        ]

    def create(self, request: LaunchRequest) -> str:
        """See the port. Names and `requestId` make a repeated call harmless."""
        zone = request.offer.reference["zone"]
        request_id = uuid5(NAMESPACE_URL, f"podferry:{request.stamp}")
        path = f"{self._zone(zone)}/instances?requestId={request_id}"
        answer = self._http.send_create(
            "POST", path, body=launch_body(request, self._key.podferry), own=_OWN
        )
        if not answer.is_success:
            raise refusal_of(self._http, answer)
        self._check_begun(self._operation(zone, answer))
        return _provider_id(zone, request.stamp)

    def find(self, stamp: str) -> list[MachineView]:
        """See the port. An instance is in the list from the moment the operation has begun."""
        return self._listed(f'labels.{STAMP_LABEL}="{stamp}"')

    def list_machines(self) -> list[MachineView]:
        """See the port. Instances without our label are somebody else's and are not asked for."""
        return self._listed(f"labels.{STAMP_LABEL}:*")

    def get(self, provider_id: str) -> MachineView:
        """See the port. Why there is no instance is told by the operation that was to make it."""
        zone, name = _place(provider_id)
        answer = self._http.send("GET", f"{self._zone(zone)}/instances/{name}", own=_OWN)
        if answer.status_code == 404:
            return self._absent(zone, name)
        self._check(answer)
        return view_of(zone, self._http.read(answer, Instance))

    def give_up(self, provider_id: str) -> None:
        """See the port."""
        zone, name = _place(provider_id)
        answer = self._http.send("DELETE", f"{self._zone(zone)}/instances/{name}", own=_OWN)
        if answer.status_code == 404:
            return
        if answer.status_code == 400 and "resourceNotReady" in answer.text:
            raise NotGoneYetError("gce cannot end the instance in its state; ask again")
        self._check(answer)

    def _zone(self, zone: str) -> str:
        return f"{self._project}/zones/{zone}"

    def _check(self, answer: httpx.Response) -> None:
        if not answer.is_success:
            raise refusal_of(self._http, answer)

    def _operation(self, zone: str, answer: httpx.Response) -> Operation:
        """The operation as it is a moment later: refusals are often there at once."""
        begun = self._http.read_made(answer, Operation)
        if begun.status == "DONE":
            return begun
        try:
            looked = self._http.send("GET", f"{self._zone(zone)}/operations/{begun.name}", own=_OWN)
            return self._http.read(looked, Operation) if looked.is_success else begun
        except (ProviderBusyError, ProviderRefusedError):
            # The launch was taken; how it went on is told by `get`.
            return begun

    def _check_begun(self, operation: Operation) -> None:
        error = operation.refusal()
        if error is not None:
            raise error

    def _absent(self, zone: str, name: str) -> MachineView:
        provider_id = _provider_id(zone, name)
        error = self._insert_error(zone, name)
        if error is None:
            return MachineView.missing(provider_id)
        return MachineView(
            provider_id=provider_id,
            stamp=name,
            state=ViewState.FAILED,
            raw_status="404",
            reason=error,
        )

    def _insert_error(self, zone: str, name: str) -> str | None:
        condition = f'(targetLink eq ".*/instances/{name}") (operationType eq "insert")'
        answer = self._http.send(
            "GET", f"{self._zone(zone)}/operations", params={"filter": condition}, own=_OWN
        )
        if answer.status_code == 404:
            return None
        self._check(answer)
        refusals = (each.refusal() for each in self._http.read(answer, _Operations).items)
        return next((str(each.detail) for each in refusals if each is not None), None)

    def _listed(self, condition: str) -> list[MachineView]:
        return [
            view_of(instance.zone.rpartition("/")[2], instance)
            for scope in self._scopes("instances", condition)
            for instance in scope.instances
        ]

    def _scopes(self, resource: str, condition: str) -> Iterator[_Scope]:
        """All pages of an aggregated list; one that leaves out a zone is no list at all."""

        def ask(token: str | None) -> _AggregatedPage:
            params = {"filter": condition, "maxResults": _PAGE_SIZE}
            params |= {"pageToken": token} if token else {}
            path = f"{self._project}/aggregated/{resource}"
            answer = self._http.send("GET", path, params=params, own=_OWN)
            self._check(answer)
            return self._http.read(answer, _AggregatedPage)

        for page in pages(self.name, ask, lambda page: page.next_page_token):
            warnings = [page.warning, *(scope.warning for scope in page.items.values())]
            if any(warning and warning.code == "UNREACHABLE" for warning in warnings):
                raise ProviderBusyError("gce cannot reach a zone; the list is not complete")
            yield from page.items.values()


def _provider_id(zone: str, name: str) -> str:
    """A name is only known in its zone."""
    return f"{zone}.{name}"


def _place(provider_id: str) -> tuple[str, str]:
    zone, _, name = provider_id.rpartition(".")
    # An id that is not of ours is asked for all the same: Google says that there is none.
    return zone or _SOME_ZONE, quote(name, safe="")


def _is_wanted(machine: GpuMachine, wanted: Requirements) -> bool:
    is_named = not wanted.gpu_names or machine.gpu_name in wanted.gpu_names
    return is_named and machine.gpu_count == wanted.gpu_count


def _offers(machine_type: _MachineType, wanted: Requirements) -> Iterator[Offer]:
    machine = MACHINES.get(machine_type.name)
    region = machine_type.zone.rpartition("-")[0]
    price = price_of(machine_type.name, region, volume_gib(wanted.disk_gib))
    if machine is None or price is None:
        return
    for market, usd in ((Market.ON_DEMAND, price.on_demand), (Market.SPOT, price.spot)):
        yield Offer(
            provider=GceCloud.name,
            reference={
                "type": machine_type.name,
                "zone": machine_type.zone,
                "market": market.value,
            },
            host=None,
            kind=Kind.VM,
            market=market,
            channel=Channel.STARTUP_SCRIPT,
            gpu_name=machine.gpu_name,
            gpu_count=machine.gpu_count,
            vram_mib_per_gpu=machine.vram_mib,
            vcpus=float(machine_type.guest_cpus),
            memory_mib=machine_type.memory_mb,
            disk_gib=wanted.disk_gib,
            country=COUNTRIES.get(region),
            region=region,
            price_microusd_per_hour=microusd(usd),
            billing=PER_SECOND,
            reclaim_notice_seconds=SPOT_NOTICE_SECONDS if market is Market.SPOT else None,
        )
