"""Finds the mount points of this machine: what is mounted belongs to it, not to the pod."""

import os
import re
import stat
from pathlib import Path

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.scanning import FileStatus

_OCTAL = re.compile(rb"\\([0-7]{3})")


def unescaped(path: bytes) -> bytes:
    """A path as it is, without the kernel's octal escapes."""
    return _OCTAL.sub(lambda m: bytes([int(m.group(1), 8)]), path)


def parse_mountinfo(text: bytes) -> set[bytes]:
    """Mount points of a /proc/self/mountinfo, with the kernel's octal escapes undone."""
    points = set()
    for line in text.splitlines():
        fields = line.split(b" ")
        if len(fields) > 4:
            points.add(unescaped(fields[4]))
    return points


def mount_points_below(root: bytes, mountinfo: Path = Path("/proc/self/mountinfo")) -> set[bytes]:
    """Mount points strictly below `root`, as paths that start at `root` with a slash.

    Without /proc (a chroot box) the answer is empty, and the walk asks statx for each name.
    """
    # The kernel lists real paths; a provider may have made /workspace a link to its disk.
    prefix = os.path.realpath(root).rstrip(b"/") + b"/"
    try:
        text = mountinfo.read_bytes()
    except OSError:
        return set()
    found = (p for p in parse_mountinfo(text) if p.startswith(prefix) and len(p) > len(prefix))
    return {b"/" + p[len(prefix) :] for p in found}


def can_read_mountinfo(mountinfo: Path = Path("/proc/self/mountinfo")) -> bool:
    try:
        with mountinfo.open("rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def is_unlisted_mount(place: tuple[int, bytes, int], status: FileStatus, *, ask: bool) -> bool:
    """A mount that /proc did not tell about: another device, or (with `ask`) statx says so.

    `place` is the fd of the directory, the name in it, and the device of the directory. Only
    directories are compared by device: on overlayfs the files of a lower layer have a device
    number of their own. A btrfs subvolume has one too, but is no mount.
    """
    fd, name, device = place
    if stat.S_ISDIR(status.st_mode) and status.st_dev != device:
        return posix.is_mount_root(fd, name) is not False
    return ask and posix.is_mount_root(fd, name) is True


def swap_files(swaps: Path = Path("/proc/swaps")) -> set[bytes]:
    """Files in use as swap: busy, huge and meaningless elsewhere."""
    try:
        lines = swaps.read_bytes().splitlines()[1:]
    except OSError:
        return set()
    names = (line.split(b" ", 1)[0].split(b"\t", 1)[0] for line in lines if line)
    return {unescaped(name) for name in names}
