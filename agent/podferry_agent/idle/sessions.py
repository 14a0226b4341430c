"""Logins through an SSH server of the image, and terminals in use, as /proc shows them."""

import re
import stat
import time
from collections.abc import Sequence

from podferry_agent.processes import PROC, Process

_OPENSSH = frozenset({"sshd", "sshd-session"})
# `sshd: root@pts/0`: somebody has logged in. Before that it is `root [priv]` or `[accepted]`, and
# on a public address such knocks never end.
_LOGGED_IN = re.compile(rb"sshd(-session)?: \S+@")
_DROPBEAR = "dropbear"


def count_ssh_sessions(processes: Sequence[Process]) -> int:
    """Logins through an SSH server of the image."""
    openssh = [p for p in processes if p.name in _OPENSSH]
    return sum(_is_login(p.pid) for p in openssh) + _dropbear_sessions(processes)


def count_used_terminals(processes: Sequence[Process], within_seconds: float) -> int:
    """Terminals that got input lately; one that stands open unused, as in tmux, does not count."""
    used = {p.terminal for p in processes if _is_typed_at(p, within_seconds)}
    return len(used)


def _is_login(pid: int) -> bool:
    try:
        return _LOGGED_IN.match((PROC / str(pid) / "cmdline").read_bytes()) is not None
    except OSError:
        # It has ended meanwhile.
        return False


def _dropbear_sessions(processes: Sequence[Process]) -> int:
    """A connection is a child of the server; once its user is in, it has a child itself."""
    servers = {p.pid for p in processes if p.name == _DROPBEAR}
    parents = {p.parent for p in processes}
    connections = [p for p in processes if p.name == _DROPBEAR and p.parent in servers]
    return sum(p.pid in parents for p in connections)


def _is_typed_at(process: Process, within_seconds: float) -> bool:
    """The kernel notes when a terminal was last read from, to within eight seconds."""
    if not process.has_terminal:
        return False
    for number in (0, 1, 2):
        try:
            # By way of the process: its terminal may lie on a mount that is not in our tree.
            found = (PROC / str(process.pid) / "fd" / str(number)).stat()
        except OSError:
            continue
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == process.terminal:
            return time.time() - found.st_atime <= within_seconds
    return False
