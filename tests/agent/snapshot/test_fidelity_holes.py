"""Holes stay holes and data stays data, to the block."""

import ctypes
import os
from pathlib import Path

import pytest

from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench

BLOCK = 4096
_KEEP_SIZE = 1
_libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def sparse_bench(bench: Bench) -> Bench:
    probe = bench.base / "probe"
    with probe.open("wb") as file:
        file.truncate(1 << 20)
    if probe.stat().st_blocks:
        pytest.skip("this filesystem has no holes")
    return bench


def write_map(path: Path, pieces: str) -> None:
    """A file of blocks: `x` data, `0` zeros that are written, `.` a hole."""
    with path.open("wb") as file:
        file.truncate(len(pieces) * BLOCK)
        for number, piece in enumerate(pieces):
            if piece != ".":
                os.pwrite(file.fileno(), (b"x" if piece == "x" else b"\0") * BLOCK, number * BLOCK)


def read_map(path: Path) -> str:
    """The same, of the file on the disk."""
    size = path.stat().st_size
    with path.open("rb") as file:
        pieces = []
        for offset in range(0, size, BLOCK):
            try:
                is_data = os.lseek(file.fileno(), offset, os.SEEK_DATA) == offset
            except OSError:
                is_data = False
            byte = os.pread(file.fileno(), 1, offset)
            pieces.append("." if not is_data else "x" if byte == b"x" else "0")
    return "".join(pieces)


MAPS = ["x.x", ".x", "x.", ".", "0.0", "..0..", "x0.0x", "." * 300 + "x", "x" * 300 + ".x.0"]


@pytest.mark.parametrize("pieces", MAPS)
def test_case_s11_the_map_of_holes_is_exact(sparse_bench: Bench, pieces: str) -> None:
    bench = sparse_bench
    write_map(bench.make("pod") / "file", pieces)
    bench.capture("pod", "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    assert read_map(bench.tree("new") / "file") == pieces
    assert bench.differences("pod", "new") == []


@pytest.mark.parametrize(("wanted", "found"), [("x0x", "x.x"), ("x.x", "x0x"), ("0..", "...")])
@pytest.mark.parametrize("times", [1, 300], ids=["small", "big"])
def test_holes_and_written_zeros_are_put_right_over_a_file_with_the_same_bytes(
    sparse_bench: Bench, wanted: str, found: str, times: int
) -> None:
    bench = sparse_bench
    write_map(bench.make("pod") / "file", wanted * times)
    write_map(bench.make("live") / "file", found * times)
    for name in ("pod", "live"):
        os.utime(bench.tree(name) / "file", ns=(1, 1))
    bench.capture("pod", "snap_1")
    bench.restore("live", "snap_1")
    assert read_map(bench.tree("live") / "file") == wanted * times
    again = bench.restore("live", "snap_1")
    assert again.written_bytes == 0


@pytest.mark.parametrize("pieces", ["x.x", "x" * 300 + "."], ids=["small", "big"])
def test_a_hole_is_seen_in_a_file_whose_attributes_take_a_block_of_their_own(
    sparse_bench: Bench, pieces: str
) -> None:
    """Then the file has as many blocks as one without holes."""
    bench = sparse_bench
    path = bench.make("pod") / "file"
    write_map(path, pieces)
    os.setxattr(path, "user.big", b"v" * 3000)
    bench.capture("pod", "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    assert read_map(bench.tree("new") / "file") == pieces
    assert bench.differences("pod", "new") == []


@pytest.mark.parametrize("size", [100_000, 5 << 20], ids=["small", "big"])
def test_space_that_is_reserved_and_not_written_costs_nothing_to_restore(
    bench: Bench, size: int
) -> None:
    path = bench.make("pod") / "file"
    path.write_bytes(b"start")
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        reserved = ctypes.c_int64(size)
        _libc.fallocate(file.fileno(), _KEEP_SIZE, ctypes.c_int64(0), reserved)
    bench.capture("pod", "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    found = bench.tree("new") / "file"
    assert found.read_bytes() == path.read_bytes()
    assert found.stat().st_blocks <= path.stat().st_blocks


def test_a_sparse_file_that_changes_keeps_its_map_over_three_captures(sparse_bench: Bench) -> None:
    bench = sparse_bench
    path = bench.make("pod") / "disk.img"
    parent = None
    for number, pieces in enumerate(("." * 600, "." * 300 + "x" + "." * 299, "x" * 20 + "." * 900)):
        write_map(path, pieces)
        bench.capture("pod", f"snap_{number}", parent=parent)
        parent = f"snap_{number}"
        bench.make("new")
        bench.restore("new", parent)
        assert read_map(bench.tree("new") / "disk.img") == pieces
    assert trees.snapshot_of_disk(bench.tree("new")) == trees.snapshot_of_disk(bench.tree("pod"))
