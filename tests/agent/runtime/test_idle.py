"""A real agent says whether its box is in use."""

from typing import Any

import pytest

from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess

# The traffic of this computer is not that of the box, so it does not count here.
SIGNALS = ["gpu", "cpu", "ssh", "processes"]
# Long enough that a computer that is busy with other things does not leave gaps.
WINDOW_SECONDS = 5.0


@pytest.fixture
def agent(new_agent: AgentFactory) -> AgentProcess:
    return new_agent(PF_IDLE_WINDOW_SECONDS=str(WINDOW_SECONDS)).start()


def activity(plane: FakeControlPlane) -> dict[str, Any]:
    found: dict[str, Any] = plane.heartbeats[-1]["activity"] if plane.heartbeats else None
    return found or {}


def idle_seconds(plane: FakeControlPlane) -> float | None:
    seconds: float | None = activity(plane).get("idle_seconds")
    return seconds


def state(plane: FakeControlPlane, signal: str) -> str | None:
    readings = activity(plane).get("readings", [])
    return next((r["state"] for r in readings if r["signal"] == signal), None)


def begin_watching(plane: FakeControlPlane) -> None:
    with plane.changed:
        plane.idle_signals = SIGNALS


def test_box_without_a_policy_is_not_watched(plane: FakeControlPlane, agent: AgentProcess) -> None:
    plane.wait_for(lambda: len(plane.heartbeats) >= 5)
    assert {str(beat["activity"]) for beat in plane.heartbeats} == {"None"}


def test_unused_box_is_idle_until_a_program_works_in_it(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    begin_watching(plane)
    plane.wait_for(lambda: activity(plane))
    assert activity(plane)["counted"] == SIGNALS
    assert (idle_seconds(plane), state(plane, "cpu")) == (None, "unknown")
    plane.wait_for(lambda: idle_seconds(plane) is not None)
    assert {state(plane, signal) for signal in SIGNALS} == {"quiet"}
    busy = "nohup sh -c 'while :; do :; done' > /dev/null 2>&1 &"
    plane.do("exec", {"script": busy, "timeout_seconds": 10})
    plane.wait_for(lambda: state(plane, "processes") == state(plane, "cpu") == "active")
    assert idle_seconds(plane) is None


def test_command_that_somebody_waits_for_is_use_though_it_does_nothing(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    begin_watching(plane)
    plane.wait_for(lambda: idle_seconds(plane) is not None)
    command = plane.enqueue("exec", {"argv": ["sleep", "600"], "timeout_seconds": 600})
    plane.wait_for(lambda: idle_seconds(plane) is None)
    assert {state(plane, signal) for signal in SIGNALS} == {"quiet"}
    plane.do("cancel", {"command_id": command})
    plane.wait_for(lambda: idle_seconds(plane) is not None)


def test_restarted_agent_knows_nothing_of_the_time_before(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    begin_watching(plane)
    plane.wait_for(lambda: (idle_seconds(plane) or 0.0) > 1.0)
    agent.kill_agent()
    with plane.changed:
        before = len(plane.heartbeats)
    plane.wait_for(
        lambda: any(
            beat["sequence"] == 1 and beat["activity"] is None for beat in plane.heartbeats[before:]
        )
    )
    plane.wait_for(lambda: activity(plane))
    assert idle_seconds(plane) is None
    assert state(plane, "cpu") == "unknown"
