"""Finds the mount points of this machine: what is mounted belongs to it, not to the pod."""

import os
import re
from pathlib import Path

_OCTAL = re.compile(rb"\\([0-7]{3})")


def parse_mountinfo(text: bytes) -> set[bytes]:
    """Mount points of a /proc/self/mountinfo, with the kernel's octal escapes undone."""
    points = set()
    for line in text.splitlines():
        fields = line.split(b" ")
        if len(fields) > 4:
            points.add(_OCTAL.sub(lambda m: bytes([int(m.group(1), 8)]), fields[4]))
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


def swap_files(swaps: Path = Path("/proc/swaps")) -> set[bytes]:
    """Files in use as swap: busy, huge and meaningless elsewhere."""
    try:
        lines = swaps.read_bytes().splitlines()[1:]
    except OSError:
        return set()
    names = (line.split(b" ", 1)[0].split(b"\t", 1)[0] for line in lines if line)
    return {_OCTAL.sub(lambda m: bytes([int(m.group(1), 8)]), name) for name in names}
