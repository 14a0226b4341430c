"""System calls of a reader: read what there is, and tell whether a file moved meanwhile."""

import errno
import os
import stat


def status_of(fd: int) -> os.stat_result:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENOENT, "became something else while it was being opened")
    return status


def is_same_state(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )


def read_small(fd: int, target: memoryview, size: int) -> int:
    """Bytes read: `size` with one call, and one more if the file has grown."""
    try:
        done = os.preadv(fd, [target[: size + 1]], 0)
    except OSError:
        status_of(fd)  # a FIFO by now cannot be read at an offset
        raise
    while done < size:
        got = os.preadv(fd, [target[done : size + 1]], done)
        if not got:
            break
        done += got
    return done


def read_at(fd: int, target: memoryview, offset: int, wanted: int) -> int:
    """Bytes read; fewer than wanted only at the end of the file."""
    done = 0
    while done < wanted:
        got = os.preadv(fd, [target[done:wanted]], offset + done)
        if not got:
            break
        done += got
    return done
