"""Saves that the agent asks for itself."""

import itertools
import time

import pytest

from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane, Json
from tests.agent.runtime.harness import AgentProcess
from tests.agent.runtime.test_capture_restore import capture_args

HEARTBEAT = "/agent/v1/heartbeat"
SNAPSHOTS = "/agent/v1/snapshots"


class Saves:
    """The control plane's side of it: a new save whenever the interval is over."""

    def __init__(self, plane: FakeControlPlane, interval: float) -> None:
        self._plane = plane
        self._interval = interval
        self.begun_at: list[float] = []
        self.commands: list[str] = []
        plane.save_interval_seconds = 1
        plane.next_save = self._next

    def _next(self) -> Json:
        is_open = len(self.commands) > len(self._plane.commits)
        if not is_open and self._left() <= 0:
            self.begun_at.append(time.monotonic())
            self.commands.append(self._plane.enqueue("capture", self._args()))
            is_open = True
        command = self._plane.commands[self.commands[-1]] if is_open else None
        return {"command": command, "in_seconds": max(0.0, self._left())}

    def _left(self) -> float:
        if not self.begun_at:
            return 0.0
        return self.begun_at[-1] + self._interval - time.monotonic()

    def _args(self) -> Json:
        commits = self._plane.commits
        parent = {"snapshot_id": commits[-1]["snapshot_id"]} if commits else None
        snapshot_id = f"snap_{len(self.begun_at):026}"
        return capture_args(
            snapshot_id=snapshot_id, attempt_id=snapshot_id, parent=parent, mode="live"
        )


@pytest.fixture
def box(new_agent: AgentFactory) -> AgentProcess:
    agent = new_agent()
    (agent.root / "workspace/work.txt").write_text("first\n")
    return agent


def saved(plane: FakeControlPlane, number: int) -> bool:
    return len(plane.commits) >= number


def asked(plane: FakeControlPlane) -> int:
    return sum(request.path == SNAPSHOTS for request in plane.seen)


def test_promise_08_agent_saves_on_its_own_timer(
    plane: FakeControlPlane, box: AgentProcess
) -> None:
    saves = Saves(plane, interval=0.9)
    box.start()
    plane.wait_for(lambda: saved(plane, 3))
    gaps = [later - earlier for earlier, later in itertools.pairwise(saves.begun_at)]
    assert min(gaps) >= 0.9
    assert len({commit["snapshot_id"] for commit in plane.commits}) == len(plane.commits)


def test_promise_08_agent_saves_while_heartbeats_fail(
    plane: FakeControlPlane, box: AgentProcess
) -> None:
    Saves(plane, interval=0.9)
    box.start()
    plane.wait_for(lambda: saved(plane, 1))
    plane.add_fault("POST", HEARTBEAT, "error", status=503, count=10_000)
    (box.root / "workspace/work.txt").write_text("second\n")
    plane.wait_for(lambda: saved(plane, 3))
    assert box.process is not None
    assert box.process.poll() is None


def test_promise_08_agent_that_was_cut_off_saves_when_the_control_plane_is_back(
    plane: FakeControlPlane, box: AgentProcess
) -> None:
    Saves(plane, interval=0.9)
    box.start()
    plane.wait_for(lambda: saved(plane, 1))
    silence = [
        plane.add_fault("POST", path, "error", status=503, count=10_000)
        for path in (HEARTBEAT, SNAPSHOTS)
    ]
    before = asked(plane)
    plane.wait_for(lambda: asked(plane) >= before + 4)
    number = len(plane.commits)
    (box.root / "workspace/work.txt").write_text("while nobody listened\n")
    with plane.changed:
        for fault in silence:
            fault.left = 0
    plane.wait_for(lambda: saved(plane, number + 1))


def test_promise_10_a_save_that_comes_by_both_ways_is_made_once(
    plane: FakeControlPlane, box: AgentProcess
) -> None:
    plane.redeliver_ended = True
    saves = Saves(plane, interval=0.5)
    box.start()
    plane.wait_for(lambda: saved(plane, 3))
    ids = [commit["snapshot_id"] for commit in plane.commits]
    assert len(set(ids)) == len(ids) <= len(saves.begun_at)


def test_save_is_handed_in_until_it_is_verified(plane: FakeControlPlane, box: AgentProcess) -> None:
    plane.unsettled = 3
    Saves(plane, interval=3600)
    box.start()
    plane.wait_for(lambda: saved(plane, 4))
    assert len({str(commit["root"]) for commit in plane.commits}) == 1
    (command,) = plane.commands
    assert plane.wait_end(command)["state"] == "succeeded"


def test_pod_that_is_not_to_be_saved_is_left_alone(
    plane: FakeControlPlane, box: AgentProcess
) -> None:
    Saves(plane, interval=0.1)
    plane.save_interval_seconds = None
    box.start()
    plane.wait_for(lambda: len(plane.heartbeats) >= 20)
    assert asked(plane) == 0


def test_save_that_failed_is_asked_for_again(plane: FakeControlPlane, box: AgentProcess) -> None:
    saves = Saves(plane, interval=0.2)
    plane.add_fault("PUT", "/objects/", "error", status=401)
    box.start()
    (first,) = plane.wait_for(lambda: list(plane.commands)[:1] or None)
    report = plane.wait_end(first)
    assert (report["state"], report["error"]["code"]) == ("failed", "transfer_failed")
    with plane.changed:
        saves.commands.clear()
    plane.wait_for(lambda: saved(plane, 1))


def test_agent_that_was_killed_asks_at_once(plane: FakeControlPlane, box: AgentProcess) -> None:
    Saves(plane, interval=3600)
    plane.save_interval_seconds = 3600
    box.start()
    plane.wait_for(lambda: plane.ended)
    before = asked(plane)
    box.kill_agent()
    plane.wait_for(lambda: asked(plane) > before)


def test_capture_of_a_stop_waits_until_the_save_that_it_ends_has_left(
    plane: FakeControlPlane, box: AgentProcess
) -> None:
    saves = Saves(plane, interval=3600)
    slow = plane.add_fault("PUT", "/objects/", "slow", seconds=0.5, count=10_000)
    box.start()
    plane.wait_for(lambda: any(request.method == "PUT" for request in plane.seen))
    plane.save_interval_seconds = None
    (save,) = saves.commands
    stop = plane.enqueue("capture", capture_args())
    cancel = plane.enqueue("cancel", {"command_id": save})
    assert plane.wait_end(cancel)["state"] == "succeeded"
    with plane.changed:
        slow.left = 0
    assert plane.wait_end(save)["error"]["code"] == "cancelled"
    assert plane.wait_end(stop)["state"] == "succeeded"
    (commit,) = plane.commits
    assert commit["snapshot_id"] == capture_args()["snapshot_id"]
