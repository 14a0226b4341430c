"""Captures on a machine whose memory flips bits: what would be stored is proven before it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from podferry_agent.snapshot import CaptureFailedError
from podferry_agent.snapshot.chunks import ChunkTable, chunk_id
from podferry_agent.snapshot.directorystore import DirectoryStore
from podferry_agent.snapshot.packs import PackWriter
from podferry_agent.snapshot.proof import prover
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench

TEXT = b"what was read from the disk, and hashed\n" * 4096
NOISE = os.urandom(100_000)


@pytest.fixture
def table() -> ChunkTable:
    return ChunkTable()


@pytest.fixture
def writer(tmp_path: Path, table: ChunkTable) -> PackWriter:
    store = DirectoryStore(tmp_path, "snap_1")
    return PackWriter("snap_1", store, table, lambda *_: None, prove=prover(trees.KEY))


def add(writer: PackWriter, table: ChunkTable, hashed: bytes, packed: bytes) -> None:
    number, _ = table.reserve(chunk_id(hashed, trees.KEY), len(hashed))
    writer.add(packed, [(number, 0)])


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x04]) + data[at + 1 :]


@pytest.mark.parametrize("data", [TEXT, NOISE], ids=["compressed", "raw"])
def test_case_36_a_bit_that_flips_between_hash_and_compression_is_found(
    writer: PackWriter, table: ChunkTable, tmp_path: Path, data: bytes
) -> None:
    add(writer, table, data, flipped(data, 70_000))
    with pytest.raises(CaptureFailedError, match="memory of this machine"):
        writer.finish()
    writer.close()
    assert not list(tmp_path.rglob("packs/*"))


@pytest.mark.parametrize("data", [TEXT, NOISE], ids=["compressed", "raw"])
def test_case_36_a_bit_that_flips_in_the_pack_is_found(
    writer: PackWriter, table: ChunkTable, tmp_path: Path, data: bytes
) -> None:
    add(writer, table, data, data)
    middle = writer._open.size // 2
    writer._open.buffer[middle] ^= 0x40
    with pytest.raises(CaptureFailedError, match="nothing was published"):
        writer.finish()
    writer.close()
    assert not list(tmp_path.rglob("packs/*"))


def test_case_36_a_paranoid_capture_stores_what_an_ordinary_one_does(bench: Bench) -> None:
    tree = bench.make("pod")
    (tree / "text").write_bytes(TEXT)
    (tree / "noise").write_bytes(NOISE)
    (tree / "large").write_bytes(os.urandom(20 << 20))
    paranoid = bench.capture("pod", "snap_1", paranoid=True)
    ordinary = bench.capture("pod", "snap_2", parent="snap_1")
    assert ordinary.summary.new_bytes == 0 < paranoid.summary.new_bytes
    bench.make("new")
    bench.restore("new", "snap_1")
    assert bench.differences("pod", "new") == []


def test_case_36_the_command_line_has_the_option(bench: Bench) -> None:
    (bench.make("pod") / "text").write_bytes(TEXT)
    command = [sys.executable, "-m", "podferry_agent.snapshot", "capture", "--kind", "volume"]
    places = ["--root", str(bench.root("pod")), "--state", str(bench.base / "state-pod")]
    keyed = ["--key", trees.KEY.hex(), "--paranoid", str(bench.store_directory), "snap_1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [*command, *places, *keyed]
    subprocess.run(arguments, env=environment, check=True, capture_output=True, timeout=60)
    bench.make("new")
    bench.restore("new", "snap_1")
    assert bench.differences("pod", "new") == []
