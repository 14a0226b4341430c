# Names here are bytes, which pathlib does not take.
# ruff: noqa: PTH102, PTH108, PTH123, PTH211
"""Names are bytes: any of them, in any number, at any depth."""

import os
import unicodedata
from pathlib import Path

import pytest

from podferry_agent.snapshot.manifest import load_root
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench, CountingStore

NAMES = [
    b"bad\xff\xfeutf8",
    b"\x80",
    b"\xed\xa0\x80",  # a surrogate, as UTF-8 does not allow it
    b"new\nline",
    b"\n",
    b"tab\tand\rreturn",
    b"\x01\x1b[31m\x7f",
    b"back\\slash",
    b"\\",
    b"\\x41",
    b"quote'\"`$(x)",
    b" lead",
    b"trail ",
    b"-",
    b"--",
    b"-rf",
    b"...",
    b"..a",
    b".hidden",
    b"*",
    b"?",
    b"[a]",
    b"{a,b}",
    b"a:b",
    b"~",
    b"#",
    b"%41",
    b"CON",
    b"case",
    b"Case",
    b"n" * 255,
    b"\xff" * 255,
    unicodedata.normalize("NFC", "é").encode(),
    unicodedata.normalize("NFD", "é").encode(),
    "\u202egnp.exe".encode(),
    "\U0001f600".encode(),
]


def make_all(tree: Path) -> None:
    """Each name as a file, a directory, a symlink and a symlink's target, with its own content."""
    top = os.fsencode(tree)
    for kind in (b"file", b"directory", b"symlink"):
        os.mkdir(top + b"/" + kind)
    for name in NAMES:
        with open(top + b"/file/" + name, "wb") as file:
            file.write(b"content of " + name)
        os.mkdir(top + b"/directory/" + name)
        with open(top + b"/directory/" + name + b"/" + name, "wb") as file:
            file.write(b"inside " + name)
        os.symlink(b"../file/" + name, top + b"/symlink/" + name)


def test_case_s11_every_odd_name_is_captured_changed_and_restored(bench: Bench) -> None:
    tree = bench.make("pod")
    make_all(tree)
    bench.capture("pod", "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    assert bench.differences("pod", "new") == []
    for name in NAMES[::2]:
        with open(os.fsencode(tree) + b"/file/" + name, "ab") as file:
            file.write(b"more")
        os.unlink(os.fsencode(tree) + b"/symlink/" + name)
    bench.capture("pod", "snap_2", parent="snap_1")
    bench.restore("new", "snap_2")
    assert bench.differences("pod", "new") == []
    bench.restore("new", "snap_1")
    assert bench.verify("new", "snap_1") == []


def test_an_odd_name_in_the_way_of_another_kind_is_replaced(bench: Bench) -> None:
    pod, live = (os.fsencode(bench.make(name)) for name in ("pod", "live"))
    for number, name in enumerate(NAMES):
        makers = [os.mkdir, os.mkfifo, lambda path: os.symlink(b"x", path)]
        makers[number % 3](pod + b"/" + name)
        makers[(number + 1) % 3](live + b"/" + name)
    bench.capture("pod", "snap_1")
    bench.restore("live", "snap_1")
    assert bench.differences("pod", "live") == []


@pytest.mark.usefixtures("trusting")
def test_a_directory_of_twenty_thousand_names_spans_pages_and_costs_its_changes(
    bench: Bench,
) -> None:
    tree = bench.make("pod")
    huge = tree / "huge"
    huge.mkdir()
    for number in range(20_000):
        (huge / f"{number:05}").symlink_to("x") if number % 2 else (huge / f"{number:05}").touch()
    bench.capture("pod", "snap_1")
    pages = load_root(CountingStore(bench.store_directory, "snap_1"), "snap_1").pages
    assert len(pages) >= 3
    assert max(page.entries for page in pages) <= 8192
    assert sum(page.entries for page in pages) == 20_002
    (huge / "10000").write_bytes(b"changed")
    (huge / "10001").unlink()
    bench.capture("pod", "snap_2", parent="snap_1")
    store = bench.last_store
    assert store is not None
    assert len(store.pages()) <= 2
    bench.make("new")
    bench.restore("new", "snap_2")
    assert bench.differences("pod", "new") == []


def test_a_path_over_path_max_is_changed_linked_and_taken_away(bench: Bench) -> None:
    """make_torture's directories of 120 bytes, 40 deep, are 4,840 bytes together."""
    bench.root("pod").mkdir()
    trees.make_torture(bench.tree("pod"))
    bench.capture("pod", "snap_1")
    fd = os.open(bench.tree("pod"), os.O_RDONLY)
    for _ in range(40):
        deeper = os.open(b"d" * 120, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.link(b"leaf", b"hard", src_dir_fd=fd, dst_dir_fd=fd)
    os.unlink(b"link", dir_fd=fd)
    os.mkdir(b"link", dir_fd=fd)
    os.unlink(b"fifo", dir_fd=fd)
    os.symlink(b"leaf", b"fifo", dir_fd=fd)
    leaf = os.open(b"leaf", os.O_WRONLY, dir_fd=fd)
    os.write(leaf, b"content at the end of a very long path")
    os.close(leaf)
    os.close(fd)
    bench.capture("pod", "snap_2", parent="snap_1")
    bench.make("new")
    for snapshot in ("snap_1", "snap_2", "snap_1", "snap_2"):
        outcome = bench.restore("new", snapshot)
        assert outcome.warnings == []
        assert bench.verify("new", snapshot) == []
    assert bench.differences("pod", "new") == []


def test_symlink_loops_and_links_out_of_the_tree_are_only_links(bench: Bench) -> None:
    tree = bench.make("pod")
    outside = bench.base / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"not in the tree")
    (tree / "sub").mkdir()
    for name, target in (
        ("self", "self"),
        ("one", "two"),
        ("two", "one"),
        ("sub/up", ".."),
        ("sub/root", "/"),
        ("out", str(outside)),
        ("out-file", str(outside / "file")),
        ("dot", "."),
        ("slash", "sub/"),
        ("long", "t" * 4095),
    ):
        (tree / name).symlink_to(target)
        os.utime(tree / name, ns=(1, 1234567890123456789), follow_symlinks=False)
        if trees.IS_ROOT:
            os.chown(tree / name, 12, 34, follow_symlinks=False)
    bench.capture("pod", "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    assert bench.differences("pod", "new") == []
    assert (outside / "file").read_bytes() == b"not in the tree"
    assert outside.stat().st_uid == os.geteuid()
