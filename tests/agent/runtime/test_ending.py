import os
import signal

from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess, until
from tests.agent.runtime.test_quiesce import STUBBORN
from tests.agent.runtime.test_run import run_args, workload


def test_shutdown_is_reported_and_leaves_nothing_running(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args("sleep 300 & sleep 300"))
    assert plane.do("shutdown", {"reason": "given up"}) == {}
    assert agent.wait() == 0
    assert agent.own_processes() == []


def test_shutdown_survives_a_lost_last_report(plane: FakeControlPlane, agent: AgentProcess) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    plane.enqueue("shutdown", {"reason": "given up"})
    plane.add_fault("POST", "/agent/v1/heartbeat", "error", status=502, count=3)
    assert agent.wait() == 0
    assert len(plane.ended) == 1


def test_promise_05_stale_machine_ends_itself_and_its_workload(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args(STUBBORN))
    plane.epoch_is_stale = True
    assert agent.wait() == 65
    assert agent.own_processes() == []


def test_refused_token_alone_does_not_end_a_machine_with_data(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args("sleep 300"))
    right, plane.token_sha256 = plane.token_sha256, "0" * 64
    seen = len(plane.seen)
    plane.wait_for(lambda: len(plane.seen) > seen + 3)
    plane.token_sha256 = right
    before = len(plane.heartbeats)
    plane.wait_for(lambda: len(plane.heartbeats) > before)
    assert workload(plane)["state"] == "running"


def test_sigterm_lets_the_workload_end_well_and_then_ends_the_agent(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    script = "trap 'echo bye > bye; exit 0' TERM; while :; do sleep 0.05; done"
    plane.do("run", run_args(script))
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.wait() == 0
    assert (agent.root / "workspace/bye").read_text() == "bye\n"


def test_workload_ended_by_sigterm_comes_back_with_the_box(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args("echo start >> starts; exec sleep 300"))
    os.kill(agent.pid, signal.SIGTERM)
    agent.wait()
    agent.start()
    until(lambda: (agent.root / "workspace/starts").read_text() == "start\nstart\n")


def test_sigterm_before_registration_ends_the_agent(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    plane.add_fault("POST", "/agent/v1/register", "error", status=503, count=1000)
    agent = new_agent().start()
    plane.wait_for(lambda: len(plane.seen) > 2)
    os.kill(agent.pid, signal.SIGTERM)
    assert agent.wait() == 128 + signal.SIGTERM
