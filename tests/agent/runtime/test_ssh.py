"""The agent's SSH server, called by the system's own clients."""

import fcntl
import os
import pty
import select
import socket
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agent.runtime.harness import free_port, until
from tests.agent.runtime.ssh_client import SshClient, make_key
from tests.agent.runtime.ssh_pod import Pod, processes_of, ready_pod

BIG = 100 * 1024 * 1024


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    with ready_pod(tmp_path_factory.mktemp("ssh")) as ready:
        yield ready


def test_command_ends_with_its_own_status_and_its_errors_come_apart(pod: Pod) -> None:
    done = pod.client.run("echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_command_reads_what_the_client_sends_to_its_end(pod: Pod) -> None:
    assert pod.client.ok("wc -c", stdin=b"x" * 300_000) == "300000\n"


def test_command_that_is_killed_is_no_success(pod: Pod) -> None:
    assert pod.client.run("kill -KILL $$").returncode == 255


def test_login_has_the_environment_of_the_pod_and_no_token(pod: Pod) -> None:
    lines = pod.client.ok("env").splitlines()
    environment = dict(line.partition("=")[::2] for line in lines)
    assert environment["MODEL"] == "tiny"
    assert environment["HOME"] == str(pod.agent.root / "root")
    assert environment["PATH"].endswith(os.environ["PATH"])
    assert environment["USER"] == "root"
    assert not {"PF_TOKEN", "PF_API", "PF_BUNDLE_URL", "PF_SSH_LISTEN"} & {*environment}


def test_session_begins_at_home(pod: Pod) -> None:
    assert pod.client.ok("pwd") == f"{pod.agent.root}/root\n"


class Terminal:
    """A user's terminal with ssh in it."""

    def __init__(self, client: SshClient, rows: int, columns: int) -> None:
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.process = subprocess.Popen(
            # It makes the terminal the one that controls ssh.
            ["setsid", "--ctty", *client.argv("-tt", "root@127.0.0.1")],
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self.seen = b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def await_text(self, wanted: str, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while wanted.encode() not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 4096)

    def close(self) -> int:
        code = self.process.wait(30)
        os.close(self.master)
        return code


def test_shell_has_a_real_terminal_that_follows_the_window(pod: Pod) -> None:
    terminal = Terminal(pod.client, 33, 101)
    terminal.type("stty size; tty; echo $TERM-$0\n")
    terminal.await_text("33 101")
    terminal.await_text("/dev/pts/")
    terminal.resize(40, 120)
    terminal.type('until [ "$(stty size)" = "40 120" ]; do sleep 0.05; done; echo re"sized"\n')
    terminal.await_text("resized")
    terminal.type("exit 5\n")
    assert terminal.close() == 5


def test_interrupt_key_stops_what_runs_in_the_shell_and_not_the_shell(pod: Pod) -> None:
    terminal = Terminal(pod.client, 24, 80)
    terminal.type("echo be'gin'; sleep 600; echo af'ter'\n")
    terminal.await_text("begin")
    # Before that the key would be the shell's own, which does not care.
    until(lambda: bool(processes_of("sleep 600")))
    terminal.type("\x03")
    terminal.type("echo still'here'\n")
    terminal.await_text("stillhere")
    terminal.type("exit\n")
    terminal.close()
    assert not processes_of("sleep 600")


def test_terminal_that_is_closed_hangs_up(pod: Pod) -> None:
    terminal = Terminal(pod.client, 24, 80)
    terminal.type("echo be'gin'; sleep 601\n")
    terminal.await_text("begin")
    terminal.process.kill()
    terminal.close()
    until(lambda: not processes_of("sleep 601"))


def test_program_left_in_the_background_does_not_hold_the_terminal(pod: Pod) -> None:
    done = pod.client.run("sleep 5 & echo done", "-tt")
    assert done.stdout.strip() == b"done"


def test_scp_carries_big_files_both_ways(pod: Pod, tmp_path: Path) -> None:
    source = tmp_path / "big"
    source.write_bytes(os.urandom(1024 * 1024) * (BIG // (1024 * 1024)))
    up = pod.client.scp(str(source), "root@127.0.0.1:/workspace/big")
    assert up.returncode == 0, up.stderr
    assert (pod.agent.root / "workspace/big").stat().st_size == BIG
    down = pod.client.scp("root@127.0.0.1:/workspace/big", str(tmp_path / "back"))
    assert down.returncode == 0, down.stderr
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    (pod.agent.root / "workspace/big").unlink()


def test_scp_of_the_old_kind_works_too(pod: Pod, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("hello")
    done = pod.client.scp(str(tmp_path / "note"), "root@127.0.0.1:/workspace/note", "-O")
    assert done.returncode == 0, done.stderr
    assert (pod.agent.root / "workspace/note").read_text() == "hello"


def test_scp_of_a_file_that_is_not_there_fails(pod: Pod, tmp_path: Path) -> None:
    done = pod.client.scp("root@127.0.0.1:/workspace/nothing", str(tmp_path))
    assert done.returncode == 1
    assert b"No such file" in done.stderr


def test_sftp_lists_makes_renames_and_removes(pod: Pod, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    batch = f"put {tmp_path}/one /workspace/one\nmkdir /workspace/d\nrename /workspace/one /workspace/d/two\nls -l /workspace/d\nchmod 600 /workspace/d/two\n"
    done = pod.client.sftp(batch)
    assert done.returncode == 0, done.stderr
    moved = pod.agent.root / "workspace/d/two"
    assert (moved.read_text(), moved.stat().st_mode & 0o777) == ("1", 0o600)
    assert pod.client.sftp("rm /workspace/d/two\nrmdir /workspace/d\n").returncode == 0
    assert not moved.parent.exists()


def test_rsync_copies_a_tree_there_and_back(pod: Pod, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep/er").mkdir(parents=True)
    (tree / "deep/er/file").write_bytes(os.urandom(3_000_000))
    (tree / "link").symlink_to("deep/er/file")
    target = f"root@127.0.0.1:{pod.agent.root}/workspace/"
    there = pod.client.rsync("-a", str(tree), target)
    assert there.returncode == 0, there.stderr
    back = pod.client.rsync("-a", f"{target}tree/", str(tmp_path / "back"))
    assert back.returncode == 0, back.stderr
    assert subprocess.run(["diff", "-r", tree, tmp_path / "back"], check=False).returncode == 0
    assert (tmp_path / "back/link").readlink() == Path("deep/er/file")


@contextmanager
def echo_server() -> Iterator[int]:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(connection.recv(100).upper())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.close()


def says(port: int, word: bytes) -> bytes:
    def connect() -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=20)
        except ConnectionRefusedError:
            return None

    with until(connect) as connection:
        connection.sendall(word)
        answer: bytes = connection.recv(100)
        return answer


@pytest.mark.parametrize("way", ["-L", "-R"])
def test_ports_are_forwarded_from_here_and_from_there(pod: Pod, way: str) -> None:
    with echo_server() as inside:
        outside = free_port()
        session = pod.client.open(way, f"127.0.0.1:{outside}:127.0.0.1:{inside}", "cat")
        try:
            assert says(outside, b"hello") == b"HELLO"
        finally:
            session.communicate(timeout=30)


def test_port_of_the_pod_is_not_opened_to_the_world(pod: Pod) -> None:
    done = pod.client.run("true", "-o", "ExitOnForwardFailure=yes", "-R", "0.0.0.0:0:127.0.0.1:9")
    assert done.returncode == 255


def test_clients_own_agent_is_not_taken_along(pod: Pod, tmp_path: Path) -> None:
    started = subprocess.run(
        ["ssh-agent", "-a", str(tmp_path / "agent")], capture_output=True, check=True, text=True
    )
    pid = int(started.stdout.partition("SSH_AGENT_PID=")[2].partition(";")[0])
    argv = pod.client.argv("-A", "root@127.0.0.1", "echo [$SSH_AUTH_SOCK]")
    environment = {**os.environ, "SSH_AUTH_SOCK": str(tmp_path / "agent")}
    try:
        done = subprocess.run(argv, env=environment, capture_output=True, check=False, timeout=60)
    finally:
        os.kill(pid, 15)
    assert done.stdout == b"[]\n"


def test_unknown_key_is_refused_and_counted(pod: Pod, tmp_path: Path) -> None:
    before = pod.agent.log().count("ssh_login_refused")
    stranger = SshClient(pod.client.port, make_key(tmp_path), pod.client.known_hosts)
    done = stranger.run("true")
    assert done.returncode == 255
    assert b"Permission denied (publickey)" in done.stderr
    until(lambda: pod.agent.log().count("ssh_login_refused") == before + 1)


@pytest.mark.parametrize("user", ["admin", "nobody", "postgres"])
def test_nobody_else_than_root_can_log_in(pod: Pod, user: str) -> None:
    other = SshClient(pod.client.port, pod.client.key, pod.client.known_hosts, user)
    assert not other.can_log_in()
