"""A simulated Lambda Cloud: virtual machines by the started minute, no spot, no idempotency.

Not simulated: file systems, images, firewalls (every port of a machine can be reached), and
restarts. The words of a refused termination are not documented.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import ValidationError

from local.providers.billing import StartedMinutes
from local.providers.catalog import with_price_file
from local.providers.fleet import NoSuchInstanceError
from local.providers.instance import Instance, Phase
from local.providers.intervals import Endpoint, IntervalLimits
from local.providers.lambda_catalog import LAMBDA_STOCK, LambdaStock, render_catalog
from local.providers.lambda_schema import (
    CAPACITY,
    INVALID,
    MISSING,
    AddSshKey,
    LaunchInstance,
    TerminateInstances,
    data,
    invalid,
    refused,
)
from local.providers.simulator import Setup, Simulator
from local.providers.web import Handler, Request, Response

_API = "/api/v1"
_ADDRESS = "127.0.0.1"
_ANY = re.compile(".*")
_ENDPOINTS: Sequence[Endpoint] = (
    ("POST", re.compile(r"/api/v1/instance-operations/launch"), "launch"),
    ("GET", _ANY, "other"),
    ("POST", _ANY, "other"),
)
_DOCUMENTED_SECONDS: Mapping[str, float] = {"launch": 12.0, "other": 1.0}
_STATUS = {
    Phase.PROVISIONING: "booting",
    Phase.PULLING: "active",
    Phase.RUNNING: "active",
    Phase.GONE: "terminating",
}
_ACTIONS = ("migrate", "rebuild", "restart", "cold_reboot", "terminate")
_REASONS = {"booting": "vm-has-not-launched", "terminating": "vm-is-terminating"}


class LambdaSimulator(Simulator):
    """Speaks https://cloud.lambda.ai/api/v1."""

    name: ClassVar[str] = "lambda"
    billing: ClassVar[StartedMinutes] = StartedMinutes()
    unsupported_faults: ClassVar[frozenset[str]] = frozenset({"page_size"})
    own_faults: ClassVar[frozenset[str]] = frozenset(
        {"delete_not_now", "account_limit", "status_says", "terminating_seconds"}
    )

    def __init__(self, setup: Setup) -> None:
        self._stock = with_price_file(LAMBDA_STOCK, setup.price_file)
        self._by_name = {entry.name: entry for entry in self._stock}
        self._limits = IntervalLimits(_ENDPOINTS)
        # The account is not new: Podferry has used it before.
        self._ssh_keys = [_ssh_key("podferry", "ssh-ed25519 AAAAMadeHere")]
        super().__init__(setup)

    def routes(self) -> Sequence[tuple[str, str, Handler]]:
        return (
            ("GET", _API + "/instance-types", self._list_types),
            ("GET", _API + "/instances", self._list),
            ("GET", _API + "/instances/([0-9A-Za-z-]+)", self._get),
            ("POST", _API + "/instance-operations/launch", self._launch),
            ("POST", _API + "/instance-operations/terminate", self._terminate),
            ("GET", _API + "/ssh-keys", self._list_keys),
            ("POST", _API + "/ssh-keys", self._add_key),
            ("DELETE", _API + "/ssh-keys/([0-9a-f]+)", self._delete_key),
        )

    def presented_key(self, request: Request) -> str | None:
        return request.bearer_token

    def refuse(self, _request: Request, *, has_key: bool) -> Response | None:  # noqa: ARG002
        return refused(401, "global/invalid-api-key", "API key was invalid, expired, or deleted.")

    def too_many_requests(self, request: Request) -> Response | None:
        chosen = self.faults.value("min_interval")
        seconds = _DOCUMENTED_SECONDS if chosen is True else chosen or {}
        is_early = self._limits.broken_threshold(request.method, request.path, seconds) is not None
        if is_early or self.faults.take("rate_limit"):
            return refused(429, "global/rate-limited", "Too many requests.")
        return None

    def unknown_path(self, request: Request, allowed: tuple[str, ...]) -> Response:
        if allowed:
            return refused(405, INVALID, f"use {', '.join(allowed)}")
        return refused(404, MISSING, f"no such path {request.path}")

    def broken_body(self, reason: str) -> Response:
        return refused(400, INVALID, f"Invalid request: {reason}")

    def internal_error(self) -> Response:
        return refused(500, "global/internal-error", "An unexpected error occurred.")

    def reclaimed_phase(self, _instance: Instance) -> Phase:
        """Its host fails: it is unhealthy, and costs money."""
        return Phase.OFFLINE

    def settle(self) -> None:
        """Lambda sends an invoice once a week."""

    def _list_types(self, _: Request) -> Response:
        return data(render_catalog(self._stock, self.in_stock(self._stock)))

    def _list(self, _: Request) -> Response:
        return data([self._render(each) for each in self.visible() if self._is_shown(each)])

    def _get(self, _: Request, instance_id: str) -> Response:
        instance = self._find(instance_id)
        return _no_such_instance() if instance is None else data(self._render(instance))

    def _launch(self, request: Request) -> Response:
        try:
            wanted = LaunchInstance.model_validate(request.json())
        except ValidationError as error:
            return invalid(error)
        if wanted.ssh_key_names[0] not in {key["name"] for key in self._ssh_keys}:
            return refused(404, MISSING, "Specified SSH key does not exist.")
        if self.balance_micros <= 0:
            return refused(403, "global/account-inactive", "Your account is inactive.")
        if self.faults.value("account_limit"):
            return refused(400, "global/quota-exceeded", "Quota exceeded.")
        entry = self._place(wanted)
        if entry is None or self.faults.take("offer_gone"):
            return refused(400, CAPACITY, "Not enough capacity to fulfill launch request.")
        instance = _instance_from(wanted, entry)
        return self.create(instance, data({"instance_ids": [instance.id]}))

    def _place(self, wanted: LaunchInstance) -> LambdaStock | None:
        entry = self._by_name.get(f"{wanted.instance_type_name}@{wanted.region_name}")
        return entry if entry is not None and self.in_stock([entry]) else None

    def _terminate(self, request: Request) -> Response:
        try:
            wanted = TerminateInstances.model_validate(request.json())
        except ValidationError as error:
            return invalid(error)
        if len(wanted.instance_ids) != 1:
            return refused(400, INVALID, "one id in a call is simulated")
        instance = self._find(wanted.instance_ids[0])
        if instance is None:
            return _no_such_instance()
        if self.faults.take("delete_not_now"):
            return data({"terminated_instances": []})
        if (reason := _REASONS.get(self._status(instance))) is not None:
            return refused(400, INVALID, f"The instance cannot be terminated: {reason}")
        shown = self._render(instance) | {"status": "terminating"}
        return self.destroy(instance, data({"terminated_instances": [shown]}))

    def _list_keys(self, _: Request) -> Response:
        return data(self._ssh_keys)

    def _add_key(self, request: Request) -> Response:
        try:
            wanted = AddSshKey.model_validate(request.json())
        except ValidationError as error:
            return invalid(error)
        if wanted.name in {key["name"] for key in self._ssh_keys}:
            return refused(400, "global/duplicate", "An SSH key with this name exists.")
        made = wanted.public_key is None
        key = _ssh_key(wanted.name, wanted.public_key or "ssh-ed25519 AAAAMadeHere")
        self._ssh_keys.append(key)
        return data(key | ({"private_key": "simulated: a private key"} if made else {}))

    def _delete_key(self, _: Request, key_id: str) -> Response:
        kept = [key for key in self._ssh_keys if key["id"] != key_id]
        if len(kept) == len(self._ssh_keys):
            return refused(404, MISSING, "Specified SSH key does not exist.")
        self._ssh_keys = kept
        return data({})

    def _find(self, instance_id: str) -> Instance | None:
        try:
            instance = self.fleet.get(instance_id)
        except NoSuchInstanceError:
            return None
        return instance if self._is_shown(instance) else None

    def _is_shown(self, instance: Instance) -> bool:
        """Until it has ended for good."""
        return instance.phase is not Phase.GONE or self.is_ending(instance)

    def _status(self, instance: Instance) -> str:
        return _STATUS.get(instance.phase, "unhealthy")

    def _render(self, instance: Instance) -> dict[str, Any]:
        details = instance.details
        entry = self._by_name[instance.offer]
        status = self._status(instance)
        shown = {
            "id": instance.id,
            "name": instance.name,
            "status": self.faults.value("status_says") or status,
            "ssh_key_names": details["ssh_key_names"],
            "file_system_names": [],
            "region": entry.rendered_region,
            "instance_type": entry.render_type(instance.micros_per_hour),
            "hostname": "127-0-0-1",
            "jupyter_token": details["jupyter_token"],
            "jupyter_url": f"https://jupyter.example.com/?token={details['jupyter_token']}",
            "tags": details["tags"],
            "actions": {name: _action(status) for name in _ACTIONS},
        }
        # The address comes some time after the machine is active.
        is_reachable = instance.phase is Phase.RUNNING
        return shown | ({"ip": _ADDRESS, "private_ip": _ADDRESS} if is_reachable else {})


def _action(status: str) -> dict[str, Any]:
    reason = _REASONS.get(status)
    if reason is None:
        return {"available": True}
    return {"available": False, "reason_code": reason, "reason_description": reason}


def _no_such_instance() -> Response:
    return refused(404, MISSING, "Specified instance does not exist.")


def _ssh_key(name: str, public_key: str) -> dict[str, str]:
    return {"id": secrets.token_hex(16), "name": name, "public_key": public_key}


def _instance_from(wanted: LaunchInstance, entry: LambdaStock) -> Instance:
    return Instance(
        id=secrets.token_hex(16),
        name=wanted.name or "",
        offer=entry.name,
        image="",
        argv=[],
        environment={},
        # Its ports keep their numbers: it has an address of its own.
        ports=[],
        gpu=entry.gpu,
        micros_per_hour=entry.micros_per_hour,
        user_data=wanted.user_data or "",
        details={
            "ssh_key_names": wanted.ssh_key_names,
            "tags": [tag.model_dump() for tag in wanted.tags],
            "jupyter_token": secrets.token_hex(16),
        },
    )
