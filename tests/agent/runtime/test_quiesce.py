import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from podferry_agent.processes import find_process
from tests.agent.runtime.fake_api import FakeControlPlane, Json
from tests.agent.runtime.harness import AgentProcess, until
from tests.agent.runtime.test_run import run_args, workload

# Ignores SIGTERM, as a program that hangs does, and starts a child of the same kind.
STUBBORN = "trap '' TERM; sh -c 'echo $$ > child; while :; do sleep 0.05; done' & "
STUBBORN += "echo $$ > parent; while :; do sleep 0.05; done"


def quiesce_args(**changes: object) -> Json:
    return {"on_stop_script": None, "hook_timeout_seconds": 5, "grace_seconds": 1, **changes}


def read_pid(agent: AgentProcess, name: str) -> int:
    path = agent.root / "workspace" / name
    return int(until(lambda: path.exists() and path.read_text().strip()))


def is_running(pid: int) -> bool:
    process = find_process(pid)
    return process is not None and not process.is_dead and not process.is_stopped


def read_all(descriptor: int) -> bytes:
    """What comes until nothing comes for half a second."""
    content = b""
    while select.select([descriptor], [], [], 0.5)[0]:
        content += os.read(descriptor, 65536)
    return content


@pytest.fixture
def bystander() -> Iterator[int]:
    """A process of somebody else on the same machine."""
    process = subprocess.Popen(["sleep", "300"])
    yield process.pid
    process.kill()
    process.wait()


def test_workload_that_heeds_sigterm_ends_and_is_started_again_on_resume(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    script = "echo start >> starts; trap 'echo saved > saved; exit 0' TERM; "
    plane.do("run", run_args(script + "while :; do sleep 0.05; done"))
    result = plane.do("quiesce", quiesce_args(grace_seconds=5))
    assert result["hook_exit_code"] is None
    assert result["terminated"] >= 1
    assert result["paused"] == 0
    assert (agent.root / "workspace/saved").exists()
    plane.wait_for(lambda: workload(plane)["state"] == "stopped")
    assert plane.do("resume") == {"resumed": 0, "workload_restarted": True}
    until(lambda: (agent.root / "workspace/starts").read_text() == "start\nstart\n")
    plane.wait_for(lambda: workload(plane)["state"] == "running")


def test_promise_02_what_ignores_sigterm_is_paused_and_goes_on_after_resume(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args(STUBBORN))
    parent, child = read_pid(agent, "parent"), read_pid(agent, "child")
    result = plane.do("quiesce", quiesce_args(grace_seconds=0))
    assert result["paused"] >= 2
    assert agent.is_stopped(parent)
    assert agent.is_stopped(child)
    resumed = plane.do("resume")
    assert resumed["resumed"] == result["paused"]
    assert resumed["workload_restarted"] is False
    until(lambda: is_running(parent) and is_running(child))
    plane.wait_for(lambda: workload(plane)["state"] == "running")


def test_resume_works_after_the_agent_was_killed_while_the_box_was_paused(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args(STUBBORN))
    parent = read_pid(agent, "parent")
    plane.do("quiesce", quiesce_args(grace_seconds=0))
    agent.kill_agent()
    assert plane.do("resume")["resumed"] >= 2
    until(lambda: is_running(parent))


def test_process_the_user_had_stopped_stays_stopped(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args(STUBBORN))
    child = read_pid(agent, "child")
    os.kill(child, signal.SIGSTOP)
    until(lambda: agent.is_stopped(child))
    plane.do("quiesce", quiesce_args(grace_seconds=0))
    plane.do("resume")
    until(lambda: is_running(read_pid(agent, "parent")))
    assert agent.is_stopped(child)


def test_processes_outside_a_directory_box_are_not_touched(
    plane: FakeControlPlane, agent: AgentProcess, bystander: int
) -> None:
    plane.do("run", run_args(STUBBORN))
    plane.do("quiesce", quiesce_args(grace_seconds=0))
    assert is_running(bystander)


def test_daemon_that_left_its_session_is_found_by_its_mark(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    script = "trap '' TERM; setsid sh -c 'echo $$ > daemon; while :; do sleep 0.05; done' &"
    command = plane.enqueue("exec", {"script": script, "timeout_seconds": 5})
    plane.wait_end(command)
    daemon = read_pid(agent, "daemon")
    plane.do("quiesce", quiesce_args(grace_seconds=0))
    assert agent.is_stopped(daemon)


def test_on_stop_script_runs_first_and_its_exit_code_is_reported(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args(STUBBORN))
    script = "kill -0 $(cat parent) && echo alive > hook; exit 7"
    result = plane.do("quiesce", quiesce_args(on_stop_script=script, grace_seconds=0))
    assert result["hook_exit_code"] == 7
    assert (agent.root / "workspace/hook").read_text() == "alive\n"


def test_on_stop_script_that_hangs_is_ended(plane: FakeControlPlane, agent: AgentProcess) -> None:
    args = quiesce_args(on_stop_script="sleep 300", hook_timeout_seconds=1)
    assert plane.do("quiesce", args)["hook_exit_code"] is None


def test_quiesce_twice_still_remembers_the_first_pause(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args(STUBBORN))
    parent = read_pid(agent, "parent")
    plane.do("quiesce", quiesce_args(grace_seconds=0))
    plane.do("quiesce", quiesce_args(grace_seconds=0))
    plane.do("resume")
    until(lambda: is_running(parent))


def test_shell_at_a_terminal_does_not_notice_the_pause(
    plane: FakeControlPlane, agent: AgentProcess, tmp_path: Path
) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    controller, terminal = pty.openpty()
    shell = subprocess.Popen(
        ["setsid", "--ctty", "bash", "--norc", "-i"],
        env={**agent.variables(), "PS1": "> "},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=tmp_path,
    )
    os.close(terminal)
    try:
        os.write(
            controller, b"sh -c 'trap \"\" TERM; echo up > up; while :; do sleep 0.05; done'\n"
        )
        until((tmp_path / "up").exists)
        plane.do("quiesce", quiesce_args(grace_seconds=0))
        assert agent.is_stopped(shell.pid)
        plane.do("resume")
        until(lambda: is_running(shell.pid))
        assert b"Stopped" not in read_all(controller)
    finally:
        shell.kill()
        shell.wait()
        os.close(controller)
