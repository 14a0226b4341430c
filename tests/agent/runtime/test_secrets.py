"""A pod's secrets on its machine: in the environment of its programs, and nowhere else."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess, until
from tests.agent.runtime.ssh_pod import Pod, ready_pod
from tests.agent.runtime.test_capture_restore import capture_args
from tests.agent.runtime.test_run import run_args, workload

CANARY = "planted-canary-5d20"
SHOW = 'printf %s "$HF_TOKEN" | wc -c'
LENGTH = str(len(CANARY)).encode()


@pytest.fixture
def agent(plane: FakeControlPlane, new_agent: AgentFactory) -> AgentProcess:
    plane.secrets = {"HF_TOKEN": CANARY}
    return new_agent().start()


def shown(plane: FakeControlPlane, script: str) -> bytes:
    command = plane.enqueue("exec", {"script": script, "timeout_seconds": 20})
    plane.wait_end(command)
    return plane.output(command, "stdout").strip()


def files_with(folder: Path, text: str) -> list[str]:
    """Every file that holds it; compressed ones are looked into."""
    return [str(p) for p in folder.rglob("*") if p.is_file() and text.encode() in p.read_bytes()]


def contents(objects: dict[tuple[str, str], bytes]) -> Iterator[bytes]:
    """Objects as they are, and every zstd frame in them."""
    magic = zstandard.MAGIC_NUMBER.to_bytes(4, "little")
    for body in objects.values():
        yield body
        at = body.find(magic)
        while at >= 0:
            yield zstandard.ZstdDecompressor().decompressobj().decompress(body[at:])
            at = body.find(magic, at + 1)


def test_startup_script_and_commands_get_the_secrets(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    script = '[ "$HF_TOKEN" = planted-canary-5d20 ] || exit 9; exec sleep 300'
    plane.do("run", run_args(script))
    assert shown(plane, SHOW) == LENGTH
    assert workload(plane)["state"] == "running"


def test_output_of_a_command_goes_up_without_the_secret(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args(None))
    assert shown(plane, "env | grep HF_") == b"HF_TOKEN=<secret>"
    cut = 'printf %s "${HF_TOKEN%5d20}"; sleep 0.6; printf %s 5d20; echo .'
    assert shown(plane, cut) == b"<secret>."


def test_case_x5_nothing_on_the_disk_in_a_capture_or_sent_up_holds_a_secret(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    script = "echo to-be-found > /dev/null; exec sleep 300"
    plane.do("run", run_args(script, environment={"MODEL": "planted-plain"}))
    shown(plane, "env; env >&2")
    (agent.root / "etc/marker").write_text("marker of this tree " * 40)
    plane.do("quiesce", {"hook_timeout_seconds": 5, "grace_seconds": 1})
    for kind in ("environment", "volume"):
        snapshot = f"snap_01j0000000000000000000000{kind[0]}"
        plane.do("capture", capture_args(kind, snapshot_id=snapshot))
    captured = list(contents(plane.objects))
    assert any(b"marker of this tree" in body for body in captured), "captures were looked into"
    assert not [body for body in captured if CANARY.encode() in body]
    assert files_with(agent.root, "planted-plain"), "the agent's own state was looked into"
    assert files_with(agent.root, CANARY) == []
    assert CANARY not in agent.log()
    assert CANARY not in repr(plane.heartbeats) + repr(plane.outputs) + repr(plane.commits)


def test_what_a_failing_script_said_last_is_reported_without_the_secret(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    error = plane.fail("run", run_args('echo "my token is $HF_TOKEN"; exit 3'))
    assert error["code"] == "startup_failed"
    assert "my token is <secret>" in error["detail"]
    assert CANARY not in repr(plane.ended)


def test_secret_that_there_is_not_fails_the_start_with_its_name(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.missing_secrets = ["hf"]
    error = plane.fail("run", run_args("touch workspace/started"))
    assert error["code"] == "secret_missing"
    assert "no secret hf" in error["detail"]
    assert not (agent.root / "workspace/started").exists()


def test_agent_that_was_killed_asks_for_the_secrets_again(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args("exec sleep 300"))
    agent.kill_agent()
    assert shown(plane, SHOW) == LENGTH


def test_restarted_box_starts_its_workload_with_the_secrets(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    script = 'printf %s "$HF_TOKEN" | wc -c >> "$COUNTS"; exec sleep 300'
    counts = agent.root / "workspace/counts"
    plane.do("run", run_args(script, environment={"COUNTS": str(counts)}))
    plane.add_fault("POST", "/agent/v1/secrets", "error", count=2)
    agent.kill_box()
    agent.start()
    until(lambda: counts.read_bytes().split() == [LENGTH, LENGTH])


def test_login_gets_the_secrets_also_when_the_agent_was_restarted(tmp_path: Path) -> None:
    with ready_pod(tmp_path) as pod:
        pod.plane.secrets = {"HF_TOKEN": CANARY}
        pod.plane.do("run", run_args(None, ssh_port=22))
        until(lambda: said(pod) == CANARY.encode())
        pod.agent.kill_agent()
        until(lambda: pod.client.can_log_in() and said(pod) == CANARY.encode())
        assert files_with(pod.agent.root, CANARY) == []
        assert CANARY not in pod.agent.log()


def said(pod: Pod) -> bytes:
    session = pod.client.open('printf %s "$HF_TOKEN"')
    return session.communicate()[0]


def test_programs_of_the_agent_itself_do_not_have_the_secrets(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args(None))
    for pid in (agent.pid, agent.agent_pid()):
        assert CANARY.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    assert os.path.exists(f"/proc/{agent.pid}/environ")  # noqa: PTH110 - of another process
