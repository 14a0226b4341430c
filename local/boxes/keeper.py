"""The process that keeps one box alive, and ends it when its owner is gone.

The owner holds the other end of this process's standard input: `t` asks the box to terminate, any
other byte or the end of the file kills it. So a box cannot outlive its owner, even if that one is
killed with SIGKILL. If this process is killed itself, the kernel kills the box's first process,
and with it the whole box.
Events go to standard output, one JSON object per line: `started`, `failed`, `exited`.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from local.boxes import syscalls
from local.boxes.root_filesystem import enter_root
from local.boxes.spec import BoxSpec
from local.boxes.user_namespace import UserNamespaceError, enter_user_namespace

_LOCK_WAIT_SECONDS = 3.0
_BOX_NAMESPACES = (
    syscalls.NEW_NAMESPACE_MOUNT
    | syscalls.NEW_NAMESPACE_UTS
    | syscalls.NEW_NAMESPACE_IPC
    | syscalls.NEW_NAMESPACE_CGROUP
)
_TERMINATE = b"t"


def main(arguments: list[str]) -> int:
    spec = BoxSpec.load(Path(arguments[0]))
    try:
        lock = lock_directory(spec.directory)
        process = _start(spec)
    except (OSError, UserNamespaceError) as error:
        _report({"event": "failed", "reason": str(error)})
        return 1
    _report({"event": "started", "pid": process})
    status = _watch(spec, process)
    os.close(lock)
    _report({"event": "exited", "status": status})
    return 0


def lock_directory(directory: Path, wait_seconds: float = _LOCK_WAIT_SECONDS) -> int:
    """Wait until the box of a killed owner, which is just being ended, has left this disk."""
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError(f"{directory}: another box runs on this disk; end it first") from None
            time.sleep(0.01)
        else:
            return lock


def _start(spec: BoxSpec) -> int:
    """Start the first process of the box and return once it runs the box's command."""
    if spec.isolation.has_namespaces:
        enter_user_namespace(spec.isolation)
        syscalls.unshare(syscalls.NEW_NAMESPACE_PID)
    else:
        syscalls.adopt_orphans()
    failure_read, failure_write = os.pipe()
    life_read, life_write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(life_write)
        _become_box(spec, life_read, failure_write)
    os.close(failure_write)
    os.write(life_write, b"g")
    failure = b""
    while part := os.read(failure_read, 4096):
        failure += part
    if failure:
        os.waitpid(process, 0)
        raise OSError(failure.decode())
    return process


def _become_box(spec: BoxSpec, life: int, failure: int) -> NoReturn:
    try:
        syscalls.die_with_parent(signal.SIGKILL)
        # Without this a keeper that dies before the line above would leave a box behind.
        if os.read(life, 1) != b"g":
            os._exit(1)
        os.setsid()
        os.umask(0o022)
        log = os.open(spec.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if spec.isolation.has_namespaces:
            syscalls.unshare(_BOX_NAMESPACES)
        enter_root(spec)
        _connect_standard_files(log)
        for number in (signal.SIGPIPE, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(spec.argv[0], spec.argv, dict(spec.environment))
    except Exception as error:  # noqa: BLE001 - the edge of a process: nobody else can report it
        os.write(failure, f"{spec.argv[0]}: {error}".encode()[:4096])
    os._exit(125)


def _connect_standard_files(log: int) -> None:
    try:
        null = os.open("/dev/null", os.O_RDONLY)
    except FileNotFoundError:
        null, other = os.pipe()
        os.close(other)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _watch(spec: BoxSpec, process: int) -> int:
    """Wait for the end of the box; return its wait status."""
    handle = os.pidfd_open(process)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(handle, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if handle in ready:
            break
        if os.read(0, 1) == _TERMINATE:
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        else:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            poll.unregister(0)
    _, status = os.waitpid(process, 0)
    if not spec.isolation.has_namespaces:
        _kill_descendants()
    return status


def _kill_descendants() -> None:
    """End what the box left running where no pid namespace does it."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while pids := children.read_text().split():
        for pid in pids:
            os.kill(int(pid), signal.SIGKILL)
            os.waitpid(int(pid), 0)


def _report(event: dict[str, object]) -> None:
    # An owner that is gone reads no more; the box is ended all the same.
    with suppress(BrokenPipeError):
        os.write(1, json.dumps(event).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
