import base64

from podferry_agent.processes import find_process
from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess, until


def test_exec_sends_output_and_exit_code(plane: FakeControlPlane, agent: AgentProcess) -> None:
    script = "echo out; echo err >&2; exit 3"
    command = plane.enqueue("exec", {"script": script, "timeout_seconds": 10})
    report = plane.wait_end(command)
    assert report["result"] == {"exit_code": 3, "timed_out": False, "truncated": False}
    assert plane.output(command, "stdout") == b"out\n"
    assert plane.output(command, "stderr") == b"err\n"


def test_exec_gets_stdin_environment_and_working_directory(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    args = {
        "argv": ["sh", "-c", 'cat; echo " $COLOUR $PWD"'],
        "stdin": base64.b64encode(b"from stdin").decode(),
        "environment": {"COLOUR": "blue"},
        "working_dir": "/etc",
        "timeout_seconds": 10,
    }
    command = plane.enqueue("exec", args)
    plane.wait_end(command)
    assert plane.output(command, "stdout") == f"from stdin blue {agent.root}/etc\n".encode()


def test_exec_does_not_see_the_agents_secrets(plane: FakeControlPlane, agent: AgentProcess) -> None:
    command = plane.enqueue("exec", {"argv": ["env"], "timeout_seconds": 10})
    plane.wait_end(command)
    names = {line.partition(b"=")[0] for line in plane.output(command, "stdout").splitlines()}
    assert names.isdisjoint({b"PF_TOKEN", b"PF_BUNDLE_URL", b"PF_API"})


def test_large_output_arrives_whole_and_in_order(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    script = "i=0; while [ $i -lt 40000 ]; do echo line-$i; i=$((i+1)); done"
    command = plane.enqueue("exec", {"script": script, "timeout_seconds": 30})
    plane.wait_end(command)
    expected = b"".join(b"line-%d\n" % number for number in range(40000))
    assert plane.output(command, "stdout") == expected


def test_endless_output_is_cut_and_said_to_be(plane: FakeControlPlane, agent: AgentProcess) -> None:
    command = plane.enqueue("exec", {"script": "head -c 20000000 /dev/zero", "timeout_seconds": 30})
    assert plane.wait_end(command)["result"]["truncated"] is True
    assert len(plane.output(command, "stdout")) == 16 * 1024 * 1024


def test_exec_that_takes_too_long_is_ended_with_all_its_processes(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    script = "sleep 300 & echo $!; sleep 300"
    command = plane.enqueue("exec", {"script": script, "timeout_seconds": 1})
    result = plane.wait_end(command)["result"]
    assert result["timed_out"] is True
    child = int(plane.output(command, "stdout"))
    until(lambda: (found := find_process(child)) is None or found.is_dead)


def test_cancelled_exec_is_ended_and_reported(plane: FakeControlPlane, agent: AgentProcess) -> None:
    command = plane.enqueue("exec", {"script": "echo $$; sleep 300", "timeout_seconds": 300})
    shell = int(plane.wait_for(lambda: plane.output(command, "stdout")))
    plane.do("cancel", {"command_id": command})
    error = plane.wait_end(command)["error"]
    assert error["code"] == "cancelled"
    until(lambda: (found := find_process(shell)) is None or found.is_dead)


def test_command_that_outlives_its_own_limit_is_ended(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    args = {"script": "sleep 300", "timeout_seconds": 300}
    report = plane.wait_end(plane.enqueue("exec", args, timeout_seconds=1))
    assert report["error"]["code"] == "timed_out"


def test_missing_program_is_named(plane: FakeControlPlane, agent: AgentProcess) -> None:
    error = plane.fail("exec", {"argv": ["no-such-program"], "timeout_seconds": 5})
    assert error["code"] == "exec_failed"
    assert "no-such-program" in error["detail"]


def test_exec_without_argv_and_script_is_refused(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    error = plane.fail("exec", {"timeout_seconds": 5})
    assert error == {
        "code": "invalid_arguments",
        "detail": "exec.args needs exactly one of argv and script",
        "retryable": False,
    }


def test_daemon_left_by_an_exec_lives_on(plane: FakeControlPlane, agent: AgentProcess) -> None:
    script = "sleep 300 & echo $!"
    command = plane.enqueue("exec", {"script": script, "timeout_seconds": 10})
    plane.wait_end(command)
    daemon = find_process(int(plane.output(command, "stdout")))
    assert daemon is not None
    assert not daemon.is_dead


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


def test_unknown_command_is_refused_by_name(plane: FakeControlPlane, agent: AgentProcess) -> None:
    error = plane.fail("dance", {})
    assert error["code"] == "unknown_command"
    assert "'dance'" in error["detail"]


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
