"""What two snapshots differ in: against a plain comparison, page by page, and over HTTP."""

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podferry_agent.snapshot.model import Entry, sort_key
from tests.unit.http.deployment import Deployment
from tests.unit.trees.shelf import CONTENTS, KIND, Shelf

NAMES = (
    st.text(alphabet="ab.-\x01\xe9", min_size=1, max_size=3)
    .filter(lambda name: name not in {".", ".."})  # no tree has these, and no page may
    .map(str.encode)
)
ODD = st.sampled_from([b"\xff", b"\x85", b"\xc2\x85", b"\\x41", b"a\nb", b"\xf0\x9f\x98\x80"])
FILES = st.fixed_dictionaries(
    {
        "mode": st.sampled_from([0o644, 0o600]),
        "size": st.integers(0, 2),
        "content": st.integers(0, CONTENTS - 1),
        "mtime_ns": st.sampled_from([0, 1]),
        "uid": st.sampled_from([0, 7]),
        "link": st.sampled_from([b"", b"0123456789abcdef"]),
        "target": st.sampled_from([b"", b"there"]),
        "xattr": st.sampled_from([b"", b"value"]),
    }
)
TREES = st.dictionaries(
    st.lists(NAMES | ODD, min_size=1, max_size=3).map(b"/".join), FILES, max_size=25
)
Tree = dict[bytes, dict[str, Any]]


def entries_of(tree: Tree) -> list[Entry]:
    """The entries of a tree in which whatever has something in it is a directory."""
    parents = {
        b"/".join(path.split(b"/")[:n]) for path in tree for n in range(path.count(b"/") + 1)
    }
    found = {path: Entry(path, stat.S_IFDIR | 0o755) for path in parents}
    found[b""] = Entry(b"", stat.S_IFDIR | 0o755)
    for path, about in tree.items():
        if path not in found:
            found[path] = an_entry(path, about)
    return [found[path] for path in sorted(found, key=sort_key)]


def an_entry(path: bytes, about: dict[str, Any]) -> Entry:
    common = {name: about[name] for name in ("mtime_ns", "uid", "link")}
    xattrs = ((b"user.a", about["xattr"]),) if about["xattr"] else ()
    if about["target"]:
        mode = stat.S_IFLNK | 0o777
        return Entry(path, mode, target=about["target"], xattrs=xattrs, **common)
    refs = (0, about["content"]) if about["size"] else ()
    mode = stat.S_IFREG | about["mode"]
    return Entry(path, mode, size=about["size"], refs=refs, xattrs=xattrs, **common)


def plain(old: list[Entry], new: list[Entry]) -> list[tuple[bytes, str, tuple[str, ...]]]:
    """The oracle: both trees as dictionaries, name by name."""
    left, right = ({entry.path: entry for entry in side} for side in (old, new))
    found = []
    for path in sorted(left.keys() | right.keys(), key=sort_key):
        if path not in left:
            found.append((path, "added", ()))
        elif path not in right:
            found.append((path, "removed", ()))
        elif differs := plain_difference(left[path], right[path]):
            found.append((path, "changed", differs))
    return found


def plain_difference(old: Entry, new: Entry) -> tuple[str, ...]:
    if stat.S_IFMT(old.mode) != stat.S_IFMT(new.mode):
        return ("type",)
    asked = {
        "content": lambda e: (e.size, e.refs, e.target),
        "mode": lambda e: e.mode,
        "owner": lambda e: e.uid,
        "xattrs": lambda e: e.xattrs,
        "links": lambda e: bool(e.link),
        "mtime": lambda e: e.mtime_ns,
    }
    return tuple(name for name, ask in asked.items() if ask(old) != ask(new))


def found_by(shelf: Shelf, old: str, new: str, limit: int) -> list[Any]:
    """All changes, page after page."""
    found: list[Any] = []
    behind = None
    for _ in range(1000):
        page = shelf.look.changes(shelf.user.account.id, old, new, limit=limit, after=behind)
        assert len(page.changes) <= limit
        found += [(c.entry.path, str(c.kind), c.differs_in) for c in page.changes]
        if page.behind is None:
            return found
        assert behind is None or page.behind > behind
        behind = page.behind
    raise AssertionError("the pages have no end")


@settings(max_examples=60, deadline=None)
@given(old=TREES, new=TREES, both=TREES, limit=st.integers(1, 9), salts=st.booleans())
def test_changes_are_those_of_a_plain_comparison(
    old: Tree, new: Tree, both: Tree, limit: int, *, salts: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        shelf = Shelf(Deployment().an_account(), Path(directory))
        left, right = entries_of({**old, **both}), entries_of({**new, **both})
        snapshots = shelf.made_of(left), shelf.made_of(right, salt="other" if salts else "")
        assert found_by(shelf, *snapshots, limit=limit) == plain(left, right)
        assert found_by(shelf, snapshots[0], snapshots[0], limit=limit) == []


def many(count: int, changed: int | None = None) -> list[Entry]:
    tree = {
        b"d%02d/f%05d" % (n % 50, n): {
            "mode": 0o644,
            "size": 1,
            "content": 1 if n == changed else 0,
            "mtime_ns": 0,
            "uid": 0,
            "link": b"",
            "target": b"",
            "xattr": b"",
        }
        for n in range(count)
    }
    return entries_of(tree)


def pages_read(shelf: Shelf) -> list[str]:
    """From here on, the keys of pages that are read."""
    read: list[str] = []
    inner = shelf.ports.objects.read

    def noting(kind: Any, key: str) -> bytes:
        if "/pages/" in key:
            read.append(key)
        return inner(kind, key)

    shelf.ports.objects.read = noting  # type: ignore[method-assign]  # watched, not replaced
    return read


def test_pages_that_both_have_are_not_read(shelf: Shelf) -> None:
    old = shelf.made_of(many(5000), page_bits=5)
    new = shelf.made_of(many(5000, changed=3210), page_bits=5)
    read = pages_read(shelf)
    [(path, kind, differs)] = found_by(shelf, old, new, limit=100)
    assert (path, kind, differs) == (b"d10/f03210", "changed", ("content",))
    assert len(read) == 2


def test_an_answer_reads_a_bounded_number_of_pages_and_says_where_to_go_on(shelf: Shelf) -> None:
    old = shelf.made_of(many(3000), page_bits=3)
    new = shelf.made_of(many(3000), page_bits=3, salt="stored anew")
    read = pages_read(shelf)
    page = shelf.look.changes(shelf.user.account.id, old, new, limit=100, after=None)
    assert page.changes == ()
    assert page.behind is not None
    assert len(read) <= 66
    assert found_by(shelf, old, new, limit=100) == []


def test_captured_changes_are_listed_with_their_bytes(shelf: Shelf) -> None:
    for name, body in {"kept": "k", "grows": "1", "goes": "gone", "sub/deep": "x"}.items():
        path = shelf.tree / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(body)
    old = shelf.capture()
    (shelf.tree / "grows").write_text("12345")
    (shelf.tree / "goes").unlink()
    (shelf.tree / "comes").write_text("new!")
    new = shelf.capture()
    reply = shelf.user.get(f"/v1/snapshots/{new}/changes", query={"since": old})
    assert reply.json["next_cursor"] is None
    rows = {row["path"]: row for row in reply.json["data"]}
    assert rows.keys() == {"", "comes", "goes", "grows"}
    told = {name: (r["change"], r["bytes_before"], r["bytes_after"]) for name, r in rows.items()}
    assert told["comes"] == ("added", None, 4)
    assert told["goes"] == ("removed", 4, None)
    assert told["grows"] == ("changed", 1, 5)
    assert rows["grows"]["differs_in"] == ["content", "mtime"]
    back = shelf.user.get(f"/v1/snapshots/{old}/changes", query={"since": new}).json["data"]
    assert {row["path"]: row["change"] for row in back}["comes"] == "removed"


def test_changes_come_in_pages_over_http(shelf: Shelf) -> None:
    (shelf.tree / "first").write_text("")
    old = shelf.capture()
    for n in range(7):
        (shelf.tree / f"f{n}").write_bytes(os.urandom(3))
    new = shelf.capture()
    names: list[str] = []
    query = {"since": old, "limit": 3}
    while True:
        page = shelf.user.get(f"/v1/snapshots/{new}/changes", query=query).json
        names += [row["path"] for row in page["data"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert names == ["", *(f"f{n}" for n in range(7))]


def test_only_snapshots_of_the_account_are_compared(shelf: Shelf) -> None:
    one = shelf.made_of(many(3))
    other = shelf.user.deployment.an_account("other")
    for reply in (
        other.get(f"/v1/snapshots/{one}/changes", query={"since": one}),
        shelf.user.get(f"/v1/snapshots/{one}/changes", query={"since": "snap_" + "0" * 26}),
    ):
        assert (reply.status, reply.code) == (404, "not_found")


@pytest.mark.parametrize("cursor", ["x", "eHg=", "===="])
def test_a_cursor_that_is_none_is_refused(shelf: Shelf, cursor: str) -> None:
    one = shelf.made_of(many(3))
    query = {"since": one, "cursor": cursor}
    assert shelf.user.get(f"/v1/snapshots/{one}/changes", query=query).code == "invalid_request"


def test_a_page_that_is_another_page_is_found_out(shelf: Shelf) -> None:
    """It can be read well; only its hash is not the one that the root names."""
    old, new = shelf.made_of(many(3)), shelf.made_of(many(3, changed=1))
    pages = [key for key in shelf.ports.objects.keys(KIND) if "/pages/" in key]
    bodies = [shelf.ports.objects.read(KIND, key) for key in pages]
    for key, body in zip(pages, bodies[1:] + bodies[:1], strict=True):
        shelf.ports.objects.put(KIND, key, body)
    reply = shelf.user.get(f"/v1/snapshots/{new}/changes", query={"since": old})
    assert (reply.status, reply.code) == (409, "snapshot_corrupt")


def test_a_damaged_page_is_named_and_nothing_is_told_of_it(shelf: Shelf) -> None:
    old, new = shelf.made_of(many(30)), shelf.made_of(many(30, changed=7))
    shelf.damage("pages", -1)
    reply = shelf.user.get(f"/v1/snapshots/{new}/changes", query={"since": old})
    assert (reply.status, reply.code) == (409, "snapshot_corrupt")
    assert "pages/" in reply.json["detail"]
