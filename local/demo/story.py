"""The demo's plot, step by step. Each step checks what it shows and raises if it does not hold."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from local.api import Api, ApiError
from local.demo import pod_shell
from local.demo.compare import Inventory, differences, read_inventory, total_bytes
from local.demo.place import Place
from local.stack import StackInfo

Say = Callable[[str], None]

IMAGE = "docker.io/library/debian:12"
STARTUP = "#!/bin/sh\n[ ! -x /opt/start.sh ] || exec /opt/start.sh\n"
OPERATION_SECONDS = 300.0
ENDED_PHASES = frozenset({"gone", "failed"})


class DemoFailedError(Exception):
    """Something that the demo shows does not hold."""


@dataclass(frozen=True, slots=True)
class Hop:
    """The pod's arrival on a machine, and what had changed on the way."""

    how: str
    """Launch, start or move."""
    provider: str
    kind: str
    """Of the machine: container, vm or baremetal."""
    seconds: float
    """From the request until the pod runs."""
    differences: int | None
    """From the pod in which the work was done; `None` before that."""


@dataclass
class Story:
    """One pod's life, at all `places` in turn and in the end at the first again."""

    api: Api
    places: tuple[Place, ...]
    info: StackInfo
    wheel: Path
    say: Say
    pod_id: str = ""
    inventory: Inventory = field(default_factory=dict)
    hops: list[Hop] = field(default_factory=list)
    timeline: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    costs: dict[str, int] = field(default_factory=dict)
    earlier: dict[str, set[str]] = field(default_factory=dict)
    """Instances that each provider knew before: they belong to other pods."""

    def play(self) -> None:
        """All of it."""
        first, second, *others = self.places
        self.launch(first)
        self.work()
        self.stop(first)
        self.start(second)
        here = second
        for there in (*others, first):
            self.move(here, there)
            here = there
        self.tidy_up(here)

    def launch(self, place: Place) -> None:
        """A new pod."""
        for each in {place.provider for place in self.places}:
            self.earlier[each] = {known["id"] for known in self._instances(each, "state")}
        self.say(f"launching a pod at {place}")
        started = time.monotonic()
        pod = self.api.post(
            "/v1/pods",
            {
                "name": "demo",
                "spec": {"image": IMAGE, "startup_script": STARTUP, "stop_grace_seconds": 2},
                "requirements": place.requirements,
            },
        )
        self.pod_id = pod["id"]
        self._follow("launch", pod["operation"]["id"])
        self._note_hop("launch", place.provider, time.monotonic() - started, None)

    def work(self) -> None:
        """What a user does in it."""
        self.say("in the pod: a virtual environment with a package from a wheel, a startup script")
        name = f"/root/{self.wheel.name}"
        pod_shell.put_file(self.api, self.pod_id, name, self.wheel.read_bytes())
        install = (
            "set -e; python3 -m venv /opt/tools; "
            f"/opt/tools/bin/python -m pip install -q --no-index --no-deps {name}"
        )
        pod_shell.run(self.api, self.pod_id, script=install, seconds=180)
        start = (pod_shell.POD_FILES / "start.sh").read_bytes()
        pod_shell.put_file(self.api, self.pod_id, "/opt/start.sh", start, "755")
        self.say("in the pod: checkpoints, a database, odd names, links, modes, owners, xattrs")
        noted = pod_shell.run_file(self.api, self.pod_id, "fill.py", 180).decode()
        for line in noted.splitlines():
            self.say(f"  {line}")
        self.inventory = self._inventory()
        size = total_bytes(self.inventory) / 1e6
        self.say(f"  {len(self.inventory):,} paths, {size:,.0f} MB")

    def stop(self, place: Place) -> None:
        """Stop, show the receipt, and prove that the provider has nothing left."""
        self.say("stopping: both captures, verification, then the machine goes")
        asked = self.api.post(f"/v1/pods/{self.pod_id}/stop")
        operation = self._follow("stop", asked["id"])
        self._show_receipt(operation["result"])
        self._check_released(place.provider, operation["result"])

    def start(self, place: Place) -> None:
        """Start at another place and compare everything."""
        self.say(f"starting at {place}")
        started = time.monotonic()
        wanted = {"requirements": place.requirements}
        asked = self.api.post(f"/v1/pods/{self.pod_id}/start", wanted)
        self._follow("start", asked["id"])
        self._check_equal("start", place.provider, time.monotonic() - started)

    def move(self, here: Place, there: Place) -> None:
        """Move from one place to another and compare everything again."""
        self.say(f"moving from {here} to {there}")
        started = time.monotonic()
        wanted = {"requirements": there.requirements}
        asked = self.api.post(f"/v1/pods/{self.pod_id}/move", wanted)
        operation = self._follow("move", asked["id"], show_timeline=False)
        seconds = time.monotonic() - started
        for half in operation["halves"]:
            view = self.api.get(f"/v1/operations/{half}")
            self.timeline.append((f"{there}: {view['kind']}", view))
            if view["kind"] == "stop":
                self._check_released(here.provider, view["result"])
        self._check_equal("move", there.provider, seconds)

    def tidy_up(self, place: Place) -> None:
        """Stop and delete the pod, so that nothing runs and nothing costs."""
        self.say("stopping and deleting the pod")
        asked = self.api.post(f"/v1/pods/{self.pod_id}/stop")
        operation = self._follow("last stop", asked["id"])
        self._check_released(place.provider, operation["result"])
        self.api.call("DELETE", f"/v1/pods/{self.pod_id}")

    def _follow(self, label: str, operation_id: str, *, show_timeline: bool = True) -> Any:
        """Wait for the operation, showing its phases."""
        shown: set[tuple[str, str]] = set()
        operation: dict[str, Any] = {}
        for operation in self.api.watch(operation_id, OPERATION_SECONDS):
            for part in (operation, *self._begun_halves(operation)):
                for milestone in part["milestones"]:
                    phase = (part["id"], milestone["phase"])
                    if phase not in shown:
                        shown.add(phase)
                        self.say(f"  {part['kind']}: {in_words(milestone['phase'])}")
        if operation["state"] != "succeeded":
            raise DemoFailedError(f"{label} {operation['state']}: {operation['error']}")
        if show_timeline:
            self.timeline.append((label, operation))
        return operation

    def _begun_halves(self, operation: dict[str, Any]) -> list[dict[str, Any]]:
        """The stop and the start of a move, as far as they have begun."""
        found = []
        for half in operation["halves"]:
            try:
                found.append(self.api.get(f"/v1/operations/{half}"))
            except ApiError as error:
                if error.status != httpx.codes.NOT_FOUND:
                    raise
        return found

    def _show_receipt(self, receipt: dict[str, Any]) -> None:
        for part in ("environment", "volume"):
            capture = receipt[part]
            self.say(
                f"  receipt: {part} {capture['snapshot_id']}: {capture['files']:,} files, "
                f"{capture['bytes'] / 1e6:,.1f} MB, {capture['stored_bytes'] / 1e6:,.1f} MB stored"
            )
        self.say(f"  receipt: machine cost {receipt['cost_microusd'] / 1e6:.6f} USD")

    def _check_released(self, provider: str, receipt: dict[str, Any]) -> None:
        """The provider itself says that no machine of this pod is left and what it charged."""
        standing = [
            f"{each['id']} ({each['phase']})"
            for each in self._rented(provider, "state")
            if each["phase"] not in ENDED_PHASES
        ]
        if standing:
            raise DemoFailedError(f"{provider} still has the instance {', '.join(standing)}")
        charged = sum(each["cost_micros"] for each in self._rented(provider, "bill"))
        self.costs[provider] = charged
        self.say(
            f"  {provider} says: no box left, billing ended, "
            f"{charged / 1e6:.6f} USD charged for this pod so far"
        )
        if receipt["billed_to"] is None:
            raise DemoFailedError("the receipt does not close the bill")

    def _rented(self, provider: str, page: str) -> list[dict[str, Any]]:
        """What the provider says of the instances of this pod."""
        found = self._instances(provider, page)
        return [each for each in found if each["id"] not in self.earlier[provider]]

    def _instances(self, provider: str, page: str) -> list[dict[str, Any]]:
        """All instances on a page of the simulator's control surface, behind Podferry's back."""
        answer = httpx.get(f"{self.info.control_urls[provider]}/{page}", trust_env=False)
        instances: list[dict[str, Any]] = answer.raise_for_status().json()["instances"]
        return instances

    def _check_equal(self, how: str, provider: str, seconds: float) -> None:
        """Everything is as it was when the work was done, and the pod is where it should be."""
        found = differences(self.inventory, self._inventory())
        self.say(f"  compared {len(self.inventory):,} paths: {len(found)} differences")
        self._note_hop(how, provider, seconds, len(found))
        if found:
            raise DemoFailedError("\n".join(["the pod is not what it was:", *found[:40]]))
        version = pod_shell.run(self.api, self.pod_id, script="cat /tmp/started").decode().strip()
        self.say("  the startup script ran here; the installed package answers:")
        for line in version.splitlines():
            self.say(f"    {line}")
        pod = self.api.get(f"/v1/pods/{self.pod_id}")
        if pod["machine"]["provider"] != provider:
            raise DemoFailedError(f"the pod runs at {pod['machine']['provider']}, not {provider}")

    def _note_hop(self, how: str, provider: str, seconds: float, found: int | None) -> None:
        standing = [
            each["kind"]
            for each in self._rented(provider, "state")
            if each["phase"] not in ENDED_PHASES
        ]
        if len(standing) != 1:
            raise DemoFailedError(f"{provider} has {len(standing)} machines of this pod, not one")
        self.hops.append(Hop(how, provider, standing[0], seconds, found))

    def _inventory(self) -> Inventory:
        started = time.monotonic()
        printed = pod_shell.run_file(self.api, self.pod_id, "inventory.py", 180)
        self.say(f"  inventory taken in {time.monotonic() - started:.1f} s")
        return read_inventory(printed)


def in_words(phase: str) -> str:
    """A milestone's name, as the story tells it."""
    return phase.replace("_", " ").replace("-", " ")
