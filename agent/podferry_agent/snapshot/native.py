"""The compiled helper, `native.c`: many files in one call, with the interpreter's lock given back.

It saves time and decides nothing. Everything that it does a loop in Python does as well, byte for
byte; that loop also takes over whatever the helper does not know. The agent's bundle always has
it. A checkout has it once `python -m agent.bundle.native` has compiled it; without it the engine
says so once and takes the long way.
"""

import ctypes
import errno
import functools
import os
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

LIBRARY = Path(__file__).with_name("native-helper.so")
_VERSION = 1  # of the records that both sides mean
_ROOM = 64 << 10  # for names, to begin with
_NAMES_AT_ONCE = 32 << 10
_READ_AT_ONCE = 1024
_STATUS_SIZE, _ROW_SIZE = 64, 44
_FOUND = struct.Struct("<QQqqqIIIIQI")
_FILE = struct.Struct("<QQqI")
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

# inode, device, ctime, mtime, size, mode, uid, gid, nlink, rdev, inode flags
Found = tuple[int, int, int, int, int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to be made: where its content is in the data, and what it gets."""

    name: bytes
    offset: int
    length: int
    mtime_ns: int
    mode: int


class NotMadeError(OSError):
    """A file could not be made; `made` before it were."""

    def __init__(self, number: int, name: bytes, made: int) -> None:
        super().__init__(number, os.strerror(number), name)
        self.made = made


class _Listing(ctypes.Structure):
    _fields_ = (
        ("names", ctypes.c_void_p),
        ("names_room", ctypes.c_int64),
        ("names_used", ctypes.c_int64),
        ("rows", ctypes.c_void_p),
        ("statuses", ctypes.c_void_p),
        ("room", ctypes.c_int64),
        ("count", ctypes.c_int64),
    )


class _Room(threading.local):
    """Buffers of one thread."""

    def __init__(self) -> None:
        self.kernel = ctypes.create_string_buffer(_NAMES_AT_ONCE)
        self.found = ctypes.create_string_buffer(_READ_AT_ONCE * _FOUND.size)
        self.grow(_ROOM)

    def grow(self, size: int) -> None:
        count = size // 16
        self.names = ctypes.create_string_buffer(size)
        self.rows = ctypes.create_string_buffer(count * _ROW_SIZE)
        self.statuses = ctypes.create_string_buffer(count * _STATUS_SIZE)
        self.listing = _Listing(
            ctypes.addressof(self.names),
            size,
            0,
            ctypes.addressof(self.rows),
            ctypes.addressof(self.statuses),
            count,
            0,
        )


class Helper:
    """The functions of one compiled helper."""

    def __init__(self, library: ctypes.CDLL) -> None:
        if library.pf_version() != _VERSION or sys.byteorder != "little":
            raise OSError(errno.ENOEXEC, "it is of another version")
        self._room = _Room()
        self._scan = library.pf_scan
        self._scan.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        self._read = library.pf_read_plain
        self._read.restype = ctypes.c_int64
        self._read.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_int64,
            ctypes.c_char_p,
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_void_p,
        )
        self._write = library.pf_write_plain
        self._write.restype = ctypes.c_int64
        self._write.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_int64,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
        )

    def try_out(self) -> None:
        """Raises OSError where the kernel, or a filter of system calls, has no statx."""
        fd = os.open(LIBRARY.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if self.scan(fd) is None:
                raise OSError(errno.ENOSYS, "the machine lacks statx")
        finally:
            os.close(fd)

    def scan(self, fd: int) -> tuple[bytes, bytes, bytes] | None:
        """Of a directory: names joined by zero bytes, rows, statuses; None if one is unreadable.

        What `tree.scan` makes of `os.scandir` and `lstat`.
        """
        room = self._room
        while True:
            listing = room.listing
            kernel = ctypes.addressof(room.kernel)
            result = self._scan(fd, kernel, _NAMES_AT_ONCE, ctypes.addressof(listing))
            if result < 0:
                return None
            if result:
                break
            room.grow(2 * listing.names_room)
        count = listing.count
        return (
            ctypes.string_at(listing.names, max(0, listing.names_used - 1)),
            ctypes.string_at(listing.rows, count * _ROW_SIZE),
            ctypes.string_at(listing.statuses, count * _STATUS_SIZE),
        )

    def read_plain(
        self,
        directory: int,
        files: Sequence[tuple[bytes, bytes]],
        buffer: memoryview,
        *,
        exact_holes: bool = False,
    ) -> Iterator[Found]:
        """Read files (name, row before) one after the other into `buffer`, while they are plain.

        Plain is a regular file without attributes and holes that the row describes after the
        read as well. What `FileReader._small` does. With `exact_holes` the filesystem is asked
        for holes, otherwise the number of blocks has to be enough.
        """
        room, count = self._room, min(len(files), _READ_AT_ONCE)
        settings = struct.pack("=iii", _OPEN_FILE, os.O_NOATIME, exact_holes)
        done = self._read(
            directory,
            b"".join([name + b"\0" for name, _ in files[:count]]),
            b"".join([row for _, row in files[:count]]),
            count,
            settings,
            _address(buffer),
            len(buffer),
            ctypes.addressof(room.found),
        )
        return _FOUND.iter_unpack(ctypes.string_at(room.found, done * _FOUND.size))

    def write_plain(
        self, directory: int, files: Sequence[NewFile], flags: int, data: "memoryview | bytes"
    ) -> int:
        """Make new files; how many were made with everything, before one that got no time.

        What `FileWriter.write_whole` does with files that need no more than this.

        Raises: NotMadeError.
        """
        problem = ctypes.create_string_buffer(8)
        rows = [_FILE.pack(f.offset, f.length, f.mtime_ns, f.mode) for f in files]
        with _Borrowed(data) as address:
            made: int = self._write(
                directory,
                b"".join([file.name + b"\0" for file in files]),
                b"".join(rows),
                len(files),
                flags,
                address,
                ctypes.addressof(problem),
            )
        stage, number = struct.unpack("=ii", problem.raw)
        if stage in (1, 2):
            raise NotMadeError(number, files[made].name, made)
        return made


class _Buffer(ctypes.Structure):
    """`Py_buffer`, of which only the first fields matter here."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("owner", ctypes.c_void_p),
        ("length", ctypes.c_ssize_t),
        ("more", ctypes.c_char * 128),
    )


class _Borrowed:
    """The address of the bytes of an object that may be read-only, while it is held."""

    def __init__(self, data: "memoryview | bytes") -> None:
        self._data = data
        self._view = _Buffer()

    def __enter__(self) -> int:
        get = ctypes.pythonapi.PyObject_GetBuffer
        get(ctypes.py_object(self._data), ctypes.byref(self._view), 0)
        return self._view.address or 0

    def __exit__(self, *_: object) -> None:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self._view))


def _address(writable: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(writable))


@functools.cache
def helper() -> Helper | None:
    """The compiled helper, or None where there is none, which is said once."""
    try:
        made = Helper(ctypes.CDLL(str(LIBRARY)))
        made.try_out()
    except (OSError, AttributeError) as error:
        import logging  # noqa: PLC0415 (takes longer to load than all else here)

        logging.getLogger(__name__).warning(
            "the snapshot engine runs without its compiled helper, which takes longer: %s; "
            "in a checkout `python -m agent.bundle.native` makes it",
            error,
        )
        return None
    return made
