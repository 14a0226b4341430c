"""The format as docs/snapshot-format.md describes it, read by code written from that document."""

import hashlib
import json
import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import zstandard
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from podferry_agent.snapshot import SnapshotCorruptError, UnsupportedFormatError
from podferry_agent.snapshot.chunks import Block, ChunkTable, Pack
from podferry_agent.snapshot.codec import Codec, checksum
from podferry_agent.snapshot.model import Entry, display, sort_key
from podferry_agent.snapshot.packs import load_footer
from podferry_agent.snapshot.pages import PageCutter, PageReader, encode_page
from podferry_agent.snapshot.sections import unzip
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench

Sections = dict[str, bytes]


def sections_of(raw: bytes) -> Sections:
    found, position = {}, 0
    while position < len(raw):
        tag, length = struct.unpack_from("<4sQ", raw, position)
        found[tag.decode()] = raw[position + 12 : position + 12 + length]
        position += 12 + length
    return found


def column(code: str, raw: bytes) -> list[int]:
    return [row[0] for row in struct.iter_unpack("<" + code, raw)]


def strings(raw: bytes) -> list[bytes]:
    (count,) = struct.unpack_from("<I", raw)
    lengths, position, values = column("I", raw[4 : 4 + 4 * count]), 4 + 4 * count, []
    for length in lengths:
        values.append(raw[position : position + length])
        position += length
    return values


class Reader:
    """Reads a snapshot from a directory store without the engine."""

    def __init__(self, store: Path, snapshot_id: str) -> None:
        self.store = store
        self.root: dict[str, Any] = json.loads((store / snapshot_id / "root").read_bytes())
        self.files: dict[bytes, bytes] = {}
        for page in self.root["pages"]:
            self.read_page(self.object(page["snapshot_id"], page["name"], page["sha256"]))

    def object(self, snapshot_id: str, name: str, sha256: str) -> bytes:
        body = (self.store / snapshot_id / name).read_bytes()
        assert hashlib.sha256(body).hexdigest() == sha256
        return body

    def read_page(self, body: bytes) -> None:
        magic, version, raw_length = struct.unpack_from("<8sII", body)
        assert (magic, version) == (b"PFPAGE\r\n", 1)
        raw = zstandard.ZstdDecompressor().decompress(body[16:], max_output_size=raw_length)
        page = sections_of(raw)
        chunks = self.chunks(page)
        offsets, numbers = column("q", page["REFO"]), column("I", page["REFC"])
        path, first = b"", 0
        rows = zip(
            column("I", page["PLEN"]),
            strings(page["PSUF"]),
            column("I", page["MODE"]),
            column("q", page["SIZE"]),
            column("I", page["REFN"]),
            strict=True,
        )
        for shared, suffix, mode, size, count in rows:
            path = path[:shared] + suffix
            refs = list(zip(offsets, numbers, strict=True))[first : first + count]
            first += count
            if mode & 0o170000 == 0o100000 and size < 1 << 24:
                content = bytearray(size)
                for offset, number in refs:
                    content[offset : offset + len(chunks[number])] = chunks[number]
                self.files[path] = bytes(content)

    def chunks(self, page: Sections) -> list[bytes]:
        blocks = self.blocks(page)
        rows = zip(
            column("I", page["CLEN"]),
            column("I", page["CBLK"]),
            column("I", page["COFF"]),
            strict=True,
        )
        found = [blocks[block][offset : offset + length] for length, block, offset in rows]
        for number, data in enumerate(found):
            identity = page["CIDS"][32 * number : 32 * number + 32]
            assert blake3(data, key=trees.KEY).digest() == identity
        return found

    def blocks(self, page: Sections) -> list[bytes]:
        owners = [owner.decode() for owner in strings(page["PSID"])]
        hashes = [page["PSHA"][32 * n : 32 * n + 32].hex() for n in range(len(owners))]
        listed = {(p["snapshot_id"], p["sha256"], p["size"]) for p in self.root["packs"]}
        assert set(zip(owners, hashes, column("Q", page["PSIZ"]), strict=True)) <= listed
        packs = [
            self.object(owner, f"packs/{sha256}", sha256)
            for owner, sha256 in zip(owners, hashes, strict=True)
        ]
        codes = (
            ("BPAK", "I"),
            ("BOFF", "Q"),
            ("BSTO", "I"),
            ("BRAW", "I"),
            ("BCOD", "B"),
            ("BSUM", "I"),
        )
        found = []
        for pack, offset, stored, raw, codec, wanted in zip(
            *(column(code, page[tag]) for tag, code in codes), strict=True
        ):
            body = packs[pack][offset : offset + stored]
            assert blake3(body).digest()[:4] == struct.pack("<I", wanted)
            if codec == 1:
                body = zstandard.ZstdDecompressor().decompress(body, max_output_size=raw)
            elif codec in (2, 3):
                body = joined_planes(body, raw, 2 if codec == 2 else 4)
            assert len(body) == raw
            found.append(body)
        return found


def joined_planes(body: bytes, size: int, width: int) -> bytes:
    length, phase = struct.unpack_from("<IB", body)
    head, packed, rest = body[5 : 5 + phase], body[5 + phase :][:length], body[5 + phase + length :]
    count = (size - phase) // width
    top = zstandard.ZstdDecompressor().decompress(packed, max_output_size=count)
    planes = [*(rest[n * count : (n + 1) * count] for n in range(width - 1)), top]
    numbers = b"".join(bytes(number) for number in zip(*planes, strict=True))
    return head + numbers + rest[(width - 1) * count :]


def fill(tree: Path) -> dict[bytes, bytes]:
    contents = {
        b"a/text": b"hello " * 5000,
        b"a/noise": os.urandom(300_000),
        b"a/b/same": b"hello " * 5000,
        b"words": b"many words " * 200_000,
        b"big": os.urandom(9 << 20),
        b"halves": weights(600_001, 2) + b"!",
        b"shifted": b"!" + weights(600_001, 2),
        b"singles": b"!!!" + weights(300_001, 4) + b"!!",
        b"empty": b"",
        b"odd\xff\nname": b"x",
    }
    for path, body in contents.items():
        target = Path(os.fsdecode(os.fsencode(tree) + b"/" + path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)
    return contents


def weights(count: int, width: int) -> bytes:
    """Floating-point numbers as a model has them: like bf16 for two bytes, fp32 for four."""
    rng = random.Random(5)
    return b"".join(struct.pack("<f", rng.gauss(0, 0.02))[4 - width :] for _ in range(count))


def pages_of(bench: Bench, snapshot_id: str) -> list[Sections]:
    found = []
    for path in (bench.store_directory / snapshot_id / "pages").iterdir():
        raw = zstandard.ZstdDecompressor().decompress(
            path.read_bytes()[16:], max_output_size=1 << 24
        )
        found.append(sections_of(raw))
    return found


@given(st.binary(max_size=200), st.sampled_from([2, 4]), st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=50, deadline=None, database=None)
def test_planes_of_any_length_and_phase_come_back(
    odd: bytes, width: int, before: int, after: int
) -> None:
    data = bytes(before) + weights(40_000, width) + odd + bytes(after)
    codec, stored = Codec().encode(data)
    block = Block(Pack("snap_1"), 0, len(stored), len(data), codec, checksum(stored))
    assert codec == (2 if width == 2 else 3)
    assert Codec().decode(block, stored) == data
    assert len(stored) < len(data) * (0.75 if width == 2 else 0.88)


@pytest.mark.parametrize("width", [2, 4])
def test_damage_in_planes_that_has_the_right_checksum_is_still_an_error(width: int) -> None:
    codec, stored = Codec().encode(weights(40_000, width))
    for bad in (stored[:4] + b"\x09" + stored[5:], b"\xff" * 4 + stored[4:], stored[:100], b""):
        block = Block(Pack("snap_1"), 0, len(bad), 40_000 * width, codec, checksum(bad))
        with pytest.raises(SnapshotCorruptError):
            Codec().decode(block, bad)


def test_a_reader_written_from_the_document_gets_every_file(bench: Bench) -> None:
    tree = bench.make("pod")
    contents = fill(tree)
    bench.capture("pod", "snap_1")
    codecs = {codec for page in pages_of(bench, "snap_1") for codec in page["BCOD"]}
    assert codecs == {0, 1, 2, 3}
    (tree / "a/more").write_bytes(b"more")
    bench.capture("pod", "snap_2", parent="snap_1")
    assert Reader(bench.store_directory, "snap_1").files == contents
    assert Reader(bench.store_directory, "snap_2").files == {**contents, b"a/more": b"more"}


def test_the_footers_of_packs_rebuild_the_places_of_all_chunks(bench: Bench) -> None:
    fill(bench.make("pod"))
    bench.capture("pod", "snap_1")
    rebuilt = ChunkTable()
    for path in (bench.store_directory / "snap_1/packs").iterdir():
        body = path.read_bytes()
        load_footer(Pack("snap_1", path.name, len(body)), body[-100_000:], rebuilt)
    from_pages = ChunkTable()
    for path in (bench.store_directory / "snap_1/pages").iterdir():
        PageReader(from_pages).read(path.name, path.read_bytes())
    assert set(rebuilt.ids) == set(from_pages.ids)
    for identity, number in from_pages.numbers.items():
        other = rebuilt.numbers[identity]
        assert rebuilt.block_of(other) == from_pages.block_of(number)
        assert rebuilt.offsets[other] == from_pages.offsets[number]


def test_a_damaged_footer_is_refused(bench: Bench) -> None:
    fill(bench.make("pod"))
    bench.capture("pod", "snap_1")
    path = next((bench.store_directory / "snap_1/packs").iterdir())
    body = bytearray(path.read_bytes())
    body[-40] ^= 1
    with pytest.raises(SnapshotCorruptError, match="footer"):
        load_footer(Pack("snap_1", path.name, len(body)), bytes(body), ChunkTable())
    with pytest.raises(SnapshotCorruptError, match="does not end"):
        load_footer(Pack("snap_1", path.name, 30), b"x" * 30, ChunkTable())
    with pytest.raises(SnapshotCorruptError, match="shorter"):
        load_footer(Pack("snap_1", path.name, 3), b"abc", ChunkTable())


def test_packs_are_between_eight_and_seventeen_mebibytes(bench: Bench) -> None:
    tree = bench.make("pod")
    for number in range(9):
        (tree / f"file{number}").write_bytes(os.urandom(7 << 20))
    bench.capture("pod", "snap_1")
    sizes = sorted(p.stat().st_size for p in (bench.store_directory / "snap_1/packs").iterdir())
    assert sizes[1] >= 8 << 20
    assert sizes[-1] <= 17 << 20


def test_a_block_of_an_unknown_codec_asks_for_a_newer_agent() -> None:
    block = Block(Pack("snap_1", "ab" * 32, 10), 0, 3, 3, 99, checksum(b"abc"))
    with pytest.raises(UnsupportedFormatError, match="codec 99 is unknown"):
        Codec().decode(block, b"abc")


@pytest.mark.parametrize("path", [b"/etc/x", b"../x", b"a/../b", b"a//b", b"a/./b", b"a\0b", b".."])
def test_a_page_cannot_name_a_path_outside_the_tree(path: bytes) -> None:
    page = encode_page([Entry(path, 0o100644)], ChunkTable())
    with pytest.raises(SnapshotCorruptError, match="would leave the tree"):
        PageReader(ChunkTable()).read("pages/x", page)


NAMES = st.binary(min_size=1, max_size=20).filter(
    lambda n: not set(n) & {0, 0x2F} and n not in (b".", b"..")
)
ENTRIES = st.builds(
    Entry,
    path=st.lists(NAMES, min_size=1, max_size=4).map(b"/".join),
    mode=st.sampled_from([0o100644, 0o40755, 0o120777, 0o10600, 0o60600]),
    uid=st.integers(0, 2**32 - 1),
    gid=st.integers(0, 2**32 - 1),
    size=st.integers(0, 2**62),
    mtime_ns=st.integers(-(2**63), 2**63 - 1),
    flags=st.integers(0, 2**20),
    bits=st.integers(0, 15),
    rdev=st.integers(0, 2**63),
    target=st.binary(max_size=30),
    link=st.one_of(st.just(b""), st.binary(min_size=16, max_size=16)),
    xattrs=st.lists(st.tuples(NAMES, st.binary(max_size=50)), max_size=3).map(tuple),
)


@given(st.lists(ENTRIES, max_size=30))
@settings(max_examples=100, deadline=None, database=None)
def test_every_entry_comes_back_from_a_page_as_it_was(entries: list[Entry]) -> None:
    entries.sort(key=lambda e: sort_key(e.path))
    page = encode_page(entries, ChunkTable())
    assert PageReader(ChunkTable()).read("page", page) == entries
    assert encode_page(entries, ChunkTable()) == page


def paths_of_pages(names: list[bytes]) -> list[tuple[bytes, ...]]:
    cutter = PageCutter()
    pages = [*cutter.cut(Entry(name, 0) for name in names), *cutter.rest()]
    return [tuple(entry.path for entry in page) for page in pages]


def test_pages_are_cut_at_the_same_names_after_an_insertion() -> None:
    names = [b"d%02d/f%05d" % (n // 1000, n) for n in range(30_000)]
    before = paths_of_pages(names)
    names.insert(15_000, b"d14/inserted")
    after = paths_of_pages(names)
    assert 8 <= len(before) <= 60
    assert len(set(after) - set(before)) <= 2


def test_paths_in_reports_can_be_read_and_told_apart() -> None:
    shown = [
        display(p) for p in (b"a\xff", b"a\\xff", b"new\nline", "\u00e9".encode(), b"e\xcc\x81")
    ]
    assert shown == ["a\\xff", "a\\\\xff", "new\\nline", "\u00e9", "e\u0301"]


def test_a_frame_that_promises_more_than_is_recorded_takes_no_memory() -> None:
    packed = zstandard.ZstdCompressor().compress(bytes(1 << 20))
    reader = zstandard.ZstdDecompressor()
    assert unzip(reader, packed, 1 << 20) == bytes(1 << 20)
    with pytest.raises(ValueError, match="another size than is recorded"):
        unzip(reader, packed, 1 << 10)


def test_a_page_larger_than_its_reader_can_take_is_refused() -> None:
    page = encode_page([Entry(b"a", 0o100644)], ChunkTable())
    assert PageReader(ChunkTable()).read("page", page)
    with pytest.raises(SnapshotCorruptError, match="more than a page can have"):
        PageReader(ChunkTable(), largest=10).read("page", page)
