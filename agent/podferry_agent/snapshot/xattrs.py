"""Extended attributes: which are kept, and how what a machine refuses is written down instead.

Where the machine cannot give a file its owner, device number or attribute (a user namespace with a
single uid, an ordinary user), the wanted value is kept in `user.podferry.*` attributes of the file.
A capture reads it back from there, so that nothing is lost on the way through such a machine.

Anybody can write such an attribute to a file of their own. So where users are kept apart a capture
believes it only of files that nobody but root can have written it to: otherwise a wish for another
owner would make a setuid program of root's out of any file of a user's.
"""

import errno
import functools
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from podferry_agent.snapshot.model import Entry

Xattrs = tuple[tuple[bytes, bytes], ...]

WANTED_OWNER = b"user.podferry.owner"
WANTED_NODE = b"user.podferry.node"
WANTED_XATTR = b"user.podferry.xattr."

# State of one filesystem, security module or overlay: wrong on any other machine.
_SKIPPED = (
    b"security.selinux",
    b"security.ima",
    b"security.evm",
    b"trusted.overlay.",
    b"user.overlay.",
    b"trusted.glusterfs.",
    b"trusted.gfid",
    b"trusted.lov",
    b"trusted.lma",
    b"trusted.link",
    b"lustre.",
    b"btrfs.",
    b"system.nfs4",
)
# ENAMETOOLONG: a symlink or node deeper than PATH_MAX on a machine without /proc is out of reach
# of these calls; such names can carry attributes of the security module only.
_NO_XATTRS = (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENAMETOOLONG)


def read_xattrs(target: int | bytes) -> Xattrs:
    """Kept attributes of an open file or of a path that is not followed, sorted by name."""
    follow = isinstance(target, int)
    try:
        names = os.listxattr(target, follow_symlinks=follow)
    except OSError as error:
        if error.errno in _NO_XATTRS:
            return ()
        raise
    if not names:
        return ()
    kept = sorted(name for name in map(os.fsencode, names) if not name.startswith(_SKIPPED))
    return tuple(_present(target, kept, follow=follow))


def _present(
    target: int | bytes, names: list[bytes], *, follow: bool
) -> Iterable[tuple[bytes, bytes]]:
    for name in names:
        try:
            yield name, os.getxattr(target, name, follow_symlinks=follow)
        except OSError as error:
            # ENODATA: removed since it was listed; ENOSYS/EOPNOTSUPP: listed but not readable.
            if error.errno not in (errno.ENODATA, *_NO_XATTRS):
                raise


def settle(entry: Entry, found: Xattrs) -> None:
    """Give the entry its attributes, with written-down wishes put back where they belong."""
    if not any(name.startswith(b"user.podferry.") for name, _ in found) or not _is_believed(entry):
        entry.xattrs = found
        return
    kept = []
    for name, value in found:
        if name.startswith(WANTED_XATTR):
            kept.append((name[len(WANTED_XATTR) :], value))
        elif not _settle_wish(entry, name, value):
            kept.append((name, value))
    entry.xattrs = tuple(sorted(kept))


def _is_believed(entry: Entry) -> bool:
    by_root_alone = entry.uid == 0 and not entry.mode & (stat.S_IWGRP | stat.S_IWOTH)
    return by_root_alone or not _users_are_apart()


@functools.cache
def _users_are_apart() -> bool:
    """Whether this machine has more users than the agent's: not in a namespace of one uid."""
    try:
        rows = Path("/proc/self/uid_map").read_text().split()
    except OSError:  # without /proc
        return os.geteuid() == 0
    return os.geteuid() == 0 and sum(int(length) for length in rows[2::3]) > 1


def _settle_wish(entry: Entry, name: bytes, value: bytes) -> bool:
    parts = value.split(b":")
    if not all(part.isdigit() for part in parts):
        return False
    numbers = [int(part) for part in parts]
    if name == WANTED_OWNER and len(numbers) == 2:
        entry.uid, entry.gid = numbers
        return True
    if name == WANTED_NODE and len(numbers) == 3 and entry.is_regular and not entry.size:
        entry.mode = numbers[0]
        entry.rdev = os.makedev(numbers[1], numbers[2])
        return True
    return False


def owner_wish(entry: Entry) -> bytes:
    return b"%d:%d" % (entry.uid, entry.gid)


def node_wish(entry: Entry) -> bytes:
    return b"%d:%d:%d" % (entry.mode, os.major(entry.rdev), os.minor(entry.rdev))


def is_device(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
