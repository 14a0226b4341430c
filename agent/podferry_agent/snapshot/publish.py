"""Writes the pages and the root of a capture, and what is remembered of it on this machine."""

import errno
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from podferry_agent import AGENT_VERSION
from podferry_agent.snapshot import statestore
from podferry_agent.snapshot.chunks import ChunkTable
from podferry_agent.snapshot.listings import Listings
from podferry_agent.snapshot.manifest import ManifestWriter, Root, limited
from podferry_agent.snapshot.model import (
    KEPT,
    TORN,
    UNREADABLE,
    CaptureOutcome,
    CaptureSpec,
    Entry,
    ObjectStore,
    Summary,
    display,
)
from podferry_agent.snapshot.pace import Pace
from podferry_agent.snapshot.packs import PackWriter
from podferry_agent.snapshot.patch import Patch
from podferry_agent.snapshot.pausing import Pauser
from podferry_agent.snapshot.previous import Parent
from podferry_agent.snapshot.reading import FileReader
from podferry_agent.snapshot.statestore import Facts, StateStore
from podferry_agent.snapshot.walk import Node, WalkReport


@dataclass
class Cut:
    """What a capture is without that had to end before it was done."""

    is_cut: bool = False
    is_walk_cut: bool = False  # directories that nobody looked into are as in the parent
    is_partial: bool = False
    unreached: list[str] = field(default_factory=list)
    paths: set[bytes] = field(default_factory=set)


@dataclass(frozen=True)
class Findings:
    """What is only for this machine's next capture."""

    rules: bytes
    known: Listings | None
    links: dict[tuple[int, int], list[Node]]
    copies: set[bytes]
    scan_start_ns: int


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """The last phase of a capture: everything is read, nodes are in order."""

    spec: CaptureSpec
    store: ObjectStore
    state: StateStore
    parent: Parent
    pace: Pace
    table: ChunkTable
    nodes: list[Node]
    report: WalkReport
    reader: FileReader
    stored: PackWriter
    pauser: Pauser
    warnings: list[str]
    found: Findings
    began: float
    cut: Cut

    def publish(self) -> CaptureOutcome:
        spec = self.spec
        entries = [node.entry for node in self.nodes]
        writer = ManifestWriter(spec.snapshot_id, self.store, self.parent.root, self.state.pages)
        patch = _PacedPatch(entries, self.report.removed, self.parent.firsts, self.pace)
        writer.write(patch, self.parent.page, self.table)
        summary = self._summary(entries, writer)
        root = writer.write_root(self._root(entries, writer, summary))
        self._remember(writer)
        return CaptureOutcome(spec.snapshot_id, root, summary)

    def _summary(self, entries: list[Entry], writer: ManifestWriter) -> Summary:
        unreadable = [*self.report.unreadable, *self.reader.unreadable]
        texts = sorted(f"{display(p)}: {errno.errorcode.get(n, n)}" for p, n in unreadable)
        summary = Summary(
            files=sum(page.files for page in writer.pages),
            directories=sum(page.directories for page in writer.pages),
            entries=sum(page.entries for page in writer.pages),
            bytes=sum(page.bytes for page in writer.pages),
            new_bytes=self.reader.new_bytes,
            stored_bytes=self.stored.stored_bytes + writer.written_bytes,
            packs=len(self.stored.packs),
            torn=limited([_torn(e) for e in self._torn(entries)]),
            is_partial=self.cut.is_partial,
            unreached=limited(self.cut.unreached),
            unreached_files=len(self.cut.unreached),
            unreadable=limited(texts),
            warnings=list(self.warnings),
            pauses=self.pauser.count,
            paused_ms=self.pauser.milliseconds,
            duration_seconds=round(time.monotonic() - self.began, 3),
        )
        if self.report.vanished:
            summary.warnings.append(f"{self.report.vanished} names vanished while walking")
        return summary

    def _torn(self, entries: list[Entry]) -> list[Entry]:
        return [e for e in entries if e.bits & TORN and e.path not in self.cut.paths]

    def _root(self, entries: list[Entry], writer: ManifestWriter, summary: Summary) -> Root:
        spec = self.spec
        return Root(
            kind=spec.kind,
            snapshot_id=spec.snapshot_id,
            parent=spec.parent,
            pages=writer.numbered_pages(),
            packs=writer.packs,
            counts={
                "entries": summary.entries,
                "files": summary.files,
                "directories": summary.directories,
                "bytes": summary.bytes,
                "torn": len(self._torn(entries)),
                "unreadable": sum(1 for e in entries if e.bits & UNREADABLE),
            },
            torn=summary.torn,
            unreached=summary.unreached,
            unreadable=summary.unreadable,
            user_rules=list(spec.user_rules),
            volume_path=display(spec.volume_path),
            agent_version=AGENT_VERSION,
            source=_source_facts(),
        )

    def _remember(self, writer: ManifestWriter) -> None:
        """Facts are written last: a capture that died leaves those of its parent in use."""
        listings = Listings(self.report.listings, {})
        report = self.report
        for node in (*report.closed, *(node for node, _ in report.partial)):
            if node.entry.path:
                listings.forget(node.entry.path)
        if self.found.known:
            listings.links.update(listings.still_linked(self.found.known.links))
        for inode, group in self.found.links.items():
            listings.links[inode] = [node.entry.path for node in group]
        facts = Facts(
            self.found.rules,
            [page.name for page in writer.pages],
            writer.firsts,
            listings,
            sorted(self.found.copies),
        )
        spec, before = self.spec, self.found.scan_start_ns - statestore.RACY_NS
        if not self.cut.is_walk_cut:
            self.state.remember(spec.snapshot_id, spec.parent, facts.encode(before))
        kept = [*writer.pages, *(self.parent.root.pages if self.parent.root else ())]
        self.state.pages.keep_only(page.sha256 for page in kept)
        self.state.forget_packs()


class _PacedPatch(Patch):
    """A patch that leaves the CPU to others between two pages."""

    def __init__(
        self, changed: Sequence[Entry], removed: list[bytes], firsts: Sequence[bytes], pace: Pace
    ) -> None:
        super().__init__(changed, removed, firsts)
        self._pace = pace

    def groups(self, read_page: Callable[[int], Sequence[Entry]]) -> Iterator[int | list[Entry]]:
        for group in super().groups(read_page):
            yield group
            self._pace.breathe()


def _torn(entry: Entry) -> str:
    """The path, and whose content the snapshot has."""
    what = f"kept as of {entry.kept}" if entry.bits & KEPT else "as read"
    return f"{display(entry.path)}: {what}"


def _source_facts() -> dict[str, str]:
    """Where the snapshot comes from: for people, nothing depends on it."""
    facts = {"kernel": platform.release(), "architecture": platform.machine()}
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return facts
    return {**facts, "distribution": release.get("PRETTY_NAME", release["ID"])}
