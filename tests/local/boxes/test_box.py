"""Boxes are real: own processes, own files, bounded ends, and none outlives its owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from local.boxes.box import Box, BoxError, BoxStartError
from local.boxes.keeper import lock_directory
from local.boxes.spec import GPU, BoxSpec, BoxSpecError, Isolation

_TWO_GPUS = GPU("NVIDIA GeForce RTX 4090", 24564, count=2)


def is_running(pid: int) -> bool:
    """A zombie that nobody has collected yet runs no more."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def read(box: Box, script: str) -> str:
    result = box.run(["/bin/sh", "-c", script])
    assert result.exit_code == 0, result.stderr
    return result.stdout.decode().strip()


def test_a_box_runs_its_command_as_process_one(make_box):
    box = make_box("exec sleep 1000")
    box.start()
    assert read(box, "tr '\\0' ' ' < /proc/1/cmdline") == "sleep 1000"


def test_a_box_sees_only_its_own_processes(make_box):
    box = make_box()
    box.start()
    numbers = [int(name) for name in read(box, "ls /proc").split() if name.isdecimal()]
    # The command, its sleep, the shell that asks, and its ls.
    assert len(numbers) <= 4
    assert 1 in numbers
    assert not any(str(os.getpid()) == name for name in map(str, numbers))


def test_the_command_gets_exactly_the_environment_of_the_spec(make_box):
    box = make_box(
        "env > /workspace/env; sleep infinity", environment={"ONLY": "this", "PATH": "/bin"}
    )
    box.start()
    lines = read(box, "until [ -s /workspace/env ]; do :; done; cat /workspace/env").splitlines()
    # The shell adds the first of these by itself.
    assert set(lines) - {"PWD=/"} == {"ONLY=this", "PATH=/bin"}


def test_the_command_inherits_no_open_files(make_box):
    box = make_box("cd /workspace; ls -l /proc/$$/fd > new; mv new fds; sleep infinity")
    box.start()
    listing = read(box, "until [ -s /workspace/fds ]; do :; done; cat /workspace/fds")
    names = [line.split(" -> ")[0].split()[-1] for line in listing.splitlines() if "->" in line]
    # Number 10 is where dash keeps a file that it redirects.
    assert set(names) <= {"0", "1", "2", "10"}


def test_changes_in_a_box_touch_neither_the_base_nor_another_box(make_box, base):
    first, second = make_box(), make_box()
    first.start()
    second.start()
    read(first, "echo changed > /etc/profile; rm /bin/cp; mkdir /opt/new")
    assert "changed" not in (base / "etc/profile").read_text()
    assert (base / "bin/cp").exists()
    assert not (base / "opt/new").exists()
    assert "changed" not in read(second, "cat /etc/profile; test -e /bin/cp")


def test_mounts_of_a_box_do_not_reach_the_host(make_box, tmp_path):
    before = Path("/proc/self/mountinfo").read_text()
    box = make_box()
    box.start()
    assert Path("/proc/self/mountinfo").read_text() == before
    assert list(box.spec.root.iterdir()) == []


def test_the_host_is_out_of_reach_of_a_box(make_box):
    box = make_box()
    box.start()
    assert box.run(["touch", "/sys/kernel/x"]).exit_code != 0
    assert box.run(["sh", "-c", "echo 1 > /proc/sys/vm/drop_caches"]).exit_code != 0
    assert box.run(["mknod", "/root/disk", "b", "8", "0"]).exit_code != 0
    assert box.run(["test", "-e", str(box.spec.directory)]).exit_code != 0
    read(box, "hostname of-the-box")
    assert socket.gethostname() != "of-the-box"


def test_machine_files_are_mounts_of_their_own(make_box):
    box = make_box(gpu=_TWO_GPUS, hostname="rig")
    box.start()
    mounts = {line.split()[4] for line in read(box, "cat /proc/self/mountinfo").splitlines()}
    library = f"/usr/lib/{os.uname().machine}-linux-gnu/libcuda.so.1"
    wanted = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/usr/bin/nvidia-smi", library}
    assert wanted | {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"} <= mounts
    assert "/dev/nvidia2" not in mounts
    assert read(box, "cat /etc/hostname; hostname").split() == ["rig", "rig"]


def test_driver_files_cannot_be_changed_and_leave_a_link_in_the_layer(make_box):
    box = make_box(gpu=_TWO_GPUS)
    box.start()
    assert b"Read-only" in box.run(["sh", "-c", "echo x > /usr/bin/nvidia-smi"]).stderr
    assert box.run(["rm", "/usr/bin/nvidia-smi"]).exit_code != 0
    link = read(box, "readlink /usr/lib/*/libnvidia-ml.so.1")
    assert link == f"libnvidia-ml.so.{_TWO_GPUS.driver_version}"
    assert read(box, "cat /usr/lib/*/libnvidia-ml.so.1").startswith("simulated")


def test_nvidia_smi_answers_queries_in_the_order_asked(make_box):
    box = make_box(gpu=_TWO_GPUS)
    box.start()
    fields = "utilization.gpu,name,memory.total,driver_version,memory.used,temperature.gpu"
    rows = read(box, f"nvidia-smi --query-gpu={fields} --format=csv,noheader,nounits")
    row = "0, NVIDIA GeForce RTX 4090, 24564, 570.86.15, 0, 35"
    assert rows.splitlines() == [row, row]
    uuids = read(box, "nvidia-smi --query-gpu=uuid --format=csv,noheader,nounits").splitlines()
    assert len(set(uuids)) == 2
    assert all(uuid.startswith("GPU-") for uuid in uuids)
    assert read(box, "nvidia-smi --query-gpu=index,memory.total --format=csv").splitlines() == [
        "index, memory.total",
        "0, 24564 MiB",
        "1, 24564 MiB",
    ]
    assert "CUDA Version: 12.8" in read(box, "nvidia-smi")


def test_nvidia_smi_refuses_a_field_that_it_does_not_know(make_box):
    box = make_box(gpu=_TWO_GPUS)
    box.start()
    result = box.run(["nvidia-smi", "--query-gpu=name,colour", "--format=csv"])
    assert result.exit_code == 2
    assert b"colour" in result.stderr


def test_a_box_without_a_gpu_has_no_driver(make_box):
    box = make_box()
    box.start()
    assert box.run(["test", "-e", "/usr/bin/nvidia-smi"]).exit_code == 1
    assert box.run(["test", "-e", "/dev/nvidia0"]).exit_code == 1


def test_provider_files_are_plain_files_of_the_layer(make_box):
    box = make_box(provider_files={"/root/.provider_key": "secret"})
    box.start()
    assert read(box, "cat /root/.provider_key; stat -c %a /root/.provider_key") == "secret600"
    assert "/root/.provider_key" not in read(box, "cat /proc/self/mountinfo")


def test_kill_ends_every_process_of_a_box_within_a_second(make_box):
    box = make_box("for i in 1 2 3 4 5 6 7 8; do setsid sleep 1000 & done; trap '' TERM; wait")
    box.start()
    inside = box.pid
    read(box, "dd if=/dev/zero of=/root/dirty bs=1M count=20 2>/dev/null")
    started = time.monotonic()
    box.kill()
    assert time.monotonic() - started < 1.0
    assert not box.is_alive
    assert not is_running(inside)
    end = box.wait(0)
    assert end is not None
    assert end.signal == signal.SIGKILL


def test_terminate_reaches_a_handler_and_the_exit_code_is_reported(make_box):
    box = make_box(
        "trap 'exit 7' TERM; echo ready > /workspace/ready; while :; do sleep 0.02; done"
    )
    box.start()
    read(box, "until [ -e /workspace/ready ]; do :; done")
    box.terminate()
    end = box.wait(5)
    assert end is not None
    assert (end.code, end.signal) == (7, None)


def test_terminate_without_a_handler_is_dropped_by_the_kernel(make_box):
    box = make_box("exec sleep 1000")
    box.start()
    read(box, "until grep -q sleep /proc/1/cmdline; do :; done")
    box.terminate()
    assert box.wait(0.2) is None
    assert box.is_alive


def test_output_of_the_command_is_in_the_log(make_box):
    box = make_box("echo to-out; echo to-err >&2")
    box.start()
    assert box.wait(5) is not None
    assert box.log_path.read_text().split() == ["to-out", "to-err"]


def test_a_box_restarts_on_the_files_of_its_last_run(make_box):
    box = make_box("echo run >> /root/runs; sync /root/runs; sleep infinity", gpu=_TWO_GPUS)
    box.start()
    read(box, "until [ -s /root/runs ]; do :; done; echo mine > /opt/mine; rm /bin/tac")
    box.kill()
    box.start()
    read(box, "until [ $(wc -l < /root/runs) = 2 ]; do :; done")
    assert read(box, "cat /opt/mine") == "mine"
    assert box.run(["test", "-e", "/bin/tac"]).exit_code == 1


def test_a_running_box_cannot_be_started_twice(make_box):
    box = make_box()
    box.start()
    with pytest.raises(BoxError, match="runs already"):
        box.start()


def test_one_disk_carries_one_box_at_a_time(make_box):
    first = make_box()
    first.start()
    with pytest.raises(OSError, match="another box runs on this disk"):
        lock_directory(first.spec.directory, wait_seconds=0.1)
    assert read(first, "echo still here") == "still here"


def test_destroy_removes_the_disk_and_may_be_repeated(make_box):
    box = make_box()
    box.start()
    read(box, "mkdir -p /opt/locked/in && chmod 0 /opt/locked && rm -r /usr/local")
    box.destroy()
    assert not box.spec.directory.exists()
    assert not box.is_alive
    box.destroy()


def test_a_command_that_does_not_exist_fails_the_start_with_its_name(make_box):
    box = make_box(argv=("/bin/no-such-program",))
    with pytest.raises(BoxStartError, match="/bin/no-such-program"):
        box.start()
    assert not box.is_alive


def test_a_command_in_a_box_is_ended_at_its_time_limit(make_box, eventually):
    box = make_box()
    box.start()
    with pytest.raises(BoxError, match="not done after"):
        box.run(["sleep", "765"], timeout=0.3)
    assert eventually(lambda: box.run(["pgrep", "-f", "sleep 765"]).exit_code == 1)


def test_a_wheel_can_be_installed_in_a_box_without_a_network(make_box, tmp_path):
    wheel = tmp_path / "greeting-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("greeting.py", "text = 'hello from a wheel'\n")
        archive.writestr(
            "greeting-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
        )
        archive.writestr(
            "greeting-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(
            "greeting-1.0.dist-info/RECORD",
            "greeting.py,,\ngreeting-1.0.dist-info/METADATA,,\n"
            "greeting-1.0.dist-info/WHEEL,,\ngreeting-1.0.dist-info/RECORD,,\n",
        )
    box = make_box()
    box.start()
    target = box.spec.directory / "upper/root" / wheel.name
    target.parent.mkdir(exist_ok=True)
    # Through the box itself: an overlay must not be changed from below while it is mounted.
    encoded = wheel.read_bytes().hex()
    read(
        box,
        f"python3 -c \"open('/root/{wheel.name}','wb').write(bytes.fromhex('{encoded}'))\"",
    )
    installed = box.run(["pip", "install", "--no-index", f"/root/{wheel.name}"], timeout=60)
    assert installed.exit_code == 0, installed.stderr
    assert read(box, "python3 -c 'import greeting; print(greeting.text)'") == "hello from a wheel"


_OWNER = """
import sys, time
from pathlib import Path
from local.boxes.box import Box
from local.boxes.keeper import lock_directory
from local.boxes.spec import BoxSpec, Isolation
box = Box(BoxSpec(Path(sys.argv[1]), Path(sys.argv[2]), Isolation(sys.argv[3]),
                  ("/bin/sh", "-c", "echo >> /root/runs; sleep infinity")))
box.start()
print(box.pid, box._keeper.pid, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def owner(tmp_path, base, isolation):
    process = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(tmp_path / "owned"), str(base), str(isolation)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[3])},
    )
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_no_box_outlives_its_owner_even_a_killed_one(owner, tmp_path, base, isolation, eventually):
    box_pid, keeper_pid = map(int, owner.stdout.readline().split())
    assert eventually((tmp_path / "owned/upper/root/runs").exists)
    assert is_running(box_pid)
    owner.kill()
    owner.wait()
    assert eventually(lambda: not is_running(box_pid) and not is_running(keeper_pid), 3)
    again = Box(
        BoxSpec(tmp_path / "owned", base, isolation, ("/bin/sh", "-c", "wc -l < /root/runs"))
    )
    again.start()
    assert again.wait(5).code == 0
    assert again.log_path.read_text().strip() == "1"
    again.destroy()


def test_a_killed_keeper_takes_its_box_along(owner, eventually):
    box_pid, keeper_pid = map(int, owner.stdout.readline().split())
    os.kill(keeper_pid, signal.SIGKILL)
    assert eventually(lambda: not is_running(box_pid), 3)


def test_ten_boxes_start_and_end_side_by_side(make_box):
    boxes = [make_box() for _ in range(10)]
    threads = [threading.Thread(target=box.start) for box in boxes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({box.pid for box in boxes}) == 10
    for box in boxes:
        box.kill()
    assert not any(is_running(box.pid) for box in boxes)


def test_a_spec_names_what_is_wrong_with_it(base, tmp_path):
    with pytest.raises(BoxSpecError, match="argv"):
        BoxSpec(tmp_path, base, Isolation.ROOT, ())
    with pytest.raises(BoxSpecError, match="directory"):
        BoxSpec(tmp_path / "a:b", base, Isolation.ROOT, ("/bin/true",))
    with pytest.raises(BoxSpecError, match="base"):
        BoxSpec(tmp_path, Path("relative"), Isolation.ROOT, ("/bin/true",))
