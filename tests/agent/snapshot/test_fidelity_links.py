"""Which names are one inode: kept across directories, for every kind of name, and told apart."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench

Maker = Callable[[Path], object]


def _regular(path: Path) -> None:
    path.write_bytes(b"linked")


def _device(path: Path) -> None:
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))


MAKERS: dict[str, Maker] = {
    "file": _regular,
    "empty file": Path.touch,
    "symlink": lambda path: path.symlink_to("somewhere"),
    "fifo": os.mkfifo,
    "socket": lambda path: os.mknod(path, 0o600 | stat.S_IFSOCK),
    **({"device": _device} if trees.IS_ROOT else {}),
}
kinds = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def three_names(tree: Path, make: Maker) -> None:
    for name in ("a", "b/deep", "c"):
        (tree / name).mkdir(parents=True)
    make(tree / "b/deep/first")
    os.link(tree / "b/deep/first", tree / "a/second", follow_symlinks=False)
    os.link(tree / "b/deep/first", tree / "c/third", follow_symlinks=False)
    make(tree / "c/alone")
    for name in ("b/deep/first", "c/alone"):
        os.utime(tree / name, ns=(7, 7), follow_symlinks=False)


def separate(tree: Path, make: Maker) -> None:
    """The same names, with nothing linked."""
    for name in ("a/second", "b/deep/first", "c/third", "c/alone"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        make(tree / name)
        os.utime(tree / name, ns=(7, 7), follow_symlinks=False)


def all_one(tree: Path, make: Maker) -> None:
    """The same names, all of one inode."""
    for name in ("a/second", "b/deep/first", "c/third", "c/alone"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        if name == "a/second":
            make(tree / name)
        else:
            os.link(tree / "a/second", tree / name, follow_symlinks=False)
    os.utime(tree / "a/second", ns=(7, 7), follow_symlinks=False)


@kinds
def test_case_s11_names_of_one_inode_in_several_directories_are_one_inode_again(
    bench: Bench, make: Maker
) -> None:
    three_names(bench.make("pod"), make)
    bench.capture("pod", "snap_1")
    bench.make("new")
    outcome = bench.restore("new", "snap_1")
    assert bench.differences("pod", "new") == []
    assert outcome.warnings == []


@kinds
@pytest.mark.parametrize("before", [three_names, separate, all_one])
@pytest.mark.parametrize("after", [three_names, separate, all_one])
def test_case_s11_names_are_linked_and_parted_over_a_tree_that_links_others(
    bench: Bench,
    make: Maker,
    before: Callable[[Path, Maker], None],
    after: Callable[[Path, Maker], None],
) -> None:
    after(bench.make("pod"), make)
    bench.capture("pod", "snap_1")
    before(bench.make("live"), make)
    outcome = bench.restore("live", "snap_1")
    assert bench.differences("pod", "live") == []
    assert outcome.warnings == []
    assert bench.verify("live", "snap_1") == []


@pytest.mark.usefixtures("trusting")
def test_links_follow_every_change_between_captures(bench: Bench) -> None:
    tree = bench.make("pod")
    three_names(tree, _regular)
    changes: list[Callable[[], object]] = [
        (tree / "b/deep/first").unlink,
        lambda: os.link(tree / "a/second", tree / "a/0-before-all"),
        lambda: (tree / "c").rename(tree / "0"),
        lambda: (tree / "a/second").rename(tree / "0/second"),
        lambda: (tree / "0/third").write_bytes(b"through another name"),
        lambda: (tree / "0/second").replace(tree / "0/alone"),
    ]
    bench.capture("pod", "snap_0")
    for number, change in enumerate(changes, start=1):
        change()
        bench.capture("pod", f"snap_{number}", parent=f"snap_{number - 1}")
        bench.make("new")
        bench.restore("new", f"snap_{number}")
        assert bench.differences("pod", "new") == []


def test_a_name_linked_to_one_that_is_left_out_is_parted_before_its_metadata_changes(
    bench: Bench,
) -> None:
    pod = bench.make("pod")
    (pod / "file").write_bytes(b"same")
    (pod / "file").chmod(0o600)
    bench.capture("pod", "snap_1", user_rules=("exclude kept-out",))
    live = bench.make("live")
    (live / "file").write_bytes(b"same")
    (live / "file").chmod(0o644)
    os.link(live / "file", live / "kept-out")
    bench.restore("live", "snap_1")
    assert stat.S_IMODE((live / "file").stat().st_mode) == 0o600
    assert stat.S_IMODE((live / "kept-out").stat().st_mode) == 0o644
