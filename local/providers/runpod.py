"""A simulated RunPod, REST API v2: pods by the second, no spot, names that are not unique.

Not simulated: CPU pods, volumes, templates, registries, serverless, clusters, the log stream, and
accounts. A container whose command ends is an exited pod; it is not started again.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import ValidationError

from local.providers.billing import PerSecond
from local.providers.catalog import with_price_file
from local.providers.fleet import NoSuchInstanceError
from local.providers.instance import Instance, Phase
from local.providers.runpod_catalog import (
    RUNPOD_STOCK,
    STORAGE_COST,
    Asked,
    RunpodStock,
    render_catalog,
)
from local.providers.runpod_schema import (
    LARGEST_BODY,
    CreatePod,
    problem,
    validation_problem,
)
from local.providers.runpod_view import BadPageError, actions, list_page, render
from local.providers.simulator import Setup, Simulator
from local.providers.web import Handler, Request, Response, json_response

_POD = r"/v2/pods/([0-9A-Za-z-]+)"
_ADDRESS = "127.0.0.1"
_ID_LETTERS = string.ascii_lowercase + string.digits
_NO_CAPACITY = (
    "There are no longer any instances available with the requested specifications. "
    "Please refresh and try again."
)
_QUOTA = {"RateLimit-Policy": '"minute";q=60;w=60', "RateLimit": '"minute";r=59;t=60'}
_USED_UP = {"RateLimit": '"minute";r=0;t=1', "Retry-After": "1"}


class RunpodSimulator(Simulator):
    """Speaks https://api.runpod.io/v2."""

    name: ClassVar[str] = "runpod"
    # A failed pod is charged until somebody terminates it.
    billing: ClassVar[PerSecond] = PerSecond(charged=(Phase.RUNNING, Phase.FAILED))
    unsupported_faults: ClassVar[frozenset[str]] = frozenset({"min_interval"})
    own_faults: ClassVar[frozenset[str]] = frozenset(
        {"delete_not_now", "account_limit", "get_lag_seconds", "status_says"}
    )

    def __init__(self, setup: Setup) -> None:
        self._stock = with_price_file(RUNPOD_STOCK, setup.price_file)
        super().__init__(setup)

    def routes(self) -> Sequence[tuple[str, str, Handler]]:
        return (
            ("GET", "/v2/catalog/gpus", self._catalog),
            ("GET", "/v2/pods", self._list),
            ("POST", "/v2/pods", self._create_pod),
            ("GET", _POD, self._get),
            ("DELETE", _POD, self._terminate),
            ("POST", _POD + "/action", self._act),
        )

    def handle(self, request: Request) -> Response:
        answer = super().handle(request)
        return replace(answer, headers=_QUOTA | answer.headers)

    def presented_key(self, request: Request) -> str | None:
        return request.bearer_token

    def refuse(self, _request: Request, *, has_key: bool) -> Response | None:
        return problem(401, "invalid bearer token" if has_key else "missing bearer token")

    def too_many_requests(self, _request: Request) -> Response | None:
        if not self.faults.take("rate_limit"):
            return None
        answer = problem(429, "rate limit exceeded for the minute window")
        return replace(answer, headers=_USED_UP)

    def unknown_path(self, request: Request, allowed: tuple[str, ...]) -> Response:
        if allowed:
            return problem(405, f"use {', '.join(allowed)}")
        return problem(404, f"no such path {request.path}")

    def broken_body(self, reason: str) -> Response:
        return problem(400, f"the body is not JSON: {reason}")

    def internal_error(self) -> Response:
        return problem(500, "internal server error")

    def reclaimed_phase(self, _instance: Instance) -> Phase:
        """It looks like a pod that its owner stopped, and its disk goes on costing."""
        return Phase.STOPPED

    def settle(self) -> None:
        living = [each for each in self.fleet.all() if each.phase is not Phase.GONE]
        if living and self.balance_micros <= 0:
            for instance in living:
                self.fleet.end(instance.id, Phase.GONE)

    def container_environment(self, instance: Instance) -> dict[str, str]:
        variables = {
            "RUNPOD_POD_ID": instance.id,
            "RUNPOD_PUBLIC_IP": _ADDRESS,
            "RUNPOD_GPU_COUNT": str(instance.gpu.count),
            "RUNPOD_API_KEY": instance.details["api_key"],
        }
        if instance.details["data_center"] is not None:
            variables["RUNPOD_DC_ID"] = instance.details["data_center"]
        for port, outside in instance.external_ports.items():
            number, _, protocol = port.partition("/")
            if protocol == "tcp":
                variables[f"RUNPOD_TCP_PORT_{number}"] = str(outside)
        return variables

    def _catalog(self, request: Request) -> Response:
        query = request.query
        if "include" in query and "product" not in query:
            return problem(400, "product is required with include")
        count = query.get("count", "1")
        if not count.isdecimal() or int(count) < 1:
            return problem(422, "Request validation failed.", ["count: must be at least 1"])
        clouds = (query["cloud"],) if "cloud" in query else ("SECURE", "COMMUNITY")
        asked = Asked(() if self.faults.value("no_capacity") else clouds, int(count))
        return json_response(200, {"gpus": render_catalog(self._stock, self.fleet.all(), asked)})

    def _create_pod(self, request: Request) -> Response:
        if len(request.body) > LARGEST_BODY:
            return problem(413, f"the body is larger than {LARGEST_BODY} bytes")
        try:
            wanted = CreatePod.model_validate(request.json())
        except ValidationError as error:
            return validation_problem(error)
        if (broken := wanted.broken_rule()) is not None:
            return problem(400, broken)
        return self._deploy(wanted)

    def _deploy(self, wanted: CreatePod) -> Response:
        if self.faults.value("account_limit"):
            return problem(403, "access denied")
        entry = self._place(wanted)
        if entry is None or self.faults.take("offer_gone"):
            return problem(400, _NO_CAPACITY)
        instance = _instance_from(wanted, entry)
        if self.balance_micros < instance.micros_per_hour:
            return problem(402, "Your balance is too low to deploy this pod.")
        return self.create(instance, self._created(instance))

    def _created(self, instance: Instance) -> Response:
        now = self.clock.now()
        return json_response(201, render(replace(instance, history=[(now, instance.phase)]), now))

    def _place(self, wanted: CreatePod) -> RunpodStock | None:
        gpu = wanted.gpu
        if gpu is None:
            return None
        asked = Asked(
            clouds=(wanted.cloud,),
            count=gpu.count,
            gpu_id=gpu.id,
            data_centers=tuple(wanted.data_center_ids),
            min_ram_gb_per_gpu=gpu.min_ram_per_gpu,
            min_vcpus_per_gpu=gpu.min_vcpu_count_per_gpu,
        )
        return next(filter(asked.fits, self.in_stock(self._stock)), None)

    def _list(self, request: Request) -> Response:
        pods = [each for each in self.visible() if each.phase is not Phase.GONE]
        try:
            page, pagination = list_page(pods, request.query, self.faults.value("page_size"))
        except BadPageError as error:
            return problem(error.status, str(error))
        shown = [self._render(pod) for pod in page]
        return json_response(200, {"pods": shown, "pagination": pagination})

    def _get(self, _: Request, pod_id: str) -> Response:
        pod = self._find(pod_id)
        return _no_such_pod() if pod is None else json_response(200, self._render(pod))

    def _terminate(self, _: Request, pod_id: str) -> Response:
        pod = self._find(pod_id)
        if pod is None:
            return _no_such_pod()
        if self.faults.take("delete_not_now"):
            return _wrong_status("terminate")
        return self.destroy(pod, Response(204))

    def _act(self, request: Request, pod_id: str) -> Response:
        action = request.json_object().get("action")
        pod = self._find(pod_id)
        if pod is None:
            return _no_such_pod()
        if action == "terminate":
            return self._terminate(request, pod_id)
        if action not in ("start", "stop", "restart"):
            return problem(422, "Request validation failed.", ["$.action: not a known action"])
        if action not in actions(pod):
            return _wrong_status(action)
        if action != "start":
            # A stop wipes the container's disk.
            self.fleet.end(pod_id, Phase.STOPPED, wipe=True)
        if action != "stop":
            self.fleet.resume(pod_id)
        return json_response(200, self._render(self.fleet.get(pod_id)))

    def _find(self, pod_id: str) -> Instance | None:
        """A pod as requests for one see it: young ones may be unknown."""
        try:
            pod = self.fleet.get(pod_id)
        except NoSuchInstanceError:
            return None
        return None if self.is_unknown(pod) or pod.phase is Phase.GONE else pod

    def _render(self, pod: Instance) -> dict[str, Any]:
        return render(pod, self.clock.now(), self.faults.value("status_says"))


def _no_such_pod() -> Response:
    return problem(404, "pod not found")


def _wrong_status(action: str) -> Response:
    return problem(409, f"action {action} is not valid for the pod's current status")


def _instance_from(wanted: CreatePod, entry: RunpodStock) -> Instance:
    count = wanted.gpu.count if wanted.gpu is not None else 1
    gpu = {
        "id": entry.gpu_id,
        "count": count,
        "vcpuCount": entry.vcpus_per_gpu * count,
        "memory": entry.ram_gb_per_gpu * count,
    }
    return Instance(
        id="".join(secrets.choice(_ID_LETTERS) for _ in range(14)),
        name=wanted.name,
        offer=entry.name,
        image=wanted.image or "",
        argv=wanted.argv,
        environment=wanted.env,
        ports=wanted.ports,
        gpu=replace(entry.gpu, count=count),
        micros_per_hour=entry.micros_per_hour * count,
        details={
            "args": wanted.stored_args,
            "entrypoint": wanted.entrypoint,
            "cmd": wanted.cmd,
            "disk": wanted.disk,
            "storage_cost": STORAGE_COST,
            "gpu": gpu,
            "cloud": entry.cloud,
            "data_center": entry.data_center,
            "api_key": secrets.token_hex(16),
        },
    )
