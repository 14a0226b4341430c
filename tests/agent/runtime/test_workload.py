"""The workload beyond its start: restarts, figures, logs."""

from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess, until
from tests.agent.runtime.test_run import run_args, workload


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
