"""The control surface of a simulator, for tests and demonstrations: `/_sim/...`, loopback only.

GET state, bill, faults, switches, balance; POST faults, balance, clock; DELETE faults[/NAME];
POST instances/ID/reclaim, outbid, resume, crash, exec; GET instances/ID/log.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from local.boxes.box import BoxError
from local.providers.faults import FaultError
from local.providers.fleet import NoSuchInstanceError, WrongPhaseError
from local.providers.instance import Instance
from local.providers.web import (
    BadJSONError,
    Request,
    Response,
    Router,
    json_response,
    text_response,
)

if TYPE_CHECKING:
    from local.providers.simulator import Simulator

_INSTANCE = r"/_sim/instances/([^/]+)"
_LOOPBACK_NAMES = ("127.0.0.1", "localhost")
_NOTICES = ("none", "sigterm")


class BadCommandError(ValueError):
    """A control request makes no sense; the message says what would."""


class Control:
    """Answers the control requests of one simulator."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._router = Router(
            (
                ("GET", "/_sim/state", self._state),
                ("GET", "/_sim/bill", self._bill),
                ("GET", "/_sim/faults", self._faults),
                ("GET", "/_sim/switches", self._switches),
                ("POST", "/_sim/faults", self._set_faults),
                ("DELETE", "/_sim/faults", self._clear_faults),
                ("DELETE", r"/_sim/faults/([a-z0-9_]+)", self._clear_faults),
                ("GET", "/_sim/balance", self._balance),
                ("POST", "/_sim/balance", self._set_balance),
                ("POST", "/_sim/clock", self._advance_clock),
                ("POST", _INSTANCE + "/reclaim", self._reclaim),
                ("POST", _INSTANCE + "/outbid", self._outbid),
                ("POST", _INSTANCE + "/resume", self._resume),
                ("POST", _INSTANCE + "/crash", self._crash),
                ("POST", _INSTANCE + "/exec", self._exec),
                ("GET", _INSTANCE + "/log", self._log),
            )
        )

    def handle(self, request: Request) -> Response:
        # A web page open in a browser on this machine must not be able to run commands here.
        host = request.headers.get("host", "").rpartition(":")[0]
        if "origin" in request.headers or host not in _LOOPBACK_NAMES:
            return json_response(403, {"error": "the control surface is for loopback clients only"})
        self._simulator.settle_now()
        match = self._router.find(request.method, request.path)
        if match.handler is None:
            return json_response(404, {"error": f"no {request.method} {request.path}"})
        try:
            return match.handler(request, *match.groups)
        except NoSuchInstanceError as error:
            return json_response(404, {"error": f"no instance {error}"})
        except (BadJSONError, BadCommandError, FaultError) as error:
            return json_response(400, {"error": str(error)})
        except (WrongPhaseError, BoxError) as error:
            return json_response(409, {"error": str(error)})

    def _state(self, _: Request) -> Response:
        simulator = self._simulator
        return json_response(
            200,
            {
                "provider": simulator.name,
                "shows_stock": simulator.shows_stock,
                "now": simulator.clock.now(),
                "faults": simulator.faults.active(),
                "balance_micros": simulator.balance_micros,
                "instances": [self._describe(each) for each in simulator.fleet.all()],
            },
        )

    def _describe(self, instance: Instance) -> dict[str, Any]:
        box = self._simulator.fleet.find_box(instance.id)
        is_alive = box is not None and box.is_alive
        return {
            "id": instance.id,
            "name": instance.name,
            "offer": instance.offer,
            "kind": instance.kind,
            "phase": instance.phase.value,
            "history": instance.history,
            "created_at": instance.created_at,
            "micros_per_hour": instance.micros_per_hour,
            "external_ports": instance.external_ports,
            "message": instance.message,
            "box_is_alive": is_alive,
            "is_leaving": self._simulator.is_leaving(instance),
            "box_pid": box.pid if box is not None and is_alive else None,
        }

    def _bill(self, _: Request) -> Response:
        bill = self._simulator.bill()
        instances = [
            {
                "id": each.id,
                "name": each.name,
                "phase": each.phase.value,
                "cost_micros": bill[each.id],
            }
            for each in self._simulator.fleet.all()
            if each.id in bill
        ]
        return json_response(200, {"instances": instances, "total_micros": sum(bill.values())})

    def _faults(self, _: Request) -> Response:
        return json_response(200, self._simulator.faults.active())

    def _switches(self, _: Request) -> Response:
        return json_response(200, {"switches": self._simulator.faults.names()})

    def _set_faults(self, request: Request) -> Response:
        self._simulator.faults.set(request.json_object())
        return self._faults(request)

    def _clear_faults(self, request: Request, name: str | None = None) -> Response:
        self._simulator.faults.clear(name)
        return self._faults(request)

    def _balance(self, _: Request) -> Response:
        return json_response(200, {"micros": self._simulator.balance_micros})

    def _set_balance(self, request: Request) -> Response:
        self._simulator.set_balance(int(_number(request, "micros", negative=True)))
        return self._balance(request)

    def _advance_clock(self, request: Request) -> Response:
        self._simulator.advance_clock(_number(request, "advance_seconds"))
        return json_response(200, {"now": self._simulator.clock.now()})

    def _reclaim(self, request: Request, instance_id: str) -> Response:
        body = request.json_object()
        notice = body.get("notice", "none")
        if notice not in _NOTICES:
            raise BadCommandError(f"notice: {notice!r} is not one of {', '.join(_NOTICES)}")
        seconds = _number(request, "seconds", default=0.0)
        instance = self._simulator.fleet.get(instance_id)
        self._simulator.reclaim(instance, warn=notice == "sigterm", seconds=seconds)
        return json_response(200, {})

    def _outbid(self, _: Request, instance_id: str) -> Response:
        instance = self._simulator.fleet.get(instance_id)
        if not self._simulator.can_be_outbid(instance):
            raise WrongPhaseError(f"{instance_id} was not rented by bid; it cannot be outbid")
        self._simulator.reclaim(instance, warn=False, seconds=0)
        return json_response(200, {})

    def _resume(self, _: Request, instance_id: str) -> Response:
        self._simulator.fleet.get(instance_id)
        self._simulator.fleet.resume(instance_id)
        return json_response(200, {})

    def _crash(self, _: Request, instance_id: str) -> Response:
        self._simulator.fleet.get(instance_id)
        self._simulator.fleet.box(instance_id).kill()
        return json_response(200, {})

    def _exec(self, request: Request, instance_id: str) -> Response:
        body = request.json_object()
        argv = body.get("argv")
        if not isinstance(argv, list) or not argv or not all(isinstance(x, str) for x in argv):
            raise BadCommandError('argv: wanted a list of words, for example ["/bin/ls", "/"]')
        timeout = _number(request, "timeout_seconds", default=10.0)
        self._simulator.fleet.get(instance_id)
        result = self._simulator.fleet.run(instance_id, argv, timeout)
        return json_response(
            200,
            {
                "exit_code": result.exit_code,
                "stdout": result.stdout.decode(errors="replace"),
                "stderr": result.stderr.decode(errors="replace"),
                "stdout_base64": base64.b64encode(result.stdout).decode(),
            },
        )

    def _log(self, _: Request, instance_id: str) -> Response:
        self._simulator.fleet.get(instance_id)
        return text_response(200, self._simulator.fleet.log_text(instance_id))


def _number(
    request: Request, name: str, *, default: float | None = None, negative: bool = False
) -> float:
    value: Any = request.json_object().get(name, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or (value < 0 and not negative):
        raise BadCommandError(f"{name}: wanted a number{'' if negative else ' >= 0'}")
    return float(value)
