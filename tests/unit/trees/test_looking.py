"""Directories and files of saves that the engine captured, over HTTP and without a machine."""

import base64
import os
import random
from dataclasses import replace
from typing import Any

import pytest

from podferry.domain.account import Account
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.domain.tree import shown
from podferry.ports.store import Update
from podferry.services.trees.look import LARGEST_PIECE
from tests.agent.snapshot.test_format import weights
from tests.unit.http.deployment import Reply
from tests.unit.trees.shelf import Shelf
from tests.unit.trees.test_changes import many, pages_read


def entries(shelf: Shelf, snapshot: str, **query: Any) -> Reply:
    return shelf.user.get(f"/v1/snapshots/{snapshot}/entries", query=query)


def content(shelf: Shelf, snapshot: str, **query: Any) -> Reply:
    return shelf.user.get(f"/v1/snapshots/{snapshot}/content", query=query)


def whole(shelf: Shelf, snapshot: str, path: str, length: int = LARGEST_PIECE) -> bytes:
    """The file, piece by piece."""
    found, offset = b"", 0
    while True:
        piece = content(shelf, snapshot, path=path, offset=offset, length=length).json
        data = base64.b64decode(piece["data"])
        assert piece["offset"] == offset
        assert len(data) <= length
        found += data
        if piece["next_offset"] is None:
            assert piece["size_bytes"] == len(found)
            return found
        assert piece["next_offset"] == offset + len(data) > offset
        offset = piece["next_offset"]


def test_a_directory_is_listed_with_what_is_right_in_it(shelf: Shelf) -> None:
    (shelf.tree / "code/deep/er").mkdir(parents=True)
    (shelf.tree / "code/main.py").write_text("print()")
    (shelf.tree / "code/deep/x").write_text("x")
    (shelf.tree / "code-2").write_text("")
    (shelf.tree / "link").symlink_to("code/main.py")
    (shelf.tree / "code/main.py").chmod(0o640)
    snapshot = shelf.capture()
    top = entries(shelf, snapshot).json
    assert [(row["path"], row["kind"]) for row in top["data"]] == [
        ("code", "directory"),
        ("code-2", "file"),
        ("link", "symlink"),
    ]
    assert top["data"][2]["target"] == "code/main.py"
    inner = entries(shelf, snapshot, path="code").json["data"]
    assert [row["path"] for row in inner] == ["code/deep", "code/main.py"]
    assert (inner[1]["mode"], inner[1]["size_bytes"]) == ("0640", 7)
    assert entries(shelf, snapshot, path="/code/deep/er/").json["data"] == []


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_directory_comes_in_pages(shelf: Shelf, limit: int) -> None:
    for name in ("a", "a b", "a-b", "b", "z"):
        (shelf.tree / name).mkdir()
        (shelf.tree / name / "inside").write_text("")
    snapshot = shelf.capture()
    names, cursor = [], None
    while True:
        query = {} if cursor is None else {"cursor": cursor}
        page = entries(shelf, snapshot, limit=limit, **query).json
        names += [row["path"] for row in page["data"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert names == ["a", "a b", "a-b", "b", "z"]


def test_odd_names_are_written_so_that_they_can_be_asked_for(shelf: Shelf) -> None:
    names = [b"a,b", b"new\nline", b"\xff\xfe", b"back\\slash", b"\\x41", "ü€😀".encode(), b"\x85", b"\xc2\x85"]  # fmt: skip
    for name in names:
        (shelf.tree / os.fsdecode(name)).write_bytes(b"of " + name)
    snapshot = shelf.capture()
    rows = entries(shelf, snapshot).json["data"]
    assert sorted(row["path"] for row in rows) == sorted(shown(name) for name in names)
    for name in names:
        assert whole(shelf, snapshot, shown(name)) == b"of " + name


def test_files_of_every_codec_are_read_whole(shelf: Shelf) -> None:
    noise = random.Random(1).randbytes(900_000)
    files = {
        "empty": b"",
        "text": b"many words " * 300_000,
        "noise": noise,
        "halves": weights(400_001, 2) + b"!",
        "singles": b"!!!" + weights(200_001, 4) + b"!!",
        "small": b"x",
    }
    for name, body in files.items():
        (shelf.tree / name).write_bytes(body)
    with (shelf.tree / "holes").open("wb") as file:
        file.seek(2_000_000)
        file.write(b"end")
    snapshot = shelf.capture()
    for name, body in files.items():
        assert whole(shelf, snapshot, name) == body
    assert whole(shelf, snapshot, "holes") == bytes(2_000_000) + b"end"
    assert whole(shelf, snapshot, "text", length=1_000_003) == files["text"]


def test_a_piece_of_a_large_file_reads_only_the_blocks_that_it_needs(shelf: Shelf) -> None:
    body = random.Random(2).randbytes(20 << 20)
    (shelf.tree / "big.raw").write_bytes(body)
    snapshot = shelf.capture()
    objects = shelf.ports.objects
    read: list[int] = []
    inner = objects.read_range

    def counting(kind: Any, key: str, start: int, length: int) -> bytes:
        read.append(length)
        return inner(kind, key, start, length)

    objects.read_range = counting  # type: ignore[method-assign]  # watched, not replaced
    piece = content(shelf, snapshot, path="big.raw", offset=15_000_000, length=1000).json
    assert base64.b64decode(piece["data"]) == body[15_000_000:15_001_000]
    assert sum(read) < 3 << 20


def test_a_piece_beyond_the_end_is_empty(shelf: Shelf) -> None:
    (shelf.tree / "short").write_text("abc")
    piece = content(shelf, shelf.capture(), path="short", offset=10).json
    assert (piece["data"], piece["next_offset"]) == ("", None)


def test_a_damaged_pack_is_named_and_no_byte_of_it_is_answered(shelf: Shelf) -> None:
    (shelf.tree / "file").write_text("content")
    snapshot = shelf.capture()
    shelf.damage("packs", 0)
    reply = content(shelf, snapshot, path="file")
    assert (reply.status, reply.code) == (409, "snapshot_corrupt")
    assert "packs/" in reply.json["detail"]


def test_a_chunk_that_is_not_the_accounts_is_not_answered(shelf: Shelf) -> None:
    """Its block is whole; its id was not made with the account's key."""
    (shelf.tree / "file").write_text("content")
    snapshot = shelf.capture()
    store = shelf.ports.store
    other = base64.b64encode(b"k" * 32).decode()
    store.commit(Update(replace(store.get(Account, shelf.user.account.id), chunk_key=other)))
    assert content(shelf, snapshot, path="file").code == "snapshot_corrupt"


def test_what_is_no_file_or_not_there_cannot_be_read(shelf: Shelf) -> None:
    (shelf.tree / "dir").mkdir()
    (shelf.tree / "dir/file").write_text("")
    snapshot = shelf.capture()
    assert "is a directory" in content(shelf, snapshot, path="dir").json["detail"]
    assert "is a file" in entries(shelf, snapshot, path="dir/file").json["detail"]
    for path in ("nothing", "dir/file/below", "dir/fil"):
        assert content(shelf, snapshot, path=path).code == "not_found"
        assert entries(shelf, snapshot, path=path).code == "not_found"


@pytest.mark.parametrize("path", ["a//b", "../etc", "a/./b", "\\q", "a\\", "a\\x00b"])
def test_a_path_that_no_tree_has_is_refused(shelf: Shelf, path: str) -> None:
    reply = content(shelf, shelf.made_of(many(2)), path=path)
    assert (reply.status, reply.code) == (400, "invalid_request")
    assert reply.json["errors"][0]["where"] == "query path"


def test_only_committed_snapshots_are_looked_into(shelf: Shelf) -> None:
    snapshot = shelf.made_of(many(2))
    store = shelf.ports.store
    row = store.get(Snapshot, snapshot)
    store.commit(Update(replace(row, state=SnapshotState.DELETED)))
    assert entries(shelf, snapshot).code == content(shelf, snapshot, path="x").code == "not_found"


def test_a_directory_of_a_large_tree_reads_a_few_pages_only(shelf: Shelf) -> None:
    """Fifty directories of many names: each is leapt over."""
    snapshot = shelf.made_of(many(20_000), page_bits=5)
    read = pages_read(shelf)
    page = entries(shelf, snapshot, limit=20).json
    assert [row["path"] for row in page["data"]] == [f"d{n:02d}" for n in range(20)]
    assert len(read) <= 45
    del read[:]
    [row] = entries(shelf, snapshot, path="d33", limit=1).json["data"]
    assert row["path"] == "d33/f00033"
    assert len(read) <= 3
