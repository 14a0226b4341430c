"""Commands that users run in the box."""

import base64
from collections.abc import Iterator

import pytest

from podferry_agent.processes import find_process
from tests.agent.runtime.conftest import running_box
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess, until


@pytest.fixture(scope="module")
def box(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[FakeControlPlane, AgentProcess]]:
    with running_box(tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture
def plane(box: tuple[FakeControlPlane, AgentProcess]) -> FakeControlPlane:
    return box[0]


@pytest.fixture
def agent(box: tuple[FakeControlPlane, AgentProcess]) -> AgentProcess:
    return box[1]


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


def test_unknown_command_is_refused_by_name(plane: FakeControlPlane, agent: AgentProcess) -> None:
    error = plane.fail("dance", {})
    assert error["code"] == "unknown_command"
    assert "'dance'" in error["detail"]
