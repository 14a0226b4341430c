import stat
from pathlib import Path

import pytest

from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane, Json
from tests.agent.runtime.harness import AgentProcess, until

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


def test_pod_without_a_startup_script_is_ready(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    result = plane.do("run", run_args(None))
    assert result == {"exit_code": None, "serving": False, "probe_ok": True, "gpu_ok": None}


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


def test_workload_outlives_a_killed_agent(plane: FakeControlPlane, agent: AgentProcess) -> None:
    plane.do("run", run_args("echo $$ > pid; exec sleep 300"))
    pid = int((agent.root / "workspace/pid").read_text())
    sequence = plane.heartbeats[-1]["sequence"]
    agent.kill_agent()
    plane.wait_for(lambda: plane.heartbeats[-1]["sequence"] < sequence)
    assert workload(plane)["state"] == "running"
    assert int((agent.root / "workspace/pid").read_text()) == pid
    assert pid in agent.own_processes()


def test_restarted_box_starts_its_workload_again(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args("echo started >> starts; sleep 300"))
    agent.kill_box()
    agent.start()
    starts = agent.root / "workspace/starts"
    until(lambda: starts.read_text() == "started\nstarted\n")
    plane.wait_for(lambda: workload(plane)["state"] == "running")


def test_restarted_box_does_not_repeat_a_script_that_had_ended(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args("echo started >> starts"))
    plane.wait_for(lambda: workload(plane)["state"] == "exited")
    agent.kill_box()
    agent.start()
    before = len(plane.heartbeats)
    plane.wait_for(lambda: len(plane.heartbeats) > before + 2)
    assert (agent.root / "workspace/starts").read_text() == "started\n"


def test_promise_05_stale_machine_does_not_start_its_workload_again(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.do("run", run_args("echo started >> starts; sleep 300"))
    agent.kill_box()
    plane.epoch_is_stale = True
    assert agent.start().wait() == 65
    assert (agent.root / "workspace/starts").read_text() == "started\n"


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


def test_gpu_figures_come_from_nvidia_smi(plane: FakeControlPlane, new_agent: AgentFactory) -> None:
    agent = new_agent()
    fake = agent.root / "usr/bin/nvidia-smi"
    fake.write_text(
        '#!/bin/sh\ncase "$1" in\n'
        '-L) echo "GPU 0: Test GPU (UUID: GPU-1)";;\n'
        '--query-gpu=name*) echo "Test GPU, 24576, 560.35, GPU-1";;\n'
        '--query-gpu=index*) echo "0, 37, 1024, [N/A]";;\n'
        '*) echo "| Driver Version: 560.35  CUDA Version: 12.6 |";;\nesac\n'
    )
    fake.chmod(0o755)
    (agent.root / "dev/nvidia0").touch()
    agent.start()
    assert plane.do("run", run_args(None, require_gpu=True))["gpu_ok"] is True
    facts = plane.registrations[0]["facts"]
    assert facts["cuda_version"] == "12.6"
    assert facts["gpus"][0] == {
        "name": "Test GPU",
        "memory_mib": 24576,
        "driver_version": "560.35",
        "uuid": "GPU-1",
    }
    gpus = plane.wait_for(lambda: plane.heartbeats[-1]["metrics"]["gpus"])
    assert gpus[0]["utilization_percent"] == 37
    assert gpus[0]["temperature_c"] is None


def test_workload_log_stays_below_its_limit(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    agent = new_agent(PF_LOG_LIMIT_BYTES="20000").start()
    plane.do("run", run_args("while :; do echo some line of output; sleep 0.001; done"))
    previous = agent.state_dir / "workload.previous.log"
    until(previous.exists)
    before = len(plane.heartbeats)
    plane.wait_for(lambda: len(plane.heartbeats) > before + 5)
    assert (agent.state_dir / "workload.log").stat().st_size < 100_000
    assert previous.stat().st_size <= 20_000
