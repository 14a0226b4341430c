"""Makes FIFOs, sockets and devices, or a placeholder for a device that the machine refuses."""

import errno
import os
import stat

from podferry_agent.snapshot.metadata import MetadataWriter
from podferry_agent.snapshot.model import Entry
from podferry_agent.snapshot.remove import HELD
from podferry_agent.snapshot.xattrs import is_device


def make_node(metadata: MetadataWriter, entry: Entry, fd: int, name: bytes) -> bool:
    """True if the node was made, False if a complete placeholder file stands for it."""
    try:
        os.mknod(name, stat.S_IFMT(entry.mode) | 0o600, entry.rdev, dir_fd=fd)
    except OSError as error:
        if error.errno not in (*HELD, errno.EINVAL) or not is_device(entry.mode):
            raise
        metadata.warnings.add("device_not_made", entry.path, error)
    else:
        return True
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    placeholder = os.open(name, flags, 0o600, dir_fd=fd)
    try:
        metadata.apply_fd(placeholder, entry, placeholder=True)
    finally:
        os.close(placeholder)
    return False
