"""Takes names away, whatever locks them; no symlink is followed, no path is too long."""

import errno
import os
import stat

from podferry_agent.snapshot import posix

GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
HELD = (errno.EBUSY, errno.EROFS, errno.EPERM, errno.EACCES, errno.ENOTEMPTY)


def unlock(parent: int, name: bytes | None = None) -> None:
    """Clear what keeps a name from being replaced: immutable flags, or our own missing rights.

    The final pass over the metadata puts right what the snapshot wants to be locked.
    """
    if name is not None:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=parent)
        except OSError:
            fd = -1  # a symlink, or gone: neither has flags
        if fd >= 0:
            try:
                _clear_flags(fd)
            finally:
                os.close(fd)
    _clear_flags(parent)
    if os.geteuid():
        mode = stat.S_IMODE(os.fstat(parent).st_mode)
        if mode & 0o700 != 0o700:
            os.fchmod(parent, mode | 0o700)


def _clear_flags(fd: int) -> None:
    try:
        flags = posix.get_flags(fd)
        if flags & posix.BLOCKING_FLAGS:
            posix.set_flags(fd, flags & ~posix.BLOCKING_FLAGS)
    except PermissionError:
        return  # no CAP_LINUX_IMMUTABLE: the caller's second try fails and is reported


def remove_name(parent: int, name: bytes) -> None:
    """Unlink or rmdir one name, after unlocking it if needed."""
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    action = os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink
    try:
        action(name, dir_fd=parent)
    except PermissionError:
        unlock(parent, name)
        action(name, dir_fd=parent)


def remove_tree(parent: int, name: bytes) -> None:
    """Remove a directory with everything in it, also deeper than PATH_MAX; no symlink followed."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        remove_name(parent, name)
        return
    trail = [(os.dup(parent), name)]
    while trail:
        directory, child = trail[-1]
        deeper = _empty_of_files(directory, child)
        if deeper is not None:
            trail.append(deeper)
            continue
        remove_name(directory, child)
        os.close(directory)
        trail.pop()


def _empty_of_files(parent: int, name: bytes) -> tuple[int, bytes] | None:
    """Unlink the files of a directory; (its fd, the name of a directory in it) if one is left."""
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    with os.scandir(fd) as found:
        entries = [(os.fsencode(e.name), e.is_dir(follow_symlinks=False)) for e in found]
    for child, is_directory in entries:
        if is_directory:
            return fd, child
        remove_name(fd, child)
    os.close(fd)
    return None
