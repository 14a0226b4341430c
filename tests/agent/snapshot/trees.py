# Names here are bytes, which pathlib does not take.
# ruff: noqa: PTH101, PTH102, PTH108, PTH109, PTH123, PTH208, PTH211
"""Trees to capture, and an independent way to say if two trees are the same.

`snapshot_of_disk` reads a tree with plain system calls and shares no code with the engine.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import os
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path

IS_ROOT = os.geteuid() == 0
KEY = bytes(range(32))
Disk = dict[bytes, tuple[object, ...]]
Inodes = dict[tuple[int, int], list[bytes]]
_libc = ctypes.CDLL(None, use_errno=True)


def acl(*, default_user: int = 4321, other: int = 4) -> bytes:
    """The binary form of a POSIX ACL with one named user."""
    entries = [(1, 6, 0xFFFFFFFF), (2, 6, default_user), (4, 4, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF)]
    rows = [*entries, (32, other, 0xFFFFFFFF)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


CAP_NET_RAW = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)


def set_inode_flags(path: bytes, flags: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.ioctl(fd, 0x40086602, struct.pack("=Ixxxx", flags | 0x80000))
    finally:
        os.close(fd)


def inode_flags(fd: int) -> int:
    buffer = bytearray(8)
    try:
        fcntl.ioctl(fd, 0x80086601, buffer)
    except OSError:
        return 0
    return int(struct.unpack("=I", buffer[:4])[0]) & 0x100F8


def supports_flags(directory: Path) -> bool:
    """Whether chattr works here: needs a privilege and a filesystem that has flags."""
    probe = os.fsencode(directory / "flag-probe")
    Path(os.fsdecode(probe)).touch()
    try:
        set_inode_flags(probe, 0x10)
        set_inode_flags(probe, 0)
    except OSError:
        return False
    finally:
        os.unlink(probe)
    return True


def make_torture(d: Path) -> None:
    """Every awkward kind of name; what needs a privilege is left out without it."""
    d.mkdir(parents=True)
    b = os.fsencode(d) + b"/"

    def put(name: bytes, data: bytes = b"x", mode: int = 0o644) -> None:
        with open(b + name, "wb") as f:
            f.write(data)
        os.chmod(b + name, mode)

    put(b"plain")
    put(b"empty", b"")
    put(b"setuid", b"x", 0o4755)
    put(b"setgid", b"x", 0o2755)
    os.mkdir(b + b"sticky")
    os.chmod(b + b"sticky", 0o1777)
    for name in (
        b"bad\xff\xfeutf8",
        b"new\nline",
        b" lead trail ",
        b"back\\slash",
        b"quote'\"",
        b"-dash",
    ):
        put(name)
    put(b"n" * 255)
    put("nfc-\u00e9".encode())
    put("nfd-e\u0301".encode())
    os.mkdir(b + b"a")
    os.mkdir(b + b"b")
    os.mkdir(b + b"empty-directory")
    put(b"a/hl", b"linked")
    os.link(b + b"a/hl", b + b"b/hl")
    os.symlink(b"nowhere", b + b"dangling")
    os.symlink(b"loop2", b + b"loop1")
    os.symlink(b"loop1", b + b"loop2")
    os.symlink(b"..", b + b"a/up")
    os.symlink(b"t" * 4000, b + b"long-target")
    os.symlink(b"tgt\xff", b + b"ln\xff")
    os.link(b + b"dangling", b + b"dangling-hl", follow_symlinks=False)
    os.utime(b + b"dangling", ns=(1, 1234567890123456789), follow_symlinks=False)
    os.mkfifo(b + b"fifo", 0o640)
    os.link(b + b"fifo", b + b"fifo-hl")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
        here = os.getcwd()
        os.chdir(d)
        try:
            s.bind("sock")
        finally:
            os.chdir(here)
    with open(b + b"sparse", "wb") as f:
        f.truncate(1 << 30)
        f.seek(1 << 20)
        f.write(b"mid")
        f.seek((1 << 30) - 4096)
        f.write(b"z" * 4096)
    with open(b + b"sparse-tail", "wb") as f:
        f.write(b"x" * 4096)
        f.truncate(8 << 20)
    with open(b + b"all-hole", "wb") as f:
        f.truncate(3 << 20)
    with open(b + b"small-hole", "wb") as f:
        f.truncate(65536)
        f.seek(32768)
        f.write(b"y")
    put(b"zeros", bytes(1 << 20))
    put(b"five-mib", os.urandom(1 << 20) * 5)
    put(b"xattr")
    os.setxattr(b + b"xattr", b"user.k", b"v\0\xff")
    os.setxattr(b + b"xattr", b"user.empty", b"")
    with contextlib.suppress(OSError):  # more than this filesystem takes
        os.setxattr(b + b"xattr", b"user.big", b"B" * 3000)
    put(b"acl")
    with contextlib.suppress(OSError):
        os.setxattr(b + b"acl", b"system.posix_acl_access", acl())
        os.setxattr(b + b"a", b"system.posix_acl_default", acl())
    put(b"ns")
    os.utime(b + b"ns", ns=(1, 1700000000123456789))
    put(b"pre1970")
    os.utime(b + b"pre1970", ns=(-5, -86400 * 10**9 + 5))
    put(b"y2100")
    os.utime(b + b"y2100", ns=(0, 4102444800 * 10**9 + 1))
    _make_deep(b)
    if IS_ROOT:
        _make_privileged(b, put)
    os.mkdir(b + b"rodir")
    put(b"rodir/f")
    os.utime(b + b"rodir", ns=(5, 1234567890123456789))
    os.chmod(b + b"rodir", 0o555)


def _make_deep(b: bytes) -> None:
    """A path longer than PATH_MAX."""
    fd = os.open(b, os.O_RDONLY)
    for _ in range(40):
        name = b"d" * 120
        os.mkdir(name, dir_fd=fd)
        deeper = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(os.open(b"leaf", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.symlink(b"leaf", b"link", dir_fd=fd)
    os.mkfifo(b"fifo", dir_fd=fd)
    os.close(fd)


def _make_privileged(b: bytes, put: Callable[..., None]) -> None:
    put(b"mode0", b"x", 0)
    os.mknod(b + b"chr", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(b + b"blk", 0o640 | stat.S_IFBLK, os.makedev(7, 9))
    os.mknod(b + b"whiteout", stat.S_IFCHR, os.makedev(0, 0))
    with contextlib.suppress(OSError):
        os.setxattr(b + b"xattr", b"trusted.t", b"1")
    put(b"caps", b"x", 0o755)
    os.setxattr(b + b"caps", b"security.capability", CAP_NET_RAW)
    put(b"owner", b"x", 0o6755)
    os.chown(b + b"owner", 987654, 876543)
    os.chmod(b + b"owner", 0o6755)
    os.chown(b + b"dangling", 12, 34, follow_symlinks=False)
    os.mkdir(b + b"owned-directory")
    os.chown(b + b"owned-directory", 55, 66)
    if supports_flags(Path(os.fsdecode(b))):
        put(b"immutable")
        set_inode_flags(b + b"immutable", 0x10)
        put(b"nodump")
        set_inode_flags(b + b"nodump", 0x40)
        os.mkdir(b + b"immutable-directory")
        put(b"immutable-directory/inside")
        set_inode_flags(b + b"immutable-directory", 0x10)


def _content(fd: int, size: int) -> str:
    """Hash of the data and of where it is; skips holes, so that huge sparse files are quick."""
    digest = hashlib.sha256(b"%d" % size)
    position = 0
    while position < size:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
        except OSError:
            break
        end = os.lseek(fd, start, os.SEEK_HOLE)
        digest.update(b"@%d+%d:" % (start, end))
        position = start
        while position < end:
            piece = os.pread(fd, min(1 << 20, end - position), position)
            digest.update(piece)
            position += len(piece)
    return digest.hexdigest()


def snapshot_of_disk(root: Path) -> Disk:
    """Everything about every name, read without the engine's code."""
    found: Disk = {}
    inodes: Inodes = {}
    fd = os.open(root, os.O_RDONLY)
    try:
        found[b""] = _facts(fd, b".", os.fstat(fd))
        _collect(fd, b"", found, inodes)
    finally:
        os.close(fd)
    for paths in inodes.values():
        names = tuple(sorted(paths))
        found.update({path: (*found[path], names) for path in paths})
    return found


def _collect(fd: int, prefix: bytes, found: Disk, inodes: Inodes) -> None:
    for name in map(os.fsencode, os.listdir(fd)):
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        path = prefix + name
        found[path] = _facts(fd, name, status)
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            inodes.setdefault((status.st_dev, status.st_ino), []).append(path)
        if stat.S_ISDIR(status.st_mode):
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            try:
                _collect(inner, path + b"/", found, inodes)
            finally:
                os.close(inner)


def _facts(fd: int, name: bytes, status: os.stat_result) -> tuple[object, ...]:
    path = b"/proc/self/fd/%d/%s" % (fd, name)
    xattrs = {
        n: os.getxattr(path, n, follow_symlinks=False)
        for n in os.listxattr(path, follow_symlinks=False)
    }
    xattrs.pop("security.selinux", None)
    extra: object = None
    flags = 0
    if stat.S_ISLNK(status.st_mode):
        extra = os.readlink(name, dir_fd=fd)
    elif stat.S_ISREG(status.st_mode):
        inner = os.open(name, os.O_RDONLY, dir_fd=fd)
        extra = _content(inner, status.st_size)
        flags = inode_flags(inner)
        os.close(inner)
    elif stat.S_ISDIR(status.st_mode):
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        flags = inode_flags(inner)
        os.close(inner)
    elif stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
        extra = status.st_rdev
    return (
        oct(status.st_mode),
        status.st_uid,
        status.st_gid,
        status.st_mtime_ns,
        tuple(sorted(xattrs.items())),
        flags,
        extra,
    )


def differing(left: Disk, right: Disk) -> list[str]:
    """One line for each path that is not the same in both."""
    return [
        f"{path[-60:]!r}: {left.get(path)} != {right.get(path)}"
        for path in sorted(left.keys() | right.keys())
        if left.get(path) != right.get(path)
    ]


def remove(root: Path) -> None:
    """rm -rf that also copes with immutable files and endless paths."""
    if not root.exists():
        return
    fd = os.open(root.parent, os.O_RDONLY)
    try:
        _remove_at(fd, os.fsencode(root.name))
    finally:
        os.close(fd)


def _remove_at(fd: int, name: bytes) -> None:
    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        try:
            os.fchmod(inner, 0o700) if not inode_flags(inner) & 0x30 else None
            _clear(inner)
            os.fchmod(inner, 0o700)
            for child in map(os.fsencode, os.listdir(inner)):
                _remove_at(inner, child)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=fd)
        return
    if stat.S_ISREG(status.st_mode):
        with contextlib.suppress(OSError):
            inner = os.open(name, os.O_RDONLY, dir_fd=fd)
            _clear(inner)
            os.close(inner)
    os.unlink(name, dir_fd=fd)


def _clear(fd: int) -> None:
    if inode_flags(fd) & 0x30:
        fcntl.ioctl(fd, 0x40086602, struct.pack("=Ixxxx", 0x80000))
