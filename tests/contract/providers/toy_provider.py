"""The toy market itself, as a process like the other simulated providers."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from typing import Any, ClassVar

from local.boxes.spec import GPU
from local.providers.__main__ import main
from local.providers.billing import StartedMinutes
from local.providers.fleet import NoSuchInstanceError
from local.providers.instance import Instance, Phase
from local.providers.registry import SIMULATORS
from local.providers.simulator import Setup, Simulator
from local.providers.web import Handler, Request, Response, json_response

ASK = {
    "id": "small",
    "gpu": "RTX 4090",
    "vram_gib": 24,
    "memory_gib": 32,
    "disk_gib": 100,
    "country": "SE",
    "microusd_per_hour": 350_000,
}
STATUS = {
    Phase.PROVISIONING: "ordered",
    Phase.PULLING: "up",
    Phase.RUNNING: "up",
    Phase.GONE: "ended",
}


class ToySimulator(Simulator):
    """Speaks the wire API that `toy_cloud.py` expects."""

    name: ClassVar[str] = "toy"
    billing: ClassVar[StartedMinutes] = StartedMinutes()
    unsupported_faults: ClassVar[frozenset[str]] = frozenset({"page_size", "min_interval"})

    def __init__(self, setup: Setup) -> None:
        assert setup.price_file is None
        super().__init__(setup)

    def routes(self) -> Sequence[tuple[str, str, Handler]]:
        return (
            ("GET", "/asks", self._asks),
            ("GET", "/machines", self._list),
            ("POST", "/machines", self._create),
            ("GET", "/machines/([^/]+)", self._get),
            ("DELETE", "/machines/([^/]+)", self._delete),
        )

    def presented_key(self, request: Request) -> str | None:
        return request.headers.get("x-key")

    def refuse(self, _request: Request, *, has_key: bool) -> Response | None:
        return problem(401, "key")

    def too_many_requests(self, _request: Request) -> Response | None:
        return problem(429, "slow down") if self.faults.take("rate_limit") else None

    def unknown_path(self, request: Request, allowed: tuple[str, ...]) -> Response:
        return problem(404, "path")

    def broken_body(self, reason: str) -> Response:
        return problem(400, reason)

    def internal_error(self) -> Response:
        return problem(500, "bug")

    def reclaimed_phase(self, _instance: Instance) -> Phase:
        return Phase.GONE

    def settle(self) -> None:
        """Nothing is prepaid."""

    def _asks(self, _: Request) -> Response:
        return json_response(200, {"asks": [] if self.faults.value("no_capacity") else [ASK]})

    def _create(self, request: Request) -> Response:
        wanted = request.json()
        if self.faults.value("no_capacity"):
            return problem(409, "full")
        if self.faults.take("offer_gone"):
            return problem(409, "gone")
        if self.balance_micros <= 0:
            return problem(402, "money")
        instance = Instance(
            id=secrets.token_hex(8),
            name=wanted["name"],
            offer=wanted["ask"],
            image=wanted["image"],
            argv=["/bin/sh", "-c", wanted["script"]],
            environment=wanted["environment"],
            ports=[f"{port}/tcp" for port in wanted["ports"]],
            gpu=GPU("NVIDIA GeForce RTX 4090", 24564),
            micros_per_hour=ASK["microusd_per_hour"],
        )
        return self.create(instance, json_response(201, shown(instance)))

    def _list(self, _: Request) -> Response:
        return json_response(200, {"machines": [shown(each) for each in self.visible()]})

    def _get(self, _: Request, machine_id: str) -> Response:
        try:
            return json_response(200, shown(self.fleet.get(machine_id)))
        except NoSuchInstanceError:
            return problem(404, "machine")

    def _delete(self, _: Request, machine_id: str) -> Response:
        try:
            return self.destroy(self.fleet.get(machine_id), Response(204))
        except NoSuchInstanceError:
            return problem(404, "machine")


def problem(status: int, words: str) -> Response:
    return json_response(status, {"problem": words})


def shown(instance: Instance) -> dict[str, Any]:
    ports = {port.partition("/")[0]: out for port, out in instance.external_ports.items()}
    return {
        "id": instance.id,
        "name": instance.name,
        "status": STATUS.get(instance.phase, "broken"),
        "microusd_per_hour": instance.micros_per_hour,
        "since": instance.entered_at(Phase.PULLING),
        "host": "127.0.0.1",
        "ports": ports if instance.phase is Phase.RUNNING else {},
    }


if __name__ == "__main__":
    SIMULATORS["toy"] = ("tests.contract.providers.toy_provider:ToySimulator", "")
    sys.exit(main(sys.argv[1:]))
