"""Enter a user namespace in which the caller is root, and map ids into it."""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from local.boxes import syscalls
from local.boxes.spec import Isolation

_SMALLEST_USEFUL_RANGE = 65536


class UserNamespaceError(Exception):
    """The kernel or the host's settings refuse this kind of user namespace."""


@dataclass(frozen=True, slots=True)
class IdRange:
    """Subordinate ids that the host's administrator gave to a user."""

    start: int
    count: int


def subordinate_range(kind: str, directory: Path = Path("/etc")) -> IdRange | None:
    """Look up the caller in /etc/subuid or /etc/subgid (`kind`), by name or by number."""
    names = {str(os.getuid())}
    try:
        names.add(pwd.getpwuid(os.getuid()).pw_name)
        lines = (directory / kind).read_text().splitlines()
    except KeyError:
        lines = _read_lines(directory / kind)
    except OSError:
        return None
    for line in lines:
        name, _, numbers = line.partition(":")
        start, _, count = numbers.partition(":")
        usable = start.isdigit() and count.isdigit() and int(count) >= _SMALLEST_USEFUL_RANGE
        if name in names and usable:
            return IdRange(int(start), int(count))
    return None


def _read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def enter_user_namespace(isolation: Isolation) -> None:
    """Move this (single-threaded) process into a new user namespace as its root.

    Raises:
        UserNamespaceError: with the reason, ready to be shown to the user.
    """
    process = os.getpid()
    ready_read, ready_write = os.pipe()
    answer_read, answer_write = os.pipe()
    # Maps are written from outside: inside, this process has no right over its old ids.
    helper = os.fork()
    if helper == 0:
        os.close(ready_write)
        os._exit(_map_from_outside(isolation, process, ready_read, answer_write))
    os.close(answer_write)
    try:
        syscalls.unshare(syscalls.NEW_NAMESPACE_USER)
        os.write(ready_write, b"r")
    except OSError as error:
        raise UserNamespaceError(f"user namespace refused: {error}") from error
    finally:
        os.close(ready_write)
        _, status = os.waitpid(helper, 0)
    reason = os.read(answer_read, 4096).decode()
    if status != 0:
        raise UserNamespaceError(reason or "the id maps could not be written")
    if Path("/proc/self/setgroups").read_text().strip() == "allow":
        os.setgroups([])


def _map_from_outside(isolation: Isolation, process: int, ready: int, answer: int) -> int:
    if os.read(ready, 1) != b"r":
        return 1
    try:
        _write_maps(isolation, process)
    except (OSError, UserNamespaceError) as error:
        os.write(answer, f"id maps refused: {error}".encode()[:4096])
        return 1
    return 0


def _write_maps(isolation: Isolation, process: int) -> None:
    directory = Path("/proc", str(process))
    if isolation is Isolation.ROOT:
        # Ownership on disk stays as it is in the box, but none of the host's rights go with it.
        for name in ("uid_map", "gid_map"):
            (directory / name).write_text(_identity_map(name))
    elif isolation is Isolation.RANGE:
        _write_range(process, "newuidmap", "subuid", os.getuid())
        _write_range(process, "newgidmap", "subgid", os.getgid())
    else:
        (directory / "setgroups").write_text("deny")
        (directory / "uid_map").write_text(f"0 {os.getuid()} 1")
        (directory / "gid_map").write_text(f"0 {os.getgid()} 1")


def _identity_map(name: str) -> str:
    """Map every id that exists here to itself; in a container that may be a few only."""
    lines = [line.split() for line in Path("/proc/self", name).read_text().splitlines()]
    return "\n".join(f"{first} {first} {count}" for first, _, count in lines)


def _write_range(process: int, tool: str, kind: str, own_id: int) -> None:
    ids = subordinate_range(kind)
    if ids is None:
        raise UserNamespaceError(f"/etc/{kind} has no range of 65536 ids for this user")
    numbers = (0, own_id, 1, 1, ids.start, ids.count)
    done = subprocess.run(
        [tool, str(process), *map(str, numbers)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise UserNamespaceError(done.stderr.strip() or f"{tool} ended with {done.returncode}")
