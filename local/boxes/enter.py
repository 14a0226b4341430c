"""Run a command inside a running box: `python -m local.boxes.enter PID SPEC COMMAND...`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from local.boxes import syscalls
from local.boxes.spec import BoxSpec, Isolation

_ALL_NAMESPACES = (
    syscalls.NEW_NAMESPACE_USER
    | syscalls.NEW_NAMESPACE_MOUNT
    | syscalls.NEW_NAMESPACE_PID
    | syscalls.NEW_NAMESPACE_UTS
    | syscalls.NEW_NAMESPACE_IPC
    | syscalls.NEW_NAMESPACE_CGROUP
)


def main(arguments: list[str]) -> int:
    process, spec, command = int(arguments[0]), BoxSpec.load(Path(arguments[1])), arguments[2:]
    if spec.isolation.has_namespaces:
        _join(os.pidfd_open(process))
    else:
        os.chdir(spec.root)
        if spec.isolation is Isolation.CHROOT:
            os.chroot(".")
    # Only a child is inside the pid namespace that was joined.
    child = os.fork()
    if child == 0:
        os.setsid()
        syscalls.die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        try:
            os.execvpe(command[0], command, dict(spec.environment))
        except OSError as error:
            os.write(2, f"{command[0]}: {error}\n".encode())
        os._exit(127)
    # Collected here: an orphan would hold up the end of the whole box until the host's init comes.
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(child, signal.SIGKILL))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _join(process: int) -> None:
    syscalls.set_namespaces(process, _ALL_NAMESPACES)
    os.chdir("/")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
