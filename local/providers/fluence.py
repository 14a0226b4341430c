"""A simulated Fluence GPU cloud: containers by the started hour, no spot, no idempotency.

Not simulated: updates of a container. A container whose command ends stays ACTIVE and billed, as a
crashed one does. Virtual machines and bare metal come up bare, with an SSH server: see
`fluence_machines.py`. Inside they are the same, boxes with a `docker`.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import ValidationError

from local.providers.billing import StartedHours
from local.providers.catalog import (
    FLUENCE_MACHINES,
    FLUENCE_PLANS,
    MachineOption,
    Plan,
    with_price_file,
)
from local.providers.clock import to_rfc3339
from local.providers.fleet import NoSuchInstanceError
from local.providers.fluence_machines import (
    ADDRESS,
    collection_of,
    gpu_model,
    machine_from,
    render_machine,
    render_option,
    supply,
)
from local.providers.fluence_schema import (
    Launch,
    LaunchMachine,
    broken_json_response,
    validation_response,
)
from local.providers.instance import Instance, Phase
from local.providers.simulator import Setup, Simulator
from local.providers.web import (
    Handler,
    Request,
    Response,
    json_response,
    text_response,
)

_NO_BALANCE = "Insufficient balance to deploy instance"
_ACTIVE = (Phase.PULLING, Phase.RUNNING, Phase.EXITED)
_STATUS = {
    Phase.PROVISIONING: "INITIALIZED",
    Phase.PULLING: "ACTIVE",
    Phase.RUNNING: "ACTIVE",
    Phase.EXITED: "ACTIVE",
    Phase.STOPPED: "ENDED",
    Phase.OFFLINE: "ENDED",
    Phase.FAILED: "FAILED",
    Phase.GONE: "ENDED",
}
_DOMAIN_DELAY_SHARE = 0.2
_COLLECTIONS = ("/gpu/plans", "/gpu/instances", "/gpu/default-images")
_MACHINE = r"/gpu/instances/((?:vms|baremetal)/[0-9a-zA-Z-]+)"
_INSTANCE = r"/gpu/instances/([0-9a-zA-Z-]+)"


def _detail(status: int, text: str) -> Response:
    return json_response(status, {"detail": text})


class FluenceSimulator(Simulator):
    """Speaks https://api.fluence.dev/gpu and the balance of the account API."""

    name: ClassVar[str] = "fluence"
    billing: ClassVar[StartedHours] = StartedHours()
    unsupported_faults: ClassVar[frozenset[str]] = frozenset({"page_size", "min_interval"})
    own_faults: ClassVar[frozenset[str]] = frozenset(
        {"ssh_changes_key", "ssh_dies", "ssh_drops", "ssh_late_seconds", "ssh_wrong_key"}
    )

    def __init__(self, setup: Setup) -> None:
        everything = with_price_file((*FLUENCE_PLANS, *FLUENCE_MACHINES), setup.price_file)
        self._plans = [each for each in everything if isinstance(each, Plan)]
        self._options = [each for each in everything if isinstance(each, MachineOption)]
        self._domain_delay = setup.boot_seconds * _DOMAIN_DELAY_SHARE
        super().__init__(setup)

    def routes(self) -> Sequence[tuple[str, str, Handler]]:
        return (
            ("GET", "/gpu/plans/", self._list_plans),
            ("GET", "/gpu/plans/(vms|baremetal)", self._list_options),
            ("GET", "/gpu/default-images/", self._list_images),
            ("GET", "/gpu/instances/", self._list),
            ("POST", "/gpu/instances/", self._launch),
            ("GET", "/gpu/instances/(vms|baremetal)", self._list),
            ("POST", "/gpu/instances/(vms|baremetal)", self._launch_machine),
            ("GET", _MACHINE, self._get),
            ("DELETE", _MACHINE, self._terminate),
            ("GET", _INSTANCE, self._get),
            ("DELETE", _INSTANCE, self._terminate),
            ("GET", _INSTANCE + "/logs", self._logs),
            ("GET", _INSTANCE + "/events", self._events),
            ("GET", "/v2/users/balances", self._balances),
        )

    def presented_key(self, request: Request) -> str | None:
        return request.headers.get("x-api-key")

    def refuse(self, _request: Request, *, has_key: bool) -> Response | None:
        return _detail(401, "Invalid API key" if has_key else "API key is missing")

    def too_many_requests(self, _request: Request) -> Response | None:
        return _detail(429, "Too Many Requests") if self.faults.take("rate_limit") else None

    def unknown_path(self, request: Request, allowed: tuple[str, ...]) -> Response:
        if request.path in _COLLECTIONS:
            return Response(307, headers={"Location": request.path + "/"})
        return _detail(405, "Method Not Allowed") if allowed else _detail(404, "Not Found")

    def broken_body(self, reason: str) -> Response:
        return broken_json_response(reason)

    def internal_error(self) -> Response:
        return text_response(500, "Internal Server Error")

    def reclaimed_phase(self, _instance: Instance) -> Phase:
        return Phase.GONE

    def settle(self) -> None:
        now = self.clock.now()
        while found := self.billing.find_uncovered(self.fleet.all(), self.deposit_micros, now):
            instance, ended_at = found
            self.fleet.end(instance.id, Phase.GONE, at=ended_at)

    def container_environment(self, instance: Instance) -> dict[str, str]:
        key = instance.details["ssh_key"]
        return {} if key is None else {"SSH_PUBKEY": key}

    def _list_plans(self, _: Request) -> Response:
        return json_response(200, [_render_plan(plan) for plan in self.in_stock(self._plans)])

    def _list_options(self, _: Request, collection: str) -> Response:
        options = [o for o in self.in_stock(self._options) if o.collection == collection]
        return json_response(200, {"data": [render_option(option) for option in options]})

    def _list_images(self, _: Request) -> Response:
        image = {
            "slug": "debian-ssh-root",
            "name": "Debian",
            "description": "Debian with an SSH server",
            "image": "docker.io/library/debian:12",
            "expose": [{"port": "22", "protocol": "tcp"}],
            "environment": [],
            "startup_command": None,
            "requires_ssh": True,
        }
        return json_response(200, [image])

    def _launch(self, request: Request) -> Response:
        try:
            launch = Launch.model_validate(request.json())
        except ValidationError as error:
            return validation_response(error)
        plan = next(
            (each for each in self.in_stock(self._plans) if each.id == launch.plan_id), None
        )
        if plan is None or self.faults.take("offer_gone"):
            return _detail(400, "Selected plan is no longer available")
        refusal = self._refuse_launch(launch, plan)
        if refusal:
            return _detail(400, refusal)
        instance = _instance_from(launch, plan)
        return self.create(instance, json_response(200, {"instance_id": instance.id}))

    def _refuse_launch(self, launch: Launch, plan: Plan) -> str | None:
        location = launch.constraints.location if launch.constraints else None
        if location is not None and location not in plan.locations:
            return f"Plan is not available in location {location}"
        names = {variable.name for variable in launch.container_settings.environment}
        if launch.ssh_key is not None and "SSH_PUBKEY" in names:
            return "Environment variable SSH_PUBKEY conflicts with ssh_key"
        if self.balance_micros < plan.micros_per_hour:
            return _NO_BALANCE
        return None

    def _launch_machine(self, request: Request, collection: str) -> Response:
        try:
            launch = LaunchMachine.model_validate(request.json())
        except ValidationError as error:
            return validation_response(error)
        options = [o for o in self.in_stock(self._options) if o.collection == collection]
        option = next((each for each in options if each.id == launch.plan_id), None)
        if option is None or self.faults.take("offer_gone"):
            return _detail(400, "Selected plan is no longer available")
        if launch.os_image not in option.os_options:
            names = ", ".join(option.os_options)
            return _detail(400, f"OS image {launch.os_image} is not supported; use one of {names}")
        if self.balance_micros < option.micros_per_hour:
            return _detail(400, _NO_BALANCE)
        instance = machine_from(launch, option)
        wire_id = instance.id.partition(".")[2]
        return self.create(instance, json_response(200, {"instance_id": wire_id}))

    def _list(self, _: Request, collection: str = "") -> Response:
        listed = [each for each in self.visible() if collection_of(each) == collection]
        return json_response(200, [self._render(each) for each in listed])

    def _get(self, _: Request, instance_id: str) -> Response:
        try:
            return json_response(200, self._render(self.fleet.get(instance_id.replace("/", "."))))
        except NoSuchInstanceError:
            return _detail(404, "Instance not found")

    def _terminate(self, _: Request, instance_id: str) -> Response:
        try:
            instance = self.fleet.get(instance_id.replace("/", "."))
        except NoSuchInstanceError:
            return _detail(404, "Instance not found")
        if instance.phase not in _ACTIVE:
            return _detail(400, "Instance is not active")
        return self.destroy(instance, Response(204))

    def _logs(self, request: Request, instance_id: str) -> Response:
        try:
            self.fleet.get(instance_id)
        except NoSuchInstanceError:
            return _detail(404, "Instance not found")
        return _last(request, self.fleet.log_text(instance_id).splitlines())

    def _events(self, request: Request, instance_id: str) -> Response:
        try:
            instance = self.fleet.get(instance_id)
        except NoSuchInstanceError:
            return _detail(404, "Instance not found")
        events = [f"{to_rfc3339(time)} {phase.value}" for time, phase in instance.history]
        return _last(request, [*events, *filter(None, [instance.message])])

    def _balances(self, _: Request) -> Response:
        return json_response(200, {"balance": self.balance_micros / 1_000_000, "currency": "USD"})

    def _render(self, instance: Instance) -> dict[str, Any]:
        is_active = instance.phase in _ACTIVE
        if collection_of(instance):
            return render_machine(
                instance,
                _STATUS[instance.phase],
                self._render_billing(instance, is_active=is_active),
                is_shown=is_active and self._is_domain_known(instance),
            )
        is_started = instance.phase is Phase.RUNNING
        return {
            "id": instance.id,
            "name": instance.name,
            "instance_status": _STATUS[instance.phase],
            "container_status": "STARTED" if is_started else "NOT_STARTED",
            "resources": instance.details["resources"],
            "location": instance.details["location"],
            "container_info": instance.details["container_info"],
            "billing": self._render_billing(instance, is_active=is_active),
            "network": self._render_network(instance) if is_active else None,
            "created_at": to_rfc3339(instance.created_at),
            "updated_at": to_rfc3339(instance.changed_at),
        }

    def _render_billing(self, instance: Instance, *, is_active: bool) -> dict[str, Any]:
        now = self.clock.now()
        next_charge = self.billing.next_charge_at(instance, now) if is_active else None
        return {
            "hourly_usage": instance.micros_per_hour / 1_000_000 if is_active else 0,
            "total_spendings": self.billing.cost_micros(instance, now) / 1_000_000,
            "reserved_amount": 0,
            "next_billing_period": None if next_charge is None else to_rfc3339(next_charge),
        }

    def _render_network(self, instance: Instance) -> dict[str, Any]:
        """The domain comes a moment after the container has started."""
        is_known = self._is_domain_known(instance)
        ports = [
            {"port": number, "external_port": str(outside), "protocol": protocol}
            for port, outside in instance.external_ports.items()
            for number, _, protocol in [port.partition("/")]
        ]
        return {
            "domain": ADDRESS if is_known else None,
            "forwarded_ports": ports if is_known else [],
            "uri": None,
        }

    def _is_domain_known(self, instance: Instance) -> bool:
        started_at = instance.entered_at(Phase.RUNNING)
        return started_at is not None and self.clock.now() >= started_at + self._domain_delay


def _instance_from(launch: Launch, plan: Plan) -> Instance:
    settings = launch.container_settings
    location = launch.constraints.location if launch.constraints else None
    command = settings.startup_command
    return Instance(
        id=str(uuid.uuid4()),
        name=launch.name,
        offer=plan.name,
        image=settings.image,
        # Without a command the image's own entrypoint runs; ours waits to be used.
        argv=["/bin/sh", "-c", command] if command else ["sleep", "infinity"],
        environment={variable.name: variable.value for variable in settings.environment},
        ports=[f"{each.port}/{each.protocol}" for each in settings.expose],
        gpu=plan.gpu,
        micros_per_hour=plan.micros_per_hour,
        details={
            "ssh_key": launch.ssh_key,
            "location": location or plan.locations[0],
            "resources": {"supply": supply(plan), "gpu_model": gpu_model(plan)},
            "container_info": {
                "image": settings.image,
                "expose": [each.model_dump() for each in settings.expose],
                "environment": [each.model_dump() for each in settings.environment],
                "startup_command": command,
            },
        },
    )


def _render_plan(plan: Plan) -> dict[str, Any]:
    pricing = {"hour": plan.micros_per_hour / 1_000_000, "upfront_hours": 1, "currency": "USD"}
    return {
        "plan": {
            "id": plan.id,
            "name": plan.name,
            "supply": supply(plan),
            "gpu_model": gpu_model(plan),
            "pricing": pricing,
        },
        "attributes": {"location": list(plan.locations)},
    }


def _last(request: Request, lines: list[str]) -> Response:
    count = request.query.get("last", "")
    return json_response(200, lines[-int(count) :] if count.isdecimal() and int(count) else lines)
