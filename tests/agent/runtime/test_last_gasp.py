"""The last seconds of a machine whose uplink is too slow for everything: partial saves."""

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from podferry_agent.api import ApiClient, ApiSettings, build_pool
from podferry_agent.snapshot import TimeLimit
from podferry_agent.transfer import PresignedStore, TransferScope
from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane, Json
from tests.agent.runtime.fake_metadata import FakeMetadata
from tests.agent.runtime.harness import AgentProcess
from tests.agent.runtime.test_capture_restore import (
    capture_args,
    contents,
    next_box,
    restore_args,
)

MIB = 1 << 20
LOOK_SECONDS = 5
SLACK = 3.0  # for a computer on which other tests run as well
SPOT = "/latest/meta-data/spot/instance-action"


class Uplink:
    """So many bytes a second to the object store; packs pass one after the other."""

    def __init__(self, plane: FakeControlPlane, speed: float) -> None:
        self._line = threading.Lock()
        self._speed = speed
        self._put = plane.store.put
        plane.store.put = self.put  # type: ignore[method-assign]

    def put(self, signature: str, headers: dict[str, str], body: bytes) -> int:
        if len(body) > MIB // 2:
            with self._line:
                time.sleep(len(body) / self._speed)
        return self._put(signature, headers, body)


class Saves:
    """The control plane's side: at each notice a save on top of the last one."""

    def __init__(self, plane: FakeControlPlane) -> None:
        self._plane = plane
        self._number = 0
        self._open: str | None = None
        plane.next_notice = self.answer

    def begin(self) -> str:
        self._number += 1
        snapshot_id = f"snap_{self._number:026}"
        commits = self._plane.commits
        parent = {"snapshot_id": commits[-1]["snapshot_id"]} if commits else None
        args = capture_args(
            snapshot_id=snapshot_id, attempt_id=snapshot_id, parent=parent, mode="live"
        )
        self._open = self._plane.enqueue("capture", args, timeout_seconds=120)
        return self._open

    def answer(self, _body: Json) -> Json:
        is_open = self._open is not None and self._open not in self._plane.ended
        command = self._open if is_open else self.begin()
        assert command is not None
        return {"command": self._plane.commands[command]}


@pytest.fixture
def spot(new_agent: AgentFactory) -> Iterator[Callable[[], tuple[AgentProcess, FakeMetadata]]]:
    made: list[FakeMetadata] = []

    def start() -> tuple[AgentProcess, FakeMetadata]:
        made.append(FakeMetadata("ec2", {}))
        return new_agent(PF_METADATA_URL=made[-1].url), made[-1]

    yield start
    for service in made:
        service.close()


def in_seconds(seconds: float) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=seconds + 1)  # Its text has whole seconds.
    return json.dumps({"action": "terminate", "time": moment.strftime("%Y-%m-%dT%H:%M:%SZ")})


def write(path: Path, size: int, age: float) -> bytes:
    content = os.urandom(size)
    path.write_bytes(content)
    moment = time.time() - age
    os.utime(path, (moment, moment))
    return content


def late_names(summary: Json) -> set[str]:
    return {text.partition(":")[0] for text in summary["unreached"]}


def restored(plane: FakeControlPlane, new_agent: AgentFactory, commit: Json) -> Path:
    target = next_box(plane, new_agent)
    plane.do("restore", restore_args(snapshot_id=commit["snapshot_id"]))
    return target.root / "workspace"


def test_pages_and_root_are_waited_for_to_the_end_also_when_no_pack_is(
    plane: FakeControlPlane,
) -> None:
    stopping, limit = threading.Event(), TimeLimit()
    token = "pfm_mach_test_0123456789abcdef"
    plane.token_sha256 = hashlib.sha256(token.encode()).hexdigest()
    pool = build_pool(None, 2)
    api = ApiClient(ApiSettings(plane.url, 0.05, 0.2), pool, stopping, stopping.set)
    api.token = token
    put = plane.store.put

    def put_slowly(signature: str, headers: dict[str, str], body: bytes) -> int:
        time.sleep(1.6)
        return put(signature, headers, body)

    plane.store.put = put_slowly  # type: ignore[method-assign]
    scope = TransferScope(f"snap_{1:026}", "att_1", None, limit)
    with PresignedStore(api, pool, scope, stopping) as store:
        now = time.monotonic()
        limit.times = (now, now, now + 30.0)  # What is left is for the seal.
        sha256 = hashlib.sha256(b"page").hexdigest()
        store.put(f"pages/{sha256}", b"page", sha256)
    pool.clear()
    assert [request.method for request in plane.seen].count("PUT") == 1


@pytest.mark.parametrize(("budget", "parts"), [(5, 16), (15, 40)])
def test_promise_08_a_spot_notice_ends_in_a_partial_save_that_has_the_newest_files(
    plane: FakeControlPlane, new_agent: AgentFactory, spot: Any, budget: int, parts: int
) -> None:
    agent, service = spot()
    volume = agent.root / "workspace"
    old = {f"part-{n:02}": write(volume / f"part-{n:02}", 2 * MIB, 90_000) for n in range(parts)}
    agent.start()
    saves = Saves(plane)
    plane.wait_end(saves.begin())
    new = {name: write(volume / name, 2 * MIB, age=60 * (parts - n)) for n, name in enumerate(old)}
    Uplink(plane, 3.0 * MIB)
    looks = len(service.seen)
    plane.wait_for(lambda: len(service.seen) > looks)
    service.values[SPOT] = in_seconds(LOOK_SECONDS + budget)  # It looks again after the first part.
    until_told = plane.wait_for(lambda: plane.notices and time.monotonic())
    commit = plane.wait_for(lambda: plane.commits[1:] and plane.commits[1], seconds=budget + 30)
    assert time.monotonic() - until_told < plane.notices[0]["deadline_seconds"] + SLACK
    assert plane.notices[0]["kind"] == "reclaim"
    summary, late = commit["summary"], late_names(commit["summary"])
    assert summary["is_partial"]
    # Three are read at a time, so at the edge one may overtake another.
    assert late >= set(sorted(old)[: len(late) - 3])
    assert len(late) > 3
    agent.kill_box()
    found = restored(plane, new_agent, commit)
    for name, content in old.items():
        wanted = content if name in late else new[name]
        assert (found / name).read_bytes() == wanted, name


def test_promise_08_at_sigterm_what_fits_five_seconds_is_saved_first_and_the_rest_after_it(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    agent = new_agent()
    volume = agent.root / "workspace"
    for number in range(12):
        write(volume / f"part-{number:02}", 2 * MIB, age=60 * number)
    agent.start()
    Saves(plane)
    plane.wait_for(lambda: plane.heartbeats)
    Uplink(plane, 3.0 * MIB)
    began = time.monotonic()
    os.kill(agent.pid, signal.SIGTERM)
    first = plane.wait_for(lambda: plane.commits[:1] and plane.commits[0], seconds=30)
    assert time.monotonic() - began < 5.0 + SLACK
    assert first["summary"]["is_partial"]
    assert "part-00" not in late_names(first["summary"])
    assert agent.wait() == 0
    last = plane.commits[-1]["summary"]
    assert len(plane.commits) >= 2
    assert last["unreached_files"] < first["summary"]["unreached_files"]
    wanted = contents(volume)
    found = contents(restored(plane, new_agent, plane.commits[-1]))
    late = late_names(last)
    assert found == {name: value for name, value in wanted.items() if name not in late}


def test_background_save_under_way_at_the_notice_is_sealed_in_time(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    agent = new_agent()
    volume = agent.root / "workspace"
    for number in range(20):
        write(volume / f"a-{number:02}", 6 * MIB, age=600)
    newest = write(volume / "z-newest", MIB, age=1)
    agent.start()
    Uplink(plane, 24.0 * MIB)
    saves = Saves(plane)
    saves.begin()
    plane.wait_for(lambda: any(request.method == "PUT" for request in plane.seen))
    os.kill(agent.pid, signal.SIGTERM)
    commit = plane.wait_for(lambda: plane.commits[:1] and plane.commits[0], seconds=30)
    assert commit["snapshot_id"] == f"snap_{1:026}"
    assert agent.wait() == 0
    found = restored(plane, new_agent, commit)
    assert (found / "z-newest").read_bytes() == newest


def test_capture_of_a_stop_is_never_partial(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    agent = new_agent()
    for number in range(6):
        write(agent.root / f"workspace/part-{number}", 2 * MIB, age=60)
    agent.start()
    Saves(plane)
    plane.wait_for(lambda: plane.heartbeats)
    Uplink(plane, 2.0 * MIB)
    stop = plane.enqueue("capture", capture_args(), timeout_seconds=120)
    plane.wait_for(lambda: any(request.method == "PUT" for request in plane.seen))
    os.kill(agent.pid, signal.SIGTERM)
    result = plane.wait_end(stop)["result"]
    assert (result["summary"]["is_partial"], result["summary"]["files"]) == (False, 6)
