"""Scans one entry of a snapshot: its content, its attributes, and what is in it if it is packed."""

from collections.abc import Iterator

from podferry.domain.share import MOST_HITS, Hit
from podferry.services.sharing.archives import LARGEST, is_archive, not_scanned, scan_archive
from podferry.services.sharing.scan import scan_bytes
from podferry.services.sharing.tree import SnapshotPage
from podferry_agent.snapshot.model import Entry, display

_HEAD = 512


def shown(entry: Entry) -> str:
    """The path of the pod, printable."""
    return f"/{display(entry.path)}"


def hits_of(page: SnapshotPage, entry: Entry) -> list[Hit]:
    """What the scan has against the entry."""
    path = shown(entry)
    hits = scan_bytes(path, page.content(entry)) if entry.is_regular else []
    if words := _words(page, entry):
        hits += scan_bytes(path, [words])
    if entry.is_regular and entry.refs:
        hits += _packed(path, page, entry)
    return hits[:MOST_HITS]


def _words(page: SnapshotPage, entry: Entry) -> bytes:
    """What is not content: the target of a link, and attributes."""
    large = [bytes(page.chunk(chunk)) for _, chunk in entry.large_xattrs]
    return b"\n".join([entry.target, *(value for _, value in entry.xattrs), *large])


def _packed(path: str, page: SnapshotPage, entry: Entry) -> list[Hit]:
    head = bytes(page.chunk(entry.refs[1])[:_HEAD])
    if not is_archive(head):
        return []
    if entry.size > LARGEST:
        return [not_scanned()]
    return scan_archive(path, b"".join(_filled(page, entry)))


def _filled(page: SnapshotPage, entry: Entry) -> Iterator[bytes]:
    """The content with its holes."""
    at = 0
    for offset, chunk in zip(entry.refs[::2], entry.refs[1::2], strict=True):
        yield bytes(offset - at)
        piece = bytes(page.chunk(chunk))
        at = offset + len(piece)
        yield piece
    yield bytes(max(0, entry.size - at))
