"""A simulated Vast.ai: a market of hosts, on demand and by bid, billed by the second.

Not simulated: virtual machines, volumes, templates, webhooks, traffic costs, and queued rentals
(`cancel_unavail: false` is answered like true when the machine is taken).
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from local.providers.billing import PerSecond
from local.providers.catalog import VAST_MACHINES, HostMachine, with_price_file
from local.providers.fleet import NoSuchInstanceError, WrongPhaseError
from local.providers.instance import Instance, Phase
from local.providers.intervals import IntervalLimits
from local.providers.simulator import Setup, Simulator
from local.providers.vastai_launch import Launch, LaunchRefusedError, is_bid_too_low, read_launch
from local.providers.vastai_limits import DOCUMENTED_SECONDS, ENDPOINTS
from local.providers.vastai_search import AskBook, BadFilterError, machine_facts, search
from local.providers.vastai_view import list_page, render
from local.providers.web import (
    Handler,
    Request,
    Response,
    json_response,
    text_response,
)

_SEARCH = "/api/v0/bundles/"
_INSTANCE = r"/api/v0/instances/(\d+)/"
_PUBLIC_ADDRESS = "127.0.0.1"
_HIGHEST_NEW_BID = 32.0


def _error(status: int, code: str, message: str, **more: Any) -> Response:
    return json_response(status, {"success": False, "error": code, "msg": message, **more})


def _no_such_instance() -> Response:
    return _error(404, "no_such_instance", "Instance with that ID does not exist.")


class VastSimulator(Simulator):
    """Speaks https://console.vast.ai/api (v0, and v1 for the list)."""

    name: ClassVar[str] = "vastai"
    billing: ClassVar[PerSecond] = PerSecond()
    own_faults: ClassVar[frozenset[str]] = frozenset({"outbid"})

    def __init__(self, setup: Setup) -> None:
        self._machines = with_price_file(VAST_MACHINES, setup.price_file)
        self._by_name = {machine.name: machine for machine in self._machines}
        self._asks = AskBook()
        self._limits = IntervalLimits(ENDPOINTS)
        super().__init__(setup)

    def routes(self) -> Sequence[tuple[str, str, Handler]]:
        return (
            ("POST", _SEARCH, self._search),
            ("PUT", r"/api/v0/asks/(\d+)/", self._launch),
            ("GET", "/api/v1/instances/", self._list),
            ("GET", _INSTANCE, self._get),
            ("PUT", _INSTANCE, self._manage),
            ("DELETE", _INSTANCE, self._destroy),
            ("PUT", r"/api/v0/instances/bid_price/(\d+)/", self._change_bid),
            ("PUT", r"/api/v0/instances/request_logs/(\d+)/?", self._request_logs),
            ("GET", "/api/v0/users/current/", self._current_user),
        )

    def presented_key(self, request: Request) -> str | None:
        return request.bearer_token

    def refuse(self, request: Request, *, has_key: bool) -> Response | None:
        if request.path != _SEARCH:
            return _error(401, "auth_error", "Invalid user key")
        # Searching needs no key at all, and answers 404 to a wrong one.
        if has_key or self.faults.value("unauthorised"):
            return _error(404, "auth_error", "Invalid user key")
        return None

    def too_many_requests(self, request: Request) -> Response | None:
        if self.faults.take("rate_limit"):
            return text_response(429, "API requests too frequent")
        chosen = self.faults.value("min_interval")
        seconds: Mapping[str, float] = DOCUMENTED_SECONDS if chosen is True else chosen or {}
        threshold = self._limits.broken_threshold(request.method, request.path, seconds)
        if threshold is None:
            return None
        text = f"API requests too frequent endpoint threshold={threshold:g}"
        return text_response(429, text)

    def unknown_path(self, request: Request, allowed: tuple[str, ...]) -> Response:
        if allowed:
            return _error(405, "method_not_allowed", f"use {', '.join(allowed)}")
        return _error(404, "not_found", f"no such path {request.path}")

    def broken_body(self, reason: str) -> Response:
        return _error(400, "invalid_args", reason)

    def internal_error(self) -> Response:
        return text_response(500, "Internal Server Error")

    def reclaimed_phase(self, instance: Instance) -> Phase:
        """A bid is outbid and stopped; an on-demand rental ends only with its host."""
        return Phase.STOPPED if self.can_be_outbid(instance) else Phase.OFFLINE

    def can_be_outbid(self, instance: Instance) -> bool:
        return bool(instance.details["is_bid"])

    def settle(self) -> None:
        running = [each for each in self.fleet.all() if each.phase is Phase.RUNNING]
        for instance in running:
            if self.can_be_outbid(instance) and self.faults.take("outbid"):
                self.fleet.end(instance.id, Phase.STOPPED)
        if running and self.balance_micros <= 0:
            for instance in running:
                self.fleet.end(instance.id, Phase.STOPPED)

    def container_environment(self, instance: Instance) -> dict[str, str]:
        variables = {
            "CONTAINER_ID": instance.id,
            "CONTAINER_API_KEY": instance.details["api_key"],
            "VAST_CONTAINERLABEL": f"C.{instance.id}",
            "PUBLIC_IPADDR": _PUBLIC_ADDRESS,
            "GPU_COUNT": str(instance.gpu.count),
        }
        for port, outside in instance.external_ports.items():
            number, _, protocol = port.partition("/")
            variables[f"VAST_{protocol.upper()}_PORT_{number}"] = str(outside)
        return variables

    def container_files(self, instance: Instance) -> dict[str, str]:
        return {
            "/root/onstart.sh": instance.details["onstart"],
            "/root/.vast_containerlabel": f"C.{instance.id}\n",
            "/root/.vast_api_key": instance.details["api_key"],
            "/root/ports.log": "".join(
                f"{port} {outside}\n" for port, outside in instance.external_ports.items()
            ),
        }

    def _search(self, request: Request) -> Response:
        try:
            query = request.json_object()
            offers = search(query, self.in_stock(self._machines), self._asks, self.clock.now())
        except BadFilterError as error:
            return _error(400, "invalid_args", str(error))
        return json_response(200, {"offers": offers})

    def _launch(self, request: Request, ask_text: str) -> Response:
        ask = int(ask_text)
        try:
            launch = read_launch(request.json())
        except LaunchRefusedError as error:
            return _error(400, error.code, str(error))
        machine = self._asks.find(ask)
        if machine is None:
            return _ask_is_gone(ask)
        if machine not in self.in_stock(self._machines) or self.faults.take("offer_gone"):
            self._asks.withdraw(ask)
            return _ask_is_unavailable(ask, launch)
        if self.balance_micros <= 0:
            return _error(400, "insufficient_credit", "Your account lacks credit")
        return self._create(ask, launch, machine)

    def _create(self, ask: int, launch: Launch, machine: HostMachine) -> Response:
        instance = _instance_from(launch, machine)
        contract = int(instance.id)
        if is_bid_too_low(launch, machine):
            # The error notwithstanding, a stopped instance exists and its disk is billed.
            instance.phase = Phase.STOPPED
            self.fleet.add(instance)
            return _error(400, "invalid_price", "bid too low", new_contract=contract)
        self._asks.withdraw(ask)
        body = {
            "success": True,
            "new_contract": contract,
            "instance_api_key": instance.details["api_key"],
        }
        return self.create(instance, json_response(200, body))

    def _list(self, request: Request) -> Response:
        rows = [self._render(each) for each in self.visible() if each.phase is not Phase.GONE]
        try:
            page = list_page(rows, request.query, self.faults.value("page_size"))
        except BadFilterError as error:
            return _error(400, "invalid_args", str(error))
        return json_response(200, page)

    def _get(self, _: Request, instance_id: str) -> Response:
        instance = self._find(instance_id)
        return json_response(200, {"instances": self._render(instance) if instance else None})

    def _destroy(self, _: Request, instance_id: str) -> Response:
        instance = self._find(instance_id)
        if instance is None:
            return _no_such_instance()
        return self.destroy(instance, json_response(200, {"success": True}))

    def _manage(self, request: Request, instance_id: str) -> Response:
        instance = self._find(instance_id)
        if instance is None:
            return _no_such_instance()
        body = request.json_object()
        if "label" in body:

            def relabel(stored: Instance) -> None:
                stored.name = str(body["label"])

            self.fleet.change(instance_id, relabel)
        return self._set_state(instance, body.get("state"))

    def _set_state(self, instance: Instance, state: Any) -> Response:
        if state not in (None, "stopped", "running"):
            return _error(400, "invalid_args", "state must be stopped or running")
        if state == "stopped":
            self.fleet.end(instance.id, Phase.STOPPED)
        if state == "running" and instance.phase is not Phase.RUNNING:
            try:
                self.fleet.resume(instance.id)
            except WrongPhaseError as error:
                return _error(400, "invalid_args", str(error))
        return json_response(200, {"success": True})

    def _change_bid(self, request: Request, instance_id: str) -> Response:
        instance = self._find(instance_id)
        if instance is None:
            return _no_such_instance()
        price = request.json_object().get("price")
        if not isinstance(price, int | float) or not 0 < price <= _HIGHEST_NEW_BID:
            return _error(400, "invalid_price", f"price must be at most {_HIGHEST_NEW_BID:g}")

        def rebid(stored: Instance) -> None:
            stored.micros_per_hour = round(price * 1_000_000)

        self.fleet.change(instance_id, rebid)
        return json_response(200, {"success": True})

    def _request_logs(self, request: Request, instance_id: str) -> Response:
        if self._find(instance_id) is None:
            return _no_such_instance()
        url = f"http://{request.headers['host']}/_sim/instances/{instance_id}/log"
        return json_response(200, {"success": True, "result_url": url})

    def _current_user(self, _: Request) -> Response:
        credit = self.balance_micros / 1_000_000
        return json_response(200, {"id": 123, "credit": credit, "balance": 0.0})

    def _find(self, instance_id: str) -> Instance | None:
        try:
            instance = self.fleet.get(instance_id)
        except NoSuchInstanceError:
            return None
        return None if instance.phase is Phase.GONE else instance

    def _render(self, instance: Instance) -> dict[str, Any]:
        machine = self._by_name[instance.offer]
        return render(instance, machine_facts(machine), self.clock.now())


def _ask_is_gone(ask: int) -> Response:
    return _error(
        404,
        "invalid_args",
        f"error 404/3603: no_such_ask Instance type by id {ask} is not available.",
        ask_id=ask,
    )


def _ask_is_unavailable(ask: int, launch: Launch) -> Response:
    if not launch.is_cancelled_if_unavailable:
        return _ask_is_gone(ask)
    return _error(
        410,
        "no_such_ask",
        f"error 410/3907: no_such_ask Instance type {ask} is no longer available.",
        ask_id=ask,
    )


def _instance_from(launch: Launch, machine: HostMachine) -> Instance:
    is_bid = launch.price_micros is not None
    return Instance(
        id=str(random.randint(10_000_000, 99_999_999)),
        name=launch.label,
        offer=machine.name,
        image=launch.image,
        argv=launch.argv,
        environment=launch.environment,
        ports=list(launch.ports),
        gpu=machine.gpu,
        micros_per_hour=launch.price_micros or machine.micros_per_hour,
        details={
            "disk": launch.disk,
            "storage_cost": machine.storage_cost,
            "is_bid": is_bid,
            "runtype": launch.runtype,
            "onstart": launch.onstart,
            "args": list(launch.args),
            "raw_environment": launch.raw_environment,
            "api_key": secrets.token_hex(16),
        },
    )
