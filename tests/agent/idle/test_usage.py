"""What is measured, on real processes, terminals and sockets."""

import os
import pty
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from uuid import uuid4

import pytest

from podferry_agent import processes
from podferry_agent.api import build_pool
from podferry_agent.box import Box
from podferry_agent.gpus import GpuSampler
from podferry_agent.idle.sessions import count_ssh_sessions, count_used_terminals
from podferry_agent.idle.usage import (
    BoxProcesses,
    BusiestProcess,
    CpuUse,
    GpuUse,
    NetworkUse,
    Usage,
    all_network_bytes,
)
from podferry_agent.processes import Process, ProcessScope, find_process
from tests.agent.runtime.harness import until
from tests.agent.runtime.loopback import Loopback

MACHINE_ID = f"mach_{uuid4().hex[:26]}"
BUSY = "import time\nwhile True: pass"


def run(*argv: str, **options: object) -> subprocess.Popen[bytes]:
    """A program of the box: found by its mark, as in a directory box."""
    environment = {"PATH": os.environ["PATH"], "PF_MACHINE": MACHINE_ID}
    return subprocess.Popen(argv, env=environment, **options)  # type: ignore[call-overload,no-any-return]


Runner = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Runner]:
    with ExitStack() as stack:

        def begin(*argv: str, **options: object) -> subprocess.Popen[bytes]:
            process = run(*argv, start_new_session=True, **options)
            stack.callback(_end, process)
            return process

        yield begin


def _end(process: subprocess.Popen[bytes]) -> None:
    for found in members():
        if found.session == process.pid:
            os.kill(found.pid, 9)
    process.wait()


@pytest.fixture
def look(tmp_path: Path) -> BoxProcesses:
    return BoxProcesses(tmp_path, ProcessScope(MACHINE_ID, supervisor_pid=os.getppid()))


def members() -> list[Process]:
    """Only what this test started: its runner has processes of other tests as well."""
    mark = f"PF_MACHINE={MACHINE_ID}".encode()
    return [p for p in processes.list_processes() if processes.has_mark(p.pid, mark)]


def used(measure: CpuUse | BusiestProcess, seconds: float = 0.6) -> float:
    """Percent of one core over a short time."""
    measure(members(), 1.0)
    began = time.monotonic()
    time.sleep(seconds)
    level = measure(members(), time.monotonic() - began)
    assert level is not None
    return level


def test_first_look_knows_nothing_of_cpu_time() -> None:
    assert CpuUse()([], 1.0) is None
    assert BusiestProcess()([], 1.0) is None


@pytest.mark.parametrize("kind", [CpuUse, BusiestProcess])
def test_busy_loop_is_seen_and_a_sleeper_is_not(
    kind: type[CpuUse | BusiestProcess], start: Runner
) -> None:
    start("sleep", "60")
    assert used(kind()) < 1.0
    start(sys.executable, "-c", BUSY)
    # The computer may be busy with other things as well.
    until(lambda: used(kind()) > 10.0)


def test_programs_too_short_to_be_seen_are_counted_by_their_parent(start: Runner) -> None:
    start("sh", "-c", "while :; do expr 1 + 1 > /dev/null; done")
    until(lambda: used(CpuUse()) > 5.0)


def test_a_program_that_ends_does_not_make_use_negative(start: Runner) -> None:
    measure, busy = CpuUse(), start(sys.executable, "-c", BUSY)
    until(lambda: used(CpuUse()) > 10.0)
    measure(members(), 1.0)
    busy.kill()
    busy.wait()
    assert measure(members(), 1.0) == 0.0


def test_a_program_that_ends_hides_nothing_of_what_others_use(start: Runner) -> None:
    """Its time is with whoever waited for it: a parent of the box, or nobody in it."""
    start(sys.executable, "-c", BUSY)
    ends = "import time\nwhile time.process_time() < 1: pass"
    start("sh", "-c", f"{sys.executable} -c '{ends}'; sleep 60")
    outside = start(sys.executable, "-c", BUSY)
    until(lambda: any(p.name == "sleep" and p.session != outside.pid for p in members()))
    measure = CpuUse()
    measure(members(), 1.0)
    outside.kill()
    outside.wait()
    assert used(measure) > 5.0


def test_time_that_goes_over_to_the_parent_is_not_counted_twice(start: Runner) -> None:
    works = "import sys, time\nwhile time.process_time() < 1.2: pass\nsys.stdin.read()"
    line = f"{sys.executable} -c '{works}'; sleep 60"
    shell = start("sh", "-c", line, stdin=subprocess.PIPE)
    until(lambda: any(p.ticks >= 100 and p.state == "S" for p in members()))
    measure = CpuUse()
    measure(members(), 1.0)
    assert shell.stdin is not None
    shell.stdin.close()
    until(lambda: any(p.reaped_ticks >= 100 for p in members()))
    level = measure(members(), 1.0)
    assert level is not None
    assert level < 50.0


def test_the_agents_own_work_does_not_count(look: BoxProcesses, start: Runner) -> None:
    child = start("sleep", "60")
    seen = look()
    assert seen is not None
    pids = {process.pid for process in seen}
    assert child.pid in pids
    assert pids.isdisjoint({os.getpid(), os.getppid()})


def test_box_of_its_own_is_everything_in_it() -> None:
    scope = ProcessScope("mach_other", supervisor_pid=os.getppid())
    seen = BoxProcesses(Path("/"), scope)()
    assert seen is not None
    everyone = {p.pid for p in processes.list_processes()}
    assert {p.pid for p in seen} & everyone
    assert os.getpid() not in {p.pid for p in seen}


def test_helper_of_the_agent_is_not_of_the_user(tmp_path: Path, look: BoxProcesses) -> None:
    program = tmp_path / "nvidia-smi"
    program.symlink_to(shutil.which("sleep") or "")
    helper = run(str(program), "60")
    try:
        until(lambda: (found := find_process(helper.pid)) and found.name == "nvidia-smi")
        assert helper.pid not in {process.pid for process in look() or []}
    finally:
        helper.kill()
        helper.wait()


def test_where_proc_shows_nothing_nothing_is_known(
    tmp_path: Path, look: BoxProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path)
    usage = Usage(look, lambda: None, lambda _: None, lambda: 0)
    assert set(usage.sample(1.0).values()) == {None}


@contextmanager
def at_terminal() -> Iterator[tuple[int, str]]:
    """A shell at a terminal of its own: the other end, and the terminal's name."""
    ours, theirs = pty.openpty()
    name = os.ttyname(theirs)
    shell = run("setsid", "--ctty", "--wait", "sh", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        until(lambda: any(p.has_terminal for p in members()))
        yield ours, name
    finally:
        for found in members():
            if found.has_terminal:
                os.kill(found.pid, 9)
        shell.wait()
        os.close(ours)


def test_terminal_is_in_use_when_somebody_types_at_it_and_not_because_it_is_open() -> None:
    with at_terminal() as (ours, name):
        os.utime(name, (1, 1))
        assert count_used_terminals(members(), within_seconds=20.0) == 0
        os.write(ours, b"true\n")
        until(lambda: count_used_terminals(members(), within_seconds=20.0) == 1)


@pytest.fixture
def disguised(tmp_path: Path, start: Runner) -> Callable[[str, str], None]:
    """Starts a program that goes by another name and title, as an SSH server does."""

    def begin(name: str, title: str) -> None:
        program = tmp_path / f"{uuid4().hex}" / name
        program.parent.mkdir()
        program.symlink_to(shutil.which("sleep") or "")
        child = start(title, "60", executable=str(program))
        until(lambda: (found := find_process(child.pid)) and found.name == name)

    return begin


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("sshd", "sshd: root@pts/0"),
        ("sshd", "sshd: me@notty"),
        ("sshd-session", "sshd-session: root@pts/1"),
    ],
)
def test_login_through_openssh_is_a_session(
    disguised: Callable[[str, str], None], name: str, title: str
) -> None:
    disguised(name, title)
    assert count_ssh_sessions(members()) == 1


@pytest.mark.parametrize(
    "title",
    [
        "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups",
        "sshd: [accepted]",
        "sshd: root [priv]",
        "sshd: unknown [net]",
    ],
)
def test_server_and_whoever_knocks_at_it_are_no_sessions(
    disguised: Callable[[str, str], None], title: str
) -> None:
    disguised("sshd", title)
    assert count_ssh_sessions(members()) == 0


def test_program_with_the_title_of_a_login_and_another_name_is_none(
    disguised: Callable[[str, str], None],
) -> None:
    disguised("notes", "sshd: root@pts/0")
    assert count_ssh_sessions(members()) == 0


def test_login_through_dropbear_is_a_connection_with_a_program(
    tmp_path: Path, start: Runner
) -> None:
    program = tmp_path / "dropbear"
    program.symlink_to(shutil.which("sh") or "")
    knocking = f"{program} -c 'read x' < /dev/zero"
    start(str(program), "-c", f"{program} -c 'sleep 60; :' & {knocking} & wait")
    until(lambda: sum(p.name == "dropbear" for p in members()) == 3)
    until(lambda: any(p.name == "sleep" for p in members()))
    assert count_ssh_sessions(members()) == 1


def test_sessions_of_the_agents_own_server_count(look: BoxProcesses) -> None:
    usage = Usage(list, lambda: None, lambda _: None, lambda: 2)
    assert usage.sample(1.0)["ssh"] == 2.0


def loopback_bytes() -> int:
    """In and out over loopback, which the agent leaves out: the one interface that tests have."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    figures = next(line for line in lines if line.strip().startswith("lo:")).partition(":")[2]
    return int(figures.split()[0]) + int(figures.split()[8])


def test_traffic_of_the_box_is_seen() -> None:
    measure = NetworkUse(loopback_bytes, lambda: 0)
    assert measure(1.0) is None
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        there, _ = server.accept()
        reader = threading.Thread(target=lambda: _drain(there))
        reader.start()
        with client:
            client.sendall(bytes(4 << 20))
        reader.join()
    level = measure(2.0)
    assert level is not None
    assert level >= (8 << 20) / 2.0


def _drain(connection: socket.socket) -> None:
    with connection:
        while connection.recv(1 << 16):
            continue


class _Echo(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_what_the_agent_moves_itself_is_counted_and_taken_off() -> None:
    server = Loopback(_Echo)
    server.start()
    try:
        pool = build_pool(None, 1)
        total = [0]
        measure = NetworkUse(lambda: total[0], lambda: pool.moved_bytes)
        measure(1.0)
        body = bytes(1 << 20)
        assert pool.request("PUT", f"{server.url}/x", body=body).data == body
        moved = 2 << 20
        assert moved <= pool.moved_bytes <= moved + 10_000
        total[0] += int(moved * 1.05)
        assert measure(1.0) == 0.0
        total[0] += 50_000
        assert measure(1.0) == 50_000.0
        pool.clear()
    finally:
        server.close()


def test_traffic_that_cannot_be_read_is_unknown() -> None:
    totals: Iterator[int | None] = iter([1, None, 5, 7])
    measure = NetworkUse(lambda: next(totals), lambda: 0)
    assert [measure(1.0) for _ in range(4)] == [None, None, None, 2.0]


def test_interfaces_of_this_computer_can_be_read() -> None:
    assert (all_network_bytes() or 0) >= 0


def gpu_use(root: Path, script: str | None) -> float | None:
    """What is made of the answer of an nvidia-smi."""
    tools = root / "usr/bin"
    tools.mkdir(parents=True)
    (root / "dev").mkdir()
    if script is not None:
        program = tools / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    box = Box(root, MACHINE_ID, {"PATH": "/usr/bin:/bin"})
    sampler = GpuSampler(box, lambda: True)
    sampler.start()
    try:
        until(lambda: sampler._sampled_at)
        return GpuUse(box, sampler)()
    finally:
        sampler.stop()


@pytest.mark.parametrize(
    ("script", "level"),
    [
        ("echo '0, 0, 10, 40'", 0.0),
        ("printf '0, 3, 10, 40\\n1, 97, 10, 40\\n'", 97.0),
        ("printf '0, 3, 10, 40\\n1, [N/A], 10, 40\\n'", None),
        ("exit 9", None),
        (None, 0.0),
    ],
)
def test_gpu_use_is_that_of_the_busiest_one_or_unknown(
    tmp_path: Path, script: str | None, level: float | None
) -> None:
    assert gpu_use(tmp_path, script) == level


def test_gpu_without_the_tool_to_measure_it_is_unknown(tmp_path: Path) -> None:
    assert gpu_use(tmp_path, None) == 0.0
    (tmp_path / "dev/nvidia0").touch()
    box = Box(tmp_path, MACHINE_ID, {"PATH": "/usr/bin:/bin"})
    sampler = GpuSampler(box, lambda: True, [], time.monotonic())
    assert GpuUse(box, sampler)() is None
