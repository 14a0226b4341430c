"""Commands that come twice, late, or while somebody dies."""

from podferry_agent.processes import find_process
from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess, until


def test_promise_10_lost_answers_neither_repeat_nor_lose_output(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    plane.add_fault("POST", "/agent/v1/output", "drop_response", count=2)
    plane.add_fault("POST", "/agent/v1/heartbeat", "drop_response", count=2)
    command = plane.enqueue("exec", {"script": "echo once", "timeout_seconds": 10})
    plane.wait_end(command)
    assert plane.output(command, "stdout") == b"once\n"


def test_promise_10_command_that_comes_again_is_not_run_again(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.redeliver_ended = True
    script = "echo ran >> ran.txt"
    command = plane.enqueue("exec", {"script": script, "timeout_seconds": 10})
    plane.wait_end(command)
    del plane.ended[command]
    assert plane.wait_end(command)["result"]["exit_code"] == 0
    assert (agent.root / "workspace/ran.txt").read_text() == "ran\n"


def test_promise_10_command_is_not_run_again_by_a_restarted_agent(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.redeliver_ended = True
    command = plane.enqueue("exec", {"script": "echo ran >> ran.txt", "timeout_seconds": 10})
    plane.wait_end(command)
    agent.kill_box()
    del plane.ended[command]
    agent.start()
    assert plane.wait_end(command)["result"]["exit_code"] == 0
    assert (agent.root / "workspace/ran.txt").read_text() == "ran\n"


def test_killed_agent_reports_what_it_cannot_know(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    command = plane.enqueue("exec", {"script": "echo $$; sleep 300", "timeout_seconds": 300})
    shell = int(plane.wait_for(lambda: plane.output(command, "stdout")))
    agent.kill_agent()
    error = plane.wait_end(command)["error"]
    assert error["code"] == "agent_restarted"
    assert error["retryable"] is True
    until(lambda: (found := find_process(shell)) is None or found.is_dead)


def test_agent_beats_at_once_when_a_command_ends(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    plane.heartbeat_seconds = 30
    command = plane.enqueue("exec", {"argv": ["true"], "timeout_seconds": 5})
    new_agent().start()
    assert plane.wait_end(command, seconds=10)["state"] == "succeeded"


def test_library_path_of_the_image_reaches_its_programs_only(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    new_agent(PF_LL="/opt/libs").start()
    script = 'echo "$LD_LIBRARY_PATH ${PF_LL-none}"'
    command = plane.enqueue("exec", {"script": script, "timeout_seconds": 5})
    plane.wait_end(command)
    assert plane.output(command, "stdout") == b"/opt/libs none\n"
