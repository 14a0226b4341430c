"""Pauses: who is stopped, for how long, and that everybody goes on whatever happens."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from podferry_agent.processes import find_process
from podferry_agent.snapshot import pausing, resume_all_left_paused
from podferry_agent.snapshot.pausing import Pauser, resume_left_paused
from podferry_agent.snapshot.statestore import StateStore
from tests.agent.snapshot import writers
from tests.agent.snapshot.conftest import Bench
from tests.agent.snapshot.test_live_files import live, restored


def is_stopped(pid: int) -> bool:
    process = find_process(pid)
    assert process
    return process.is_stopped


def await_state(pid: int, *, stopped: bool) -> None:
    deadline = time.monotonic() + 10
    while is_stopped(pid) is not stopped:
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.usefixtures("patient")
def test_case_s17_a_file_that_is_never_at_rest_is_read_while_its_writer_is(bench: Bench) -> None:
    path = bench.make("pod") / "array"
    with writers.writing("mapped", path) as pid:
        summary = live(bench, "snap_1").summary
        await_state(pid, stopped=False)
    assert summary.torn == []
    writers.check_mapped((restored(bench, "snap_1") / "array").read_bytes())
    assert summary.pauses in (0, 1)  # on a busy computer the writer may rest by itself
    assert bool(summary.pauses) == bool(summary.paused_ms)


@pytest.mark.usefixtures("patient")
def test_a_file_too_big_for_a_pause_stays_torn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podferry_agent.snapshot.restcopies.LARGEST", 4096)
    monkeypatch.setattr("podferry_agent.snapshot.reading.FileReader._fingerprint", _restless())
    path = bench.make("pod") / "array"
    with writers.writing("mapped", path):
        summary = live(bench, "snap_1").summary
    assert (summary.torn, summary.pauses) == (["array: as read"], 0)


@pytest.mark.usefixtures("patient")
def test_a_file_that_can_only_be_read_at_rest_costs_one_pause(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podferry_agent.snapshot.reading.FileReader._fingerprint", _restless())
    path = bench.make("pod") / "array"
    with writers.writing("mapped", path) as pid:
        summary = live(bench, "snap_1").summary
        await_state(pid, stopped=False)
    assert (summary.torn, summary.pauses) == ([], 1)
    assert summary.paused_ms > 0
    writers.check_mapped((restored(bench, "snap_1") / "array").read_bytes())


def _restless() -> object:
    """Every look finds something else."""
    return lambda *_: [os.urandom(32)]


@pytest.mark.usefixtures("patient")
def test_without_leave_nobody_is_paused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podferry_agent.snapshot.reading.FileReader._fingerprint", _restless())
    path = bench.make("pod") / "array"
    with writers.writing("mapped", path):
        summary = live(bench, "snap_1", pauses=False).summary
    assert (summary.torn, summary.pauses) == (["array: as read"], 0)


@pytest.mark.usefixtures("patient")
def test_only_who_is_named_is_paused_and_goes_on_after_an_error(tmp_path: Path) -> None:
    pauser = Pauser(tmp_path, allowed=True)
    with (
        writers.holding(tmp_path / "a", "wb") as one,
        writers.holding(tmp_path / "a", "wb") as other,
    ):
        with pytest.raises(ZeroDivisionError):
            _fail_while_paused(pauser, one, other)
        await_state(one, stopped=False)
    assert pauser.count == 1
    assert not (tmp_path / "pausing.json").exists()


def _fail_while_paused(pauser: Pauser, paused: int, awake: int) -> None:
    with pauser.paused([paused]) as pause:
        assert pause
        assert is_stopped(paused)
        assert not is_stopped(awake)
        raise ZeroDivisionError


@pytest.mark.usefixtures("patient")
def test_who_was_stopped_before_stays_so(tmp_path: Path) -> None:
    with writers.holding(tmp_path / "a", "wb") as pid:
        os.kill(pid, signal.SIGSTOP)
        await_state(pid, stopped=True)
        with Pauser(tmp_path, allowed=True).paused([pid]):
            pass
        assert is_stopped(pid)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "pid", [1, os.getpid(), os.getppid(), 2**22 - 1], ids=["first", "own", "parent", "nobody"]
)
def test_process_1_and_the_agent_with_all_above_it_are_never_paused(
    tmp_path: Path, pid: int
) -> None:
    with writers.holding(tmp_path / "a", "wb") as other:
        pauser = Pauser(tmp_path, allowed=True)
        with pauser.paused([other, pid]) as pause:
            assert pause is None
            assert not is_stopped(other)
        assert pauser.count == 0


@pytest.mark.parametrize("name", ["podferry-sshd", "sshd", "sshd-session", "dropbear", "systemd"])
def test_a_shell_is_paused_with_its_program_and_what_lets_its_user_in_is_not(name: str) -> None:
    own = find_process(os.getpid())
    assert own is not None
    server = replace(own, pid=1001, parent=1000, terminal=0, state="S", name=name)
    shell = replace(server, pid=1002, parent=1001, terminal=0x8800, name="bash")
    program = replace(shell, pid=1003, parent=1002, name="python3")
    above = replace(server, pid=1000, parent=1, name="agent")
    everyone = {process.pid: process for process in (above, server, shell, program)}
    assert [*pausing._terminal_ancestors(program, everyone, {1})] == [shell]


def test_a_pause_ends_by_itself_when_the_reading_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pausing, "_STOPPING", 5.0)
    pauser = Pauser(tmp_path, allowed=True)
    with writers.holding(tmp_path / "a", "wb") as pid, pauser.paused([pid]) as pause:
        await_state(pid, stopped=False)
        assert pause is None or pause.is_over


def test_there_are_no_more_pauses_than_the_budget_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pausing, "_STOPPING", 5.0)
    monkeypatch.setattr(pausing, "BUDGET", pausing.LONGEST)
    pauser = Pauser(tmp_path, allowed=True)
    with writers.holding(tmp_path / "a", "wb") as pid:
        for _ in range(3):
            with pauser.paused([pid]):
                pass
    assert pauser.count == 1


@pytest.mark.parametrize("is_by_capture", [True, False], ids=["capture", "agent"])
def test_an_agent_that_died_in_a_pause_wakes_everybody_at_its_next_start(
    bench: Bench, *, is_by_capture: bool
) -> None:
    path = bench.make("pod") / "a"
    state = os.fsencode(bench.base / "state-pod")
    directory = StateStore(state, "volume").directory
    program = (
        "import os, sys; sys.path.insert(0, 'agent'); from pathlib import Path;"
        "from podferry_agent.snapshot import pausing; pausing._STOPPING = 20;"
        "pausing.LONGEST = 60; pausing.BUDGET = 90;"
        "p = pausing.Pauser(Path(sys.argv[1]), allowed=True).paused([int(sys.argv[2])]);"
        "p.__enter__(); os._exit(9)"
    )
    with writers.holding(path, "wb") as pid:
        died = subprocess.run(
            [sys.executable, "-c", program, directory, str(pid)],
            cwd=writers.REPOSITORY,
            check=False,
        )
        assert died.returncode == 9
        assert is_stopped(pid)
        if is_by_capture:
            bench.capture("pod", "snap_1")
        else:
            assert resume_all_left_paused(state) == 1
        await_state(pid, stopped=False)
        assert resume_left_paused(directory) == 0


@contextmanager
def shell() -> Iterator[int]:
    """The terminal of an interactive shell."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe("bash", ["bash", "--norc", "-i"], {**os.environ, "PS1": "> ", "TERM": "dumb"})
    try:
        yield terminal
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(child, 0)


def listen(terminal: int, log: list[bytes], until: bytes, seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while until not in b"".join(log) and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.05)[0]:
            log.append(os.read(terminal, 4096))
    return until in b"".join(log)


@pytest.mark.usefixtures("patient")
def test_a_shell_does_not_notice_that_its_program_was_paused(tmp_path: Path) -> None:
    log: list[bytes] = []
    with shell() as terminal:
        program = "import os; print(f'pid={os.getpid()}.'); print('said', input())"
        os.write(terminal, f'{sys.executable} -c "{program}"\n'.encode())
        assert listen(terminal, log, b".\r\n")
        pid = int(b"".join(log).rpartition(b"pid=")[2].partition(b".")[0])
        for _ in range(3):
            with Pauser(tmp_path, allowed=True).paused([pid]) as pause:
                assert pause
                assert is_stopped(pid)
        os.write(terminal, b"hello\n")
        assert listen(terminal, log, b"said hello")
    assert b"topped" not in b"".join(log)
