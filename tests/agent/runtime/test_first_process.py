import os
import signal
import subprocess
import sys
import time

import pytest

from podferry_agent.processes import list_processes
from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess, until
from tests.agent.runtime.test_quiesce import quiesce_args
from tests.agent.runtime.test_run import run_args

OWN_NAMESPACE = (
    "unshare",
    "--user",
    "--map-root-user",
    "--pid",
    "--fork",
    "--mount-proc",
    "--kill-child",
)


def can_make_namespaces() -> bool:
    try:
        done = subprocess.run([*OWN_NAMESPACE, "true"], check=False, capture_output=True)
    except FileNotFoundError:
        return False
    return done.returncode == 0


needs_namespaces = pytest.mark.skipif(
    not can_make_namespaces(), reason="this machine lets nobody make user and pid namespaces"
)


@pytest.fixture
def first(plane: FakeControlPlane, new_agent: AgentFactory) -> AgentProcess:
    """An agent whose supervisor is pid 1 of a pid namespace of its own."""
    agent = new_agent()
    agent.command = (*OWN_NAMESPACE, sys.executable, "-m", "podferry_agent")
    agent.start()
    plane.wait_for(lambda: plane.heartbeats)
    return agent


def zombies(plane: FakeControlPlane) -> bytes:
    script = "grep -hs '^State:.*Z' /proc/[0-9]*/status | wc -l"
    command = plane.enqueue("exec", {"script": script, "timeout_seconds": 5})
    plane.wait_end(command)
    return plane.output(command, "stdout").strip()


@needs_namespaces
def test_first_process_says_so_in_its_facts(plane: FakeControlPlane, first: AgentProcess) -> None:
    assert plane.registrations[0]["facts"]["is_pid1"] is True


@needs_namespaces
def test_first_process_reaps_orphans(plane: FakeControlPlane, first: AgentProcess) -> None:
    plane.do(
        "exec", {"script": "for i in 1 2 3 4 5; do (sleep 0.1 &) ; done", "timeout_seconds": 5}
    )
    until(lambda: zombies(plane) == b"0")


@needs_namespaces
def test_quiesce_of_a_whole_namespace_pauses_even_unmarked_processes(
    plane: FakeControlPlane, first: AgentProcess
) -> None:
    counting = "trap '' TERM; n=0; while :; do n=$((n+1)); echo $n > count; done"
    plane.do("run", run_args(f'env -i /bin/sh -c "{counting}" & sleep 300'))
    count = first.root / "workspace/count"
    until(count.exists)
    assert plane.do("quiesce", quiesce_args(grace_seconds=0))["paused"] >= 1
    content, changed_at = count.read_text(), count.stat().st_mtime_ns
    before = len(plane.heartbeats)
    plane.wait_for(lambda: len(plane.heartbeats) > before + 4)
    assert (count.read_text(), count.stat().st_mtime_ns) == (content, changed_at)
    plane.do("resume")
    until(lambda: count.stat().st_mtime_ns != changed_at)


@needs_namespaces
def test_quiesce_catches_every_process_of_a_fork_storm(
    plane: FakeControlPlane, first: AgentProcess
) -> None:
    storm = "trap '' TERM; while :; do (date +%N > beat) & wait; done"
    plane.do("run", run_args(f"{storm} & {storm}"))
    beat = first.root / "workspace/beat"
    until(beat.exists)
    plane.do("quiesce", quiesce_args(grace_seconds=0))
    changed_at = beat.stat().st_mtime_ns
    before = len(plane.heartbeats)
    plane.wait_for(lambda: len(plane.heartbeats) > before + 4)
    assert beat.stat().st_mtime_ns == changed_at


@needs_namespaces
def test_sigterm_to_the_first_process_reaches_the_workload(
    plane: FakeControlPlane, first: AgentProcess
) -> None:
    script = "trap 'echo bye > bye; exit 0' TERM; while :; do sleep 0.05; done"
    plane.do("run", run_args(script))
    (pid1,) = [p.pid for p in list_processes() if p.parent == first.pid]
    os.kill(pid1, signal.SIGTERM)
    first.wait()
    assert (first.root / "workspace/bye").exists()


def test_killed_agent_is_started_again_by_its_supervisor(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    killed = agent.agent_pid()
    agent.kill_agent()
    seen = len(plane.heartbeats)
    plane.wait_for(lambda: len(plane.heartbeats) > seen + 1)
    assert agent.agent_pid() != killed
    assert len(plane.registrations) == 1


def test_agent_does_not_outlive_its_supervisor(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    child = agent.agent_pid()
    os.kill(agent.pid, signal.SIGKILL)
    started = time.monotonic()
    until(lambda: child not in {p.pid for p in list_processes()})
    assert time.monotonic() - started < 5
