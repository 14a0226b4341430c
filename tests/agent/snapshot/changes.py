# Names here are bytes, which pathlib does not take.
# ruff: noqa: PTH101, PTH103, PTH104, PTH105, PTH108, PTH112, PTH114, PTH123, PTH211
"""Random changes of a tree, of every kind that this user may make: for tests with random trees."""

import contextlib
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hypothesis import strategies as st

from tests.agent.snapshot import trees

BLOCK = 4096
Call = Callable[..., object]
CALLS: dict[str, Call] = {}


@dataclass(frozen=True)
class Change:
    """One change; printed as it is when an example fails."""

    name: str
    arguments: tuple[object, ...]

    def apply(self, root: bytes) -> None:
        CALLS[self.name](root, *self.arguments)


def call(function: Call) -> Call:
    CALLS[function.__name__] = function
    return function


def new_file(path: bytes) -> BinaryIO:
    """Never an existing one: opening a FIFO would wait for its other end."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return open(path, "xb")


@call
def write(root: bytes, path: bytes, size: int, seed: int) -> None:
    with new_file(root + path) as file:
        file.write((b"%d" % seed * size)[:size])


@call
def overwrite(root: bytes, path: bytes, seed: int) -> None:
    """In place, through all names of the inode."""
    if stat.S_ISREG(os.lstat(root + path).st_mode):
        with open(root + path, "r+b") as file:
            file.write(b"%d" % seed)


@call
def append(root: bytes, path: bytes, size: int) -> None:
    if stat.S_ISREG(os.lstat(root + path).st_mode):
        with open(root + path, "ab") as file:
            file.write(b"+" * size)


@call
def change_slyly(root: bytes, path: bytes, seed: int) -> None:
    """Other content, the same size and mtime: only the ctime tells."""
    status = os.lstat(root + path)
    overwrite(root, path, seed)
    os.truncate(root + path, status.st_size)
    os.utime(root + path, ns=(status.st_atime_ns, status.st_mtime_ns))


@call
def blocks(root: bytes, path: bytes, pieces: str) -> None:
    """`x` data, `0` zeros that are written, `.` a hole."""
    with new_file(root + path) as file:
        file.truncate(len(pieces) * BLOCK)
        for number, piece in enumerate(pieces):
            if piece != ".":
                byte = b"\0" if piece == "0" else b"x"
                os.pwrite(file.fileno(), byte * BLOCK, number * BLOCK)


@call
def replace(root: bytes, path: bytes, seed: int) -> None:
    """As editors save: a new file renamed over the old one."""
    with new_file(root + b".saving") as file:
        file.write(b"saved %d" % seed)
    os.replace(root + b".saving", root + path)


@call
def remove(root: bytes, path: bytes) -> None:
    if os.path.islink(root + path) or not os.path.isdir(root + path):
        os.unlink(root + path)
    else:
        shutil.rmtree(root + path)


@call
def mkdir(root: bytes, path: bytes) -> None:
    os.makedirs(root + path)


@call
def symlink(root: bytes, target: bytes, path: bytes) -> None:
    os.symlink(target, root + path)


@call
def link(root: bytes, old: bytes, new: bytes) -> None:
    os.link(root + old, root + new, follow_symlinks=False)


@call
def rename(root: bytes, old: bytes, new: bytes) -> None:
    os.rename(root + old, root + new)


@call
def exchange(root: bytes, left: bytes, right: bytes) -> None:
    """Two names change places, whatever they are."""
    os.rename(root + left, root + b".between")
    try:
        os.rename(root + right, root + left)
    finally:
        os.rename(root + b".between", root + (right if os.path.lexists(root + left) else left))


@call
def node(root: bytes, path: bytes, mode: int, device: int) -> None:
    os.mknod(root + path, mode, device)


@call
def chmod(root: bytes, path: bytes, mode: int) -> None:
    if not os.path.islink(root + path):
        os.chmod(root + path, mode)


@call
def chown(root: bytes, path: bytes, owner: int) -> None:
    os.chown(root + path, owner, owner + 1, follow_symlinks=False)


@call
def touch(root: bytes, path: bytes, ns: int) -> None:
    os.utime(root + path, ns=(ns, ns), follow_symlinks=False)


@call
def set_attribute(root: bytes, path: bytes, name: bytes, value: bytes) -> None:
    os.setxattr(root + path, name, value, follow_symlinks=False)


@call
def remove_attribute(root: bytes, path: bytes, name: bytes) -> None:
    os.removexattr(root + path, name, follow_symlinks=False)


@call
def set_flags(root: bytes, path: bytes, flags: int) -> None:
    if stat.S_IFMT(os.lstat(root + path).st_mode) in (stat.S_IFREG, stat.S_IFDIR):
        trees.set_inode_flags(root + path, flags)


NAMES = st.sampled_from([b"a", b"b", b"lib", b"x\xff", b"new\nline", b"a b"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
SIZES = st.sampled_from([0, 1, 100, 4096, 70_000, 1_200_000])
SEEDS = st.integers(0, 9)
MAPS = st.one_of(
    st.text("x0.", min_size=1, max_size=6),
    st.text("x0.", min_size=1, max_size=3).map(lambda pieces: pieces * 120),
)
NODES = [(stat.S_IFIFO | 0o640, 0), (stat.S_IFSOCK | 0o600, 0)]
MODES = [0o700, 0o755, 0o4711, 0o1777]
ATTRIBUTES = [b"user.k", b"user.other"]
ACL_NAMES = [b"system.posix_acl_access", b"system.posix_acl_default"]
if trees.IS_ROOT:
    NODES += [(stat.S_IFCHR | 0o600, os.makedev(1, 3)), (stat.S_IFBLK | 0o660, os.makedev(7, 9))]
    NODES += [(stat.S_IFCHR, 0)]
    MODES += [0o0, 0o444, 0o555, 0o6755]
    ATTRIBUTES += [b"trusted.t", b"security.s"]


def _made(name: str, *arguments: st.SearchStrategy[object]) -> st.SearchStrategy[Change]:
    return st.tuples(*arguments).map(lambda values: Change(name, values))


_values = st.one_of(st.binary(max_size=9), st.just(b"long" * 200))
_acls = st.builds(lambda user: trees.acl(default_user=user), st.sampled_from([1, 4321]))
_times = st.one_of(st.integers(-(10**18), 4 * 10**18), st.sampled_from([0, -1, 7]))
ANY_CHANGE = st.one_of(
    _made("write", PATHS, SIZES, SEEDS),
    _made("write", PATHS, SIZES, SEEDS),
    _made("overwrite", PATHS, SEEDS),
    _made("append", PATHS, SIZES),
    _made("change_slyly", PATHS, SEEDS),
    _made("blocks", PATHS, MAPS),
    _made("replace", PATHS, SEEDS),
    _made("remove", PATHS),
    _made("mkdir", PATHS),
    _made("mkdir", PATHS),
    _made("symlink", PATHS, PATHS),
    _made("link", PATHS, PATHS),
    _made("link", PATHS, PATHS),
    _made("rename", PATHS, PATHS),
    _made("exchange", PATHS, PATHS),
    st.tuples(PATHS, st.sampled_from(NODES)).map(lambda v: Change("node", (v[0], *v[1]))),
    _made("chmod", PATHS, st.sampled_from(MODES)),
    _made("chown", PATHS, st.sampled_from([0, 12, 987_654])),
    _made("touch", PATHS, _times),
    _made("set_attribute", PATHS, st.sampled_from(ATTRIBUTES), _values),
    _made("set_attribute", PATHS, st.sampled_from(ACL_NAMES), _acls),
    _made("set_attribute", PATHS, st.just(b"security.capability"), st.just(trees.CAP_NET_RAW)),
    _made("remove_attribute", PATHS, st.sampled_from([*ATTRIBUTES, *ACL_NAMES])),
    _made("set_flags", PATHS, st.sampled_from([0, 0x10, 0x20, 0x40, 0x80])),
)
CHANGES = st.lists(ANY_CHANGE, max_size=25)


def apply(changes: list[Change], tree: Path) -> trees.Disk:
    """The tree after the changes, without those that make no sense for it."""
    for change in changes:
        with contextlib.suppress(OSError):
            change.apply(os.fsencode(tree) + b"/")
    return trees.snapshot_of_disk(tree)


def wait_for_a_new_ctime(directory: Path) -> None:
    """Until a change would get another ctime than one before: a tick of the kernel's clock."""
    probe = directory / "clock"
    probe.touch()
    first = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == first:
        probe.chmod(0o600)
