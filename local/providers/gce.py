"""A simulated Google Compute Engine: virtual machines that run a startup script at each boot.

A create call is taken whatever happens later: whether there was capacity is told by its operation.
Failed operations are remembered, machines that could not be made are not. Not simulated: networks
and firewalls (any is taken), images, stop and start, and the filters that our adapter does not use.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, ClassVar

from local.providers.billing import PerSecondWhole, with_disk_and_address
from local.providers.catalog import with_price_file
from local.providers.fleet import NoSuchInstanceError
from local.providers.gce_account import PROJECT, ServiceAccount
from local.providers.gce_view import aggregated, error, link, operation, render, render_type
from local.providers.instance import Instance, Phase
from local.providers.machine_types import GCE_TYPES, MachineType
from local.providers.simulator import Setup, Simulator
from local.providers.web import Handler, Request, Response, json_response

_API = f"/compute/v1/projects/{PROJECT}"
_ZONE = _API + r"/zones/([a-z0-9-]+)"
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_LARGEST_PAGE = 500
_LARGEST_METADATA = 512 * 1024
_NO_CAPACITY = (
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
    "The zone does not have enough resources available to fulfill the request.",
)
_DISK_USD_PER_GIB_MONTH = Decimal("0.11")
_ADDRESS_USD_PER_HOUR = {False: Decimal("0.005"), True: Decimal("0.0025")}
"""By whether the machine is a spot one."""
_QUOTA = ("QUOTA_EXCEEDED", "Quota 'GPUS_ALL_REGIONS' exceeded. Limit: 0.0 globally.")


class GceSimulator(Simulator):
    """Speaks https://compute.googleapis.com/compute/v1."""

    name: ClassVar[str] = "gce"
    billing: ClassVar[PerSecondWhole] = PerSecondWhole(60)
    shows_stock: ClassVar[bool] = False
    unsupported_faults: ClassVar[frozenset[str]] = frozenset(
        # An instance shows no price.
        {"price_bump", "min_interval"}
    )
    own_faults: ClassVar[frozenset[str]] = frozenset(
        {
            "account_limit",
            "delete_not_now",
            "late_refusal",
            "status_says",
            "terminating_seconds",
        }
    )

    def __init__(self, setup: Setup) -> None:
        self._types = {each.name: each for each in with_price_file(GCE_TYPES, setup.price_file)}
        self._account = ServiceAccount(setup.data, setup.key)
        self._failures: dict[str, tuple[str, str, tuple[str, str]]] = {}
        """By operation: zone, name of the machine, what went wrong."""
        super().__init__(setup)

    @property
    def api_key(self) -> str:
        return self._account.key_file()

    def routes(self) -> Sequence[tuple[str, str, Handler]]:
        instance = _ZONE + r"/instances/([a-z0-9-]+)"
        return (
            ("GET", _API + "/aggregated/machineTypes", self._list_types),
            ("GET", _API + "/aggregated/instances", self._list),
            ("POST", _ZONE + "/instances", self._insert),
            ("GET", instance, self._get),
            ("DELETE", instance, self._delete),
            ("GET", _ZONE + "/operations", self._list_operations),
            ("GET", _ZONE + r"/operations/([a-z0-9-]+)", self._get_operation),
        )

    def presented_key(self, request: Request) -> str | None:
        token = request.bearer_token
        if token is None:
            return None
        return self._key if self._account.accepts(token) else ""

    def refuse(self, _request: Request, *, has_key: bool) -> Response | None:  # noqa: ARG002
        message = "Request had invalid authentication credentials."
        return error(401, "authError", message)

    def too_many_requests(self, _request: Request) -> Response | None:
        if not self.faults.take("rate_limit"):
            return None
        return error(403, "rateLimitExceeded", "Quota exceeded for quota metric 'Queries'")

    def unknown_path(self, request: Request, allowed: tuple[str, ...]) -> Response:  # noqa: ARG002
        return error(404, "notFound", f"The resource '{request.path}' was not found")

    def broken_body(self, reason: str) -> Response:
        return error(400, "parseError", reason)

    def internal_error(self) -> Response:
        return error(503, "backendError", "Internal error. Please try again.")

    def reclaimed_phase(self, instance: Instance) -> Phase:
        scheduling = instance.details["asked"].get("scheduling", {})
        is_deleted = scheduling.get("instanceTerminationAction") == "DELETE"
        return Phase.GONE if is_deleted else Phase.STOPPED

    def settle(self) -> None:
        """A boot that failed leaves no machine, but an operation that says why."""
        for instance in self.fleet.all():
            if instance.phase is Phase.FAILED:
                self._remember(instance.details["zone"], instance.name, _NO_CAPACITY)
                self.fleet.end(instance.id, Phase.GONE)

    def _list_types(self, request: Request) -> Response:
        names = re.findall(r'name="([^"]+)"', request.query.get("filter", ""))
        rows = [
            (zone, render_type(machine, zone))
            for name in names or self._types
            for machine in filter(None, [self._types.get(name)])
            for zone in machine.zones
        ]
        return self._page(request, "machineTypes", rows)

    def _list(self, request: Request) -> Response:
        condition = re.fullmatch(
            r'labels\.([a-z-]+)(?:="([^"]*)"|:\*)', request.query.get("filter", "")
        )
        if condition is None:
            return error(400, "invalid", "Invalid value for field 'filter'")
        label, value = condition.groups()
        rows = []
        for instance in self.visible():
            found = instance.details["asked"].get("labels", {}).get(label)
            if self._exists(instance) and found is not None and value in {None, found}:
                rows.append((instance.details["zone"], self._show(instance)))
        return self._page(request, "instances", rows)

    def _page(
        self, request: Request, resource: str, rows: list[tuple[str, dict[str, Any]]]
    ) -> Response:
        size = min(
            int(request.query.get("maxResults", _LARGEST_PAGE)),
            int(self.faults.number("page_size", _LARGEST_PAGE)),
        )
        first = int(request.query.get("pageToken", 0))
        is_last = first + size >= len(rows)
        token = None if is_last else str(first + size)
        return json_response(200, aggregated(resource, rows[first : first + size], token))

    def _exists(self, instance: Instance) -> bool:
        """A machine that was deleted is still shown while it ends."""
        if instance.phase is Phase.GONE:
            return self.is_ending(instance)
        return instance.phase is not Phase.FAILED

    def _show(self, instance: Instance) -> dict[str, Any]:
        is_ending = instance.phase is Phase.GONE
        return render(instance, "STOPPING" if is_ending else self.faults.value("status_says"))

    def _find(self, zone: str, name: str) -> Instance | None:
        try:
            instance = self.fleet.get(f"{zone}.{name}")
        except NoSuchInstanceError:
            return None
        return instance if self._exists(instance) else None

    def _get(self, request: Request, zone: str, name: str) -> Response:
        instance = self._find(zone, name)
        return self.unknown_path(request, ()) if instance is None else _ok(self._show(instance))

    def _delete(self, request: Request, zone: str, name: str) -> Response:
        instance = self._find(zone, name)
        if instance is None:
            return self.unknown_path(request, ())
        if self.faults.take("delete_not_now"):
            message = f"The resource '{link(zone, name)}' is not ready"
            return error(400, "resourceNotReady", message)
        accepted = operation(_operation_name(), "delete", link(zone, name), done=False)
        return self.destroy(instance, _ok(accepted))

    def _insert(self, request: Request, zone: str) -> Response:
        asked = request.json_object()
        name = str(asked.get("name", ""))
        machine = self._types.get(str(asked.get("machineType", "")).rpartition("/")[2])
        refusal = self._refuse_insert(asked, zone, machine)
        if refusal is not None or machine is None:
            return refusal or error(404, "notFound", "The machine type was not found")
        known = self._find(zone, name)
        if known is not None:
            if known.details["request_id"] != request.query.get("requestId"):
                message = f"The resource '{link(zone, name)}' already exists"
                return error(409, "alreadyExists", message)
            return _ok(operation(known.details["operation"], "insert", link(zone, name), done=True))
        failure = self._failure(machine)
        if failure is not None:
            begun = self._remember(zone, name, failure)
            return _ok(operation(begun, "insert", link(zone, name), done=False))
        instance = _instance_from(asked, machine, zone, request.query.get("requestId"))
        begun = instance.details["operation"]
        accepted = operation(begun, "insert", link(zone, name), done=False)
        return self.create(instance, _ok(accepted))

    def _refuse_insert(
        self, asked: dict[str, Any], zone: str, machine: MachineType | None
    ) -> Response | None:
        if machine is None or zone not in machine.zones or self.faults.take("offer_gone"):
            return error(404, "notFound", f"The machine type was not found in {zone}")
        if not _NAME.fullmatch(str(asked.get("name", ""))):
            return error(400, "invalid", "Invalid value for field 'resource.name'")
        if sum(map(len, _metadata(asked).values())) > _LARGEST_METADATA:
            return error(400, "invalid", "Invalid value for field 'resource.metadata'")
        if asked.get("scheduling", {}).get("onHostMaintenance") != "TERMINATE":
            message = "Instances with guest accelerators do not support live migration."
            return error(400, "invalid", message)
        if self.balance_micros <= 0:
            return error(403, "forbidden", "The billing account for the project is disabled")
        return None

    def _failure(self, machine: MachineType) -> tuple[str, str] | None:
        if self.faults.value("account_limit"):
            return _QUOTA
        has_capacity = self.in_stock([machine]) and not self.faults.value("late_refusal")
        return None if has_capacity else _NO_CAPACITY

    def _remember(self, zone: str, name: str, failure: tuple[str, str]) -> str:
        begun = _operation_name()
        self._failures[begun] = (zone, name, failure)
        return begun

    def _get_operation(self, _: Request, zone: str, name: str) -> Response:
        if name in self._failures and not self.faults.take("late_refusal"):
            return _ok(self._failed_operation(name))
        return _ok(operation(name, "insert", link(zone, "unknown"), done=False))

    def _list_operations(self, request: Request, zone: str) -> Response:
        wanted = re.search(r'instances/([a-z0-9-]+)"', request.query.get("filter", ""))
        if wanted is None:
            return error(400, "invalid", "Invalid value for field 'filter'")
        return _ok({"items": list(self._failed_operations(zone, wanted[1]))})

    def _failed_operations(self, zone: str, name: str) -> Iterator[dict[str, Any]]:
        for begun, (where, whom, _) in list(self._failures.items()):
            if (where, whom) == (zone, name):
                yield self._failed_operation(begun)

    def _failed_operation(self, begun: str) -> dict[str, Any]:
        zone, name, failure = self._failures[begun]
        return operation(begun, "insert", link(zone, name), failure, done=True)


def _ok(value: dict[str, Any]) -> Response:
    return json_response(200, value)


def _operation_name() -> str:
    return f"operation-{secrets.token_hex(8)}"


def _metadata(asked: dict[str, Any]) -> dict[str, str]:
    items = asked.get("metadata", {}).get("items", [])
    return {each["key"]: each["value"] for each in items}


def _instance_from(
    asked: dict[str, Any], machine: MachineType, zone: str, request_id: str | None
) -> Instance:
    is_spot = asked["scheduling"].get("provisioningModel") == "SPOT"
    return Instance(
        id=f"{zone}.{asked['name']}",
        name=asked["name"],
        offer=machine.name,
        image="an image of Google's",
        argv=[],
        environment={},
        ports=[],
        gpu=machine.gpu,
        micros_per_hour=with_disk_and_address(
            machine.spot_micros_per_hour if is_spot else machine.micros_per_hour,
            int(asked["disks"][0]["initializeParams"]["diskSizeGb"]),
            _DISK_USD_PER_GIB_MONTH,
            _ADDRESS_USD_PER_HOUR[is_spot],
        ),
        details={
            "asked": asked,
            "zone": zone,
            "request_id": request_id,
            "operation": _operation_name(),
        },
        user_data=_metadata(asked).get("startup-script", ""),
        runs_user_data_at_each_boot=True,
    )
