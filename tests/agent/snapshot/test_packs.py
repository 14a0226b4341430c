"""Packs as the writer fills and closes them."""

from pathlib import Path

from podferry_agent.snapshot.chunks import ChunkTable, Pack, chunk_id
from podferry_agent.snapshot.directorystore import DirectoryStore
from podferry_agent.snapshot.packs import PackWriter, load_footer
from podferry_agent.snapshot.reading import BATCH_FILES

KEY = bytes(range(32))
TINY = 4  # bytes of one file
MOST = (1 << 16) + BATCH_FILES  # the batch that fills a pack goes into it whole


def store_tiny_files(writer: PackWriter, table: ChunkTable, batches: int) -> None:
    for batch in range(batches):
        first = batch * BATCH_FILES
        pieces = [number.to_bytes(TINY, "big") for number in range(first, first + BATCH_FILES)]
        numbers = [table.reserve(chunk_id(piece, KEY), TINY)[0] for piece in pieces]
        offsets = range(0, TINY * BATCH_FILES, TINY)
        writer.add(b"".join(pieces), list(zip(numbers, offsets, strict=True)))


def test_a_pack_of_very_many_tiny_files_is_closed_by_their_number(tmp_path: Path) -> None:
    """Otherwise its footer, which has 44 bytes for each of them, would outgrow what it describes."""
    table, closed = ChunkTable(), list[tuple[Pack, bytes]]()
    store = DirectoryStore(tmp_path, "snap_1")
    writer = PackWriter("snap_1", store, table, lambda *each: closed.append(each))
    store_tiny_files(writer, table, batches=140)
    writer.finish()
    writer.close()
    found = ChunkTable()
    for pack, footer in closed:
        before = len(found.ids)
        load_footer(pack, footer, found)
        assert 0 < len(found.ids) - before <= MOST
    assert len(closed) == 3
    assert found.numbers.keys() == table.numbers.keys()
