"""One account of one run: its pods, and writers that put records into them all the time.

A record is written in three ways, so that its loss and a mixture of two states both show: a line in
a list, a file of its own, and a file that each record replaces.
"""

import base64
import contextlib
import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx

from local.api import Api, ApiError
from tests.chaos.world.stack import ChaosStack, SkippedClock
from tests.e2e.deployment import IMAGE

SAVE_INTERVAL_SECONDS = 60
# Programs are the same on every box; without them a capture takes no time worth speaking of.
CAPTURE_RULES = ("exclude /usr/**", "exclude /root/**")
WRITE_SECONDS = 15
PAUSE_SECONDS = 1.0
_LOOK = """
mkdir -p /workspace/chaos/files && cd /workspace/chaos
if [ -f records ]; then cat records; fi
echo "on $PF_MACHINE"
"""
_WRITE = """
cat > files/{id} && cp files/{id} new-{id} && mv new-{id} latest && echo {id} >> records
"""
_SUMS = """
for f in latest files/*; do if [ -f "$f" ]; then sha256sum "$f"; fi; done
"""


class UnansweredError(Exception):
    """Nobody said what became of a command."""


def content_of(record: str) -> bytes:
    return f"{record}\n".encode() * 1500


def digest_of(record: str) -> str:
    return hashlib.sha256(content_of(record)).hexdigest()


@dataclass(slots=True)
class Write:
    """A record that a pod was asked to write; who acknowledged it, if anybody did."""

    record: str
    issued_at: datetime
    acknowledged_at: datetime | None = None
    machine_id: str | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """What was found in a pod at one moment."""

    asked_at: datetime
    machine_id: str
    records: tuple[str, ...]
    digests: dict[str, str] | None = None
    """Of the files; looked at only when the run is over."""


@dataclass(slots=True)
class PodUnderTest:
    """A pod and everything that is known of its data from outside."""

    id: str
    writes: list[Write] = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)


class Account:
    """Asks the API as an impatient user does: once more if there is no answer."""

    def __init__(self, stack: ChaosStack, seed: int) -> None:
        assert stack.info is not None
        operator = Api(stack.info.api_url, stack.info.operator_key)
        try:
            made = operator.post("/v1/accounts", {"name": f"seed {seed}"})
        finally:
            operator.close()
        self.id = str(made["account"]["id"])
        self.pods: list[PodUnderTest] = []
        self._token = str(made["token"])
        self._url = stack.links["user"].url
        self._clock: SkippedClock = stack.clock
        self._api = Api(self._url, self._token)
        self._over = threading.Event()
        self._writers: list[threading.Thread] = []

    def create(self, provider: str, on_reclaim: str) -> None:
        """Ask for a pod and begin to write into it."""
        body = {
            "name": "chaos",
            "spec": {"image": IMAGE, "stop_grace_seconds": 1},
            "requirements": {"providers": [provider]},
            "capture_rules": list(CAPTURE_RULES),
            "save_interval_seconds": SAVE_INTERVAL_SECONDS,
            "on_reclaim": on_reclaim,
        }
        made = self.ask("POST", "/v1/pods", body)
        if made is None:
            return
        pod = PodUnderTest(str(made["id"]))
        self.pods.append(pod)
        thread = threading.Thread(target=self._write_on, args=(pod,), daemon=True)
        self._writers.append(thread)
        thread.start()

    def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any] | None:
        """The answer; `None` if the API refuses, or does not answer three times over.

        The key of a POST is the same in all tries, so that it has one effect.
        """
        headers = {"Idempotency-Key": f"{time.monotonic_ns():x}"} if method == "POST" else {}
        for _ in range(3):
            try:
                return self._api.call(method, path, json=body, headers=headers)
            except ApiError as error:
                if error.status < 500:
                    return None
            except httpx.TransportError:
                pass
            time.sleep(0.3)
        return None

    def view(self, pod: PodUnderTest) -> dict[str, Any] | None:
        return self.ask("GET", f"/v1/pods/{pod.id}")

    def end_writers(self) -> None:
        """Write no more; a record that is on its way counts as not acknowledged."""
        self._over.set()
        for thread in self._writers:
            thread.join()

    def look(self, pod: PodUnderTest, seconds: int) -> None:
        """Note what is in a running pod, with the digests of all files.

        Raises:
            ApiError: the pod takes no command.
            UnansweredError: it did not say, or not in time.
        """
        asked_at = self._clock.now()
        said = _run(self._api, pod.id, _LOOK + _SUMS, b"", seconds, lambda: False)
        records, machine_id, rest = _parsed(said)
        sums = dict(reversed(line.split("  ", 1)) for line in rest)
        pod.sights.append(Sight(asked_at, machine_id, records, sums))

    def close(self) -> None:
        self.end_writers()
        self._api.close()

    def _write_on(self, pod: PodUnderTest) -> None:
        api = Api(self._url, self._token)
        with contextlib.closing(api):
            while not self._over.wait(PAUSE_SECONDS):
                with contextlib.suppress(UnansweredError, ApiError):
                    self._write(api, pod)

    def _write(self, api: Api, pod: PodUnderTest) -> None:
        record = f"r{len(pod.writes):05d}"
        write = Write(record, self._clock.now())
        pod.writes.append(write)
        script = "set -e" + _LOOK + _WRITE.format(id=record)
        said = _run(api, pod.id, script, content_of(record), WRITE_SECONDS, self._over.is_set)
        before, machine_id, _ = _parsed(said)
        write.machine_id, write.acknowledged_at = machine_id, self._clock.now()
        pod.sights.append(Sight(write.issued_at, machine_id, before))


def _run(
    api: Api, pod_id: str, script: str, stdin: bytes, seconds: int, is_over: Callable[[], bool]
) -> str:
    """What a script printed that ended well.

    Raises:
        ApiError: the pod takes no command.
        UnansweredError: it did not end well, or not in time, or nobody said so.
    """
    body = {
        "script": script,
        "stdin": base64.b64encode(stdin).decode(),
        "timeout_seconds": seconds,
    }
    try:
        view = api.post(f"/v1/pods/{pod_id}/exec", body, Prefer="wait=5")
        path = f"/v1/pods/{pod_id}/exec/{view['id']}"
        deadline = time.monotonic() + seconds
        while view["state"] in {"pending", "running"}:
            if is_over() or time.monotonic() > deadline:
                raise UnansweredError(f"{view['id']} is {view['state']}")
            view = api.call("GET", path, headers={"Prefer": "wait=5"})
        if view["state"] != "succeeded" or view["exit_code"] != 0:
            raise UnansweredError(f"{view['id']}: {view}")
        view = api.get(path)
    except httpx.TransportError as error:
        raise UnansweredError(str(error)) from error
    chunks = [chunk for chunk in view["output"] if chunk["stream"] == "stdout"]
    return b"".join(base64.b64decode(chunk["data"]) for chunk in chunks).decode()


def _parsed(said: str) -> tuple[tuple[str, ...], str, list[str]]:
    """The records, the machine's id, and the lines that follow."""
    lines = said.splitlines()
    end = next(n for n, line in enumerate(lines) if line.startswith("on "))
    return tuple(lines[:end]), lines[end].removeprefix("on "), lines[end + 1 :]
