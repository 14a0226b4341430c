"""What an agent does when it learns that its machine will go."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane, Json
from tests.agent.runtime.fake_metadata import FakeMetadata
from tests.agent.runtime.harness import AgentProcess
from tests.agent.runtime.test_capture_restore import capture_args
from tests.agent.runtime.test_run import run_args

SPOT = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
PREEMPTED = "/computeMetadata/v1/instance/preempted"
MAINTENANCE = "/computeMetadata/v1/instance/maintenance-event"


class LastSaves:
    """The control plane's side: at each notice a save, unless one is open."""

    def __init__(self, plane: FakeControlPlane) -> None:
        self._plane = plane
        self.commands: list[str] = []
        plane.next_notice = self.answer

    def answer(self, _body: Json) -> Json:
        if len(self.commands) == len(self._plane.commits):
            snapshot_id = f"snap_{len(self.commands):026}"
            args = capture_args(snapshot_id=snapshot_id, attempt_id=snapshot_id, mode="live")
            self.commands.append(self._plane.enqueue("capture", args))
        return {"command": self._plane.commands[self.commands[-1]]}


@pytest.fixture
def metadata() -> Iterator[Callable[..., FakeMetadata]]:
    made: list[FakeMetadata] = []

    def make(cloud: str, **values: str) -> FakeMetadata:
        made.append(FakeMetadata(cloud, dict(values)))
        return made[-1]

    yield make
    for service in made:
        service.close()


def in_seconds(seconds: float) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    body = {"action": "terminate", "time": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return json.dumps(body)


def until_notice(plane: FakeControlPlane) -> Json:
    notice: Json = plane.wait_for(lambda: plane.notices[0] if plane.notices else None)
    return notice


# SIGTERM


def test_promise_08_at_sigterm_the_agent_tells_first_and_then_saves(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    saves = LastSaves(plane)
    (agent.root / "workspace/work.txt").write_text("not saved yet\n")
    plane.do("run", run_args("exec sleep 300"))
    plane.seen.clear()
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.wait() == 0
    paths = [request.path for request in plane.seen]
    assert paths.index("/agent/v1/notice") < paths.index("/agent/v1/uploads")
    assert plane.notices[0] == {"kind": "shutdown", "source": "sigterm", "deadline_seconds": None}
    assert len(plane.commits) == len(saves.commands) >= 1
    assert plane.commits[0]["summary"]["files"] >= 1


def test_what_the_workload_writes_at_its_end_is_saved_as_well(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    LastSaves(plane)
    script = "trap 'echo checkpoint > last; exit 0' TERM; while :; do sleep 0.05; done"
    plane.do("run", run_args(script))
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.wait() == 0
    first, second = plane.commits
    assert second["summary"]["files"] == first["summary"]["files"] + 1


def test_a_save_under_way_is_ended_and_followed_by_a_new_one(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    saves = LastSaves(plane)
    plane.wait_for(lambda: plane.heartbeats)
    slow = plane.add_fault("POST", "/agent/v1/commit", "slow", seconds=0.5)
    open_command = saves.answer({})["command"]["id"]
    plane.wait_for(lambda: not slow.left)
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.wait() == 0
    assert saves.commands[0] == open_command
    assert len(plane.commits) == len(saves.commands) >= 2


def test_a_save_that_has_failed_is_not_taken_for_the_last_one(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    failed = plane.enqueue("capture", capture_args(mode="nonsense"))
    plane.wait_end(failed)
    saves = LastSaves(plane)
    told = [plane.commands[failed]] * 2
    plane.next_notice = lambda body: {"command": told.pop()} if told else saves.answer(body)
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.wait() == 0
    assert told == []
    assert plane.commits


def test_a_control_plane_that_has_nothing_to_save_is_told_and_left(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.wait() == 0
    assert plane.notices
    assert plane.commits == []


def test_a_notice_whose_answer_is_lost_is_given_again(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    LastSaves(plane)
    plane.wait_for(lambda: plane.heartbeats)
    plane.add_fault("POST", "/agent/v1/notice", "drop_response", count=2)
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.wait() == 0
    assert len(plane.notices) >= 3
    assert plane.commits


def test_promise_05_a_machine_that_was_lost_ends_instead_of_saving(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    LastSaves(plane)
    plane.wait_for(lambda: plane.heartbeats)
    plane.heartbeat_seconds = 60.0
    seen = len(plane.heartbeats)
    plane.wait_for(lambda: len(plane.heartbeats) > seen)
    plane.epoch_is_stale = True
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.wait() == 65
    assert plane.commits == []


# Metadata services


def test_ec2_spot_action_is_a_reclaim_with_its_deadline_and_is_saved_before_it(
    plane: FakeControlPlane, new_agent: AgentFactory, metadata: Any
) -> None:
    saves = LastSaves(plane)
    service = metadata("ec2", **{SPOT: in_seconds(20)})
    new_agent(PF_METADATA_URL=service.url).start()
    notice = until_notice(plane)
    assert (notice["kind"], notice["source"]) == ("reclaim", "ec2 spot")
    assert 10 < notice["deadline_seconds"] <= 20
    plane.wait_for(lambda: plane.commits)
    assert len(saves.commands) == 1
    beats = len(plane.heartbeats)
    plane.wait_for(lambda: len(plane.heartbeats) > beats)  # The pod runs on to its end.


def test_ec2_says_first_that_it_may_and_then_when(
    plane: FakeControlPlane, new_agent: AgentFactory, metadata: Any
) -> None:
    service = metadata("ec2", **{REBALANCE: '{"noticeTime": "2026-11-30T08:22:00Z"}'})
    new_agent(PF_METADATA_URL=service.url).start()
    first = until_notice(plane)
    assert (first["source"], first["deadline_seconds"]) == ("ec2 rebalance", None)
    service.values[SPOT] = in_seconds(60)
    service.has_expired_token = True
    plane.wait_for(lambda: len(plane.notices) > 1)
    assert plane.notices[1]["source"] == "ec2 spot"
    assert service.seen.count(("PUT", "/latest/api/token")) == 2


def test_gce_preemption_is_a_reclaim_with_30_seconds(
    plane: FakeControlPlane, new_agent: AgentFactory, metadata: Any
) -> None:
    LastSaves(plane)
    service = metadata("gce", **{PREEMPTED: "TRUE", MAINTENANCE: "NONE"})
    new_agent(PF_METADATA_URL=service.url).start()
    assert until_notice(plane) == {
        "kind": "reclaim",
        "source": "gce preempted",
        "deadline_seconds": 30.0,
    }
    plane.wait_for(lambda: plane.commits)


def test_gce_maintenance_is_told_and_nothing_is_saved_for_it(
    plane: FakeControlPlane, new_agent: AgentFactory, metadata: Any
) -> None:
    service = metadata("gce", **{PREEMPTED: "FALSE", MAINTENANCE: "TERMINATE_ON_HOST_MAINTENANCE"})
    new_agent(PF_METADATA_URL=service.url).start()
    assert until_notice(plane)["kind"] == "maintenance"
    looks = len(service.seen)
    plane.wait_for(lambda: len(service.seen) > looks, seconds=20)
    assert len(plane.notices) == 1


@pytest.mark.parametrize("cloud", ["ec2", "gce"])
def test_a_machine_that_is_not_told_anything_tells_nothing(
    plane: FakeControlPlane, new_agent: AgentFactory, metadata: Any, cloud: str
) -> None:
    service = metadata(cloud, **{PREEMPTED: "FALSE", MAINTENANCE: "MIGRATE_ON_HOST_MAINTENANCE"})
    new_agent(PF_METADATA_URL=service.url).start()
    plane.wait_for(lambda: len(service.seen) >= 4, seconds=20)
    assert plane.notices == []


def test_where_no_service_answers_the_agent_looks_no_further(
    plane: FakeControlPlane, new_agent: AgentFactory, metadata: Any
) -> None:
    service = metadata("none of these")
    started = time.monotonic()
    new_agent(PF_METADATA_URL=service.url).start()
    plane.wait_for(lambda: len(plane.heartbeats) > 3)
    looks = len(service.seen)
    plane.wait_for(lambda: time.monotonic() - started > 6.5, seconds=20)
    assert len(service.seen) == looks <= 2
