"""Every kind of name restored over every other kind, between captures and on a live tree."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench

Maker = Callable[[Path], object]


def _full_directory(path: Path) -> None:
    (path / "inner").mkdir(parents=True)
    (path / "inner/file").write_bytes(b"inside")
    (path / "link").symlink_to("inner/file")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 20)


def _linked(path: Path) -> None:
    os.link(path.parent / "anchor", path)


def _device(kind: int, major: int, minor: int) -> Maker:
    return lambda path: os.mknod(path, 0o600 | kind, os.makedev(major, minor))


MAKERS: dict[str, Maker] = {
    "nothing": lambda _: None,
    "file": lambda path: path.write_bytes(b"file"),
    "sparse": _sparse,
    "link": _linked,
    "empty": Path.mkdir,
    "full": _full_directory,
    "dangling": lambda path: path.symlink_to("nowhere"),
    "todir": lambda path: path.symlink_to("anchor-directory"),
    "fifo": os.mkfifo,
    "socket": lambda path: os.mknod(path, 0o600 | stat.S_IFSOCK),
}
if trees.IS_ROOT:
    MAKERS["char"] = _device(stat.S_IFCHR, 1, 3)
    MAKERS["block"] = _device(stat.S_IFBLK, 7, 9)
    MAKERS["whiteout"] = _device(stat.S_IFCHR, 0, 0)
PAIRS = [(before, after) for before in MAKERS for after in MAKERS]


def fill(tree: Path, side: int) -> None:
    """One name for each pair of kinds; `side` says whether it is what it was or what it becomes."""
    tree.mkdir(parents=True, exist_ok=True)
    (tree / "anchor").write_bytes(b"anchor")
    (tree / "anchor-directory").mkdir()
    (tree / "anchor-directory/kept").write_bytes(b"not to be touched through a link")
    for pair in PAIRS:
        MAKERS[pair[side]](tree / "-".join(pair))


def test_case_s11_every_kind_is_restored_over_every_other(bench: Bench) -> None:
    fill(bench.tree("pod"), 1)
    fill(bench.tree("live"), 0)
    bench.capture("pod", "snap_1")
    outcome = bench.restore("live", "snap_1")
    assert bench.differences("pod", "live") == []
    assert outcome.warnings == []
    assert bench.verify("live", "snap_1") == []


@pytest.mark.usefixtures("trusting")
def test_every_kind_that_became_another_is_so_in_the_next_capture(bench: Bench) -> None:
    tree = bench.tree("pod")
    fill(tree, 0)
    bench.capture("pod", "snap_1")
    fill(bench.tree("next"), 1)
    bench.capture("next", "snap_x")
    bench.restore("pod", "snap_x")
    bench.capture("pod", "snap_2", parent="snap_1")
    for snapshot, side in (("snap_1", 0), ("snap_2", 1)):
        fill(bench.tree(f"wanted{side}"), side)
        bench.make(f"new{side}")
        bench.restore(f"new{side}", snapshot)
        found = trees.snapshot_of_disk(bench.tree(f"new{side}"))
        wanted = trees.snapshot_of_disk(bench.tree(f"wanted{side}"))
        assert _without_times(found) == _without_times(wanted)


def _without_times(disk: trees.Disk) -> trees.Disk:
    return {path: (*facts[:3], *facts[4:]) for path, facts in disk.items()}
