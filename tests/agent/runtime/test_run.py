"""The `run` command."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.runtime.conftest import running_box
from tests.agent.runtime.fake_api import FakeControlPlane, Json
from tests.agent.runtime.harness import AgentProcess

SERVER = "exec python3 -m http.server --bind 127.0.0.1 {port}"
KEY = "ssh-ed25519 AAAAC3Nza someone@example"


def run_args(script: str | None, **changes: object) -> Json:
    return {
        "startup_script": script,
        "environment": {},
        "ssh_authorized_keys": [],
        "require_gpu": False,
        "timeout_seconds": 10,
        "port": None,
        **changes,
    }


def workload(plane: FakeControlPlane) -> Json:
    found: Json = plane.heartbeats[-1]["workload"]
    return found


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


def test_pod_without_a_startup_script_is_ready(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    result = plane.do("run", run_args(None))
    assert result == {
        "exit_code": None,
        "serving": False,
        "probe_ok": True,
        "gpu_ok": None,
        "ssh_ok": None,
    }


def test_startup_script_that_ends_well_makes_the_pod_ready(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    script = 'echo "$GREETING from $PWD"'
    result = plane.do("run", run_args(script, environment={"GREETING": "hello"}))
    assert result["exit_code"] == 0
    log = (agent.state_dir / "workload.log").read_text()
    assert log == f"hello from {agent.root}/workspace\n"


def test_startup_script_may_name_its_interpreter(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    script = "#!/usr/bin/env python3\nimport sys; sys.exit(5)"
    error = plane.fail("run", run_args(script))
    assert "ended with 5" in error["detail"]


def test_promise_06_failing_startup_script_is_not_ready_and_its_output_says_why(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    error = plane.fail("run", run_args("echo no such model >&2; exit 4"))
    assert error["code"] == "startup_failed"
    assert "ended with 4; its last output: no such model" in error["detail"]


def test_running_script_without_a_port_is_ready_after_a_second(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    result = plane.do("run", run_args("sleep 300"))
    assert (result["exit_code"], result["serving"]) == (None, False)
    plane.wait_for(lambda: workload(plane)["state"] == "running")


def test_promise_06_script_with_a_port_is_ready_when_the_port_accepts(
    plane: FakeControlPlane, agent: AgentProcess, free_port: int
) -> None:
    result = plane.do("run", run_args(SERVER.format(port=free_port), port=free_port))
    assert result["serving"] is True
    plane.wait_for(lambda: workload(plane)["state"] == "serving")


def test_promise_06_port_that_never_accepts_is_not_ready(
    plane: FakeControlPlane, agent: AgentProcess, free_port: int
) -> None:
    args = run_args("sleep 300", port=free_port, timeout_seconds=1)
    error = plane.fail("run", args)
    assert error["code"] == "startup_timeout"
    assert str(free_port) in error["detail"]


def test_workload_that_ends_later_is_reported(plane: FakeControlPlane, agent: AgentProcess) -> None:
    plane.do("run", run_args("while [ ! -e end ]; do sleep 0.05; done; exit 9"))
    (agent.root / "workspace/end").touch()
    plane.wait_for(lambda: workload(plane)["state"] == "exited")
    assert workload(plane)["exit_code"] == 9


def test_ssh_keys_are_added_beside_the_providers_own(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    path = agent.root / "root/.ssh/authorized_keys"
    path.parent.mkdir(mode=0o700)
    path.write_text("ssh-rsa PROVIDER key\n")
    plane.do("run", run_args(None, ssh_authorized_keys=[KEY, "ssh-rsa OLD old"]))
    plane.do("run", run_args(None, ssh_authorized_keys=[KEY]))
    lines = path.read_text().splitlines()
    assert lines[0] == "ssh-rsa PROVIDER key"
    assert lines.count(KEY) == 1
    assert not any("OLD" in line for line in lines)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_ssh_key_with_a_line_break_is_refused(plane: FakeControlPlane, agent: AgentProcess) -> None:
    error = plane.fail("run", run_args(None, ssh_authorized_keys=[f"{KEY}\nssh-rsa EVIL"]))
    assert error["code"] == "invalid_arguments"


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
def test_promise_06_pod_that_needs_a_gpu_is_not_ready_without_one(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    error = plane.fail("run", run_args(None, require_gpu=True))
    assert error["code"] == "gpu_unusable"
    assert error["retryable"] is True
