"""Captures a tree: walk, read what changed, store what is new, write the pages, then the root."""

import errno
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from podferry_agent import AGENT_VERSION
from podferry_agent.snapshot import statestore
from podferry_agent.snapshot.chunks import ChunkTable, Pack, chunk_id
from podferry_agent.snapshot.describe import describe_directory, describe_special
from podferry_agent.snapshot.errors import CaptureFailedError, InvalidSpecError
from podferry_agent.snapshot.listings import Listings
from podferry_agent.snapshot.manifest import (
    ManifestReader,
    ManifestWriter,
    Root,
    limited,
    load_root,
)
from podferry_agent.snapshot.memory import for_big_buffers
from podferry_agent.snapshot.model import (
    BARE,
    TORN,
    UNREADABLE,
    VANISHED,
    CaptureOutcome,
    CaptureSpec,
    Entry,
    ObjectStore,
    Progress,
    Summary,
    display,
    sort_key,
)
from podferry_agent.snapshot.packs import PackWriter, load_footer
from podferry_agent.snapshot.patch import Patch
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.reading import BATCH, BATCH_FILES, SMALL, FileReader
from podferry_agent.snapshot.rules import Rules, rules_for
from podferry_agent.snapshot.statestore import Facts, StateStore
from podferry_agent.snapshot.tree import Tree
from podferry_agent.snapshot.walk import Node, Walker


def capture(
    spec: CaptureSpec,
    store: ObjectStore,
    progress: Callable[[Progress], None],
    cancelled: threading.Event,
) -> CaptureOutcome:
    """Capture the tree of `spec` into `store`. The snapshot exists when this returns, not before.

    Raises a `SnapshotError`; then nothing refers to what was uploaded.
    """
    try:
        tree = Tree(spec.tree_root)
    except OSError as error:
        where = os.fsdecode(spec.tree_root)
        raise CaptureFailedError(f"{where} cannot be opened: {error.strerror}") from error
    with tree, for_big_buffers():
        return _Capture(spec, store, tree, Meter(progress, cancelled)).run()


class _Parent:
    """The snapshot before this one: its chunks, and what was known of its files."""

    def __init__(self, spec: CaptureSpec, store: ObjectStore, state: StateStore) -> None:
        self.root: Root | None = None
        self._facts: Facts | None = None
        self._reader: ManifestReader | None = None
        self._has_chunks = False
        if spec.parent is None:
            return
        self.root = load_root(store, spec.parent)
        if self.root.kind != spec.kind:
            raise InvalidSpecError(f"the parent {spec.parent} is of kind {self.root.kind}")
        self._reader = ManifestReader(store, self.root, state.pages)
        facts = state.facts(spec.parent)
        if facts and facts.pages == [page.name for page in self.root.pages]:
            self._facts = facts

    @property
    def table(self) -> ChunkTable:
        return self._reader.table if self._reader else ChunkTable()

    def listings(self, rules: Rules) -> Listings | None:
        """What an earlier walk saw, if it went by the same rules."""
        if self._facts and self._facts.rules != rules.fingerprint():
            self._facts = None
        return self._facts.listings if self._facts else None

    @property
    def firsts(self) -> list[bytes]:
        """First paths of the pages that can be patched: none without facts."""
        return self._facts.firsts if self._facts else []

    def learn_chunks(self) -> None:
        """Needed before anything is stored; not if nothing changed."""
        if self._reader and not self._has_chunks:
            self._reader.learn_chunks()
        self._has_chunks = True

    def page(self, number: int) -> list[Entry]:
        if self._reader is None:
            raise AssertionError("there is no parent to read a page of")
        return self._reader.page(number)


class _Capture:
    def __init__(self, spec: CaptureSpec, store: ObjectStore, tree: Tree, meter: Meter) -> None:
        self._began = time.monotonic()
        self._scan_start_ns = time.time_ns()
        self._spec = spec
        self._store = store
        self._tree = tree
        self._meter = meter
        self._state = StateStore(spec.state_dir, spec.kind)
        self._nodes: list[Node] = []
        self._links: dict[tuple[int, int], list[Node]] = {}
        self._running: list[Future[list[Node]] | Future[None]] = []
        self._batch: list[Node] = []
        self._batch_bytes = 0
        self._seen_bytes = 0

    def run(self) -> CaptureOutcome:
        self._meter.phase("prepare")
        self._parent = _Parent(self._spec, self._store, self._state)
        self._table = self._parent.table
        self._learn_confirmed()
        rules = rules_for(self._spec)
        self._rules = rules.fingerprint()
        self._known = self._parent.listings(rules)
        self._walker = Walker(
            self._tree,
            rules,
            self._spec.pod_prefix,
            with_sockets=self._spec.kind == "volume",
            known=self._known,
        )
        self._read_everything()
        self._settle_nodes()
        self._meter.phase("publish")
        return self._publish()

    def _learn_confirmed(self) -> None:
        """Reuse the packs of an earlier, killed run of this very snapshot, and only of this."""
        snapshot_id = self._spec.snapshot_id
        self._state.forget_packs(other_than=snapshot_id)
        for sha256, size, footer in self._state.confirmed_packs(snapshot_id):
            load_footer(Pack(snapshot_id, sha256, size), footer, self._table)

    def _confirmed(self, pack: Pack, footer: bytes) -> None:
        self._state.confirm_pack(pack.snapshot_id, pack.sha256, pack.size, footer)

    def _read_everything(self) -> None:
        spec, threads = self._spec, min(8, os.cpu_count() or 1)
        self._writer = PackWriter(spec.snapshot_id, self._store, self._table, self._confirmed)
        self._reader = FileReader(
            self._tree, self._table, self._writer, spec.chunk_key, self._meter
        )
        self._meter.phase("read")
        workers = ThreadPoolExecutor(threads, "pf-read")
        leaders = ThreadPoolExecutor(2, "pf-big")
        try:
            self._workers, self._leaders = workers, leaders
            self._scan()
            self._collect()
            self._finish_links()
            self._writer.finish()
        finally:
            leaders.shutdown(wait=True, cancel_futures=True)
            workers.shutdown(wait=True, cancel_futures=True)
            self._writer.close()
        self._meter.finish()

    def _scan(self) -> None:
        for node in self._walker.walk(self._visit):
            if not node.known:
                self._take(node)
        self._add_partners()
        self._flush()
        self._meter.totals(self._seen_bytes, sum(n.entry.is_regular for n in self._nodes))

    def _take(self, node: Node) -> None:
        self._nodes.append(node)
        if node.nlink > 1 and not node.entry.is_directory:
            group = self._links.setdefault((node.dev, node.ino), [])
            group.append(node)
            if len(group) > 1:
                return
        if node.entry.is_regular:
            self._queue(node)

    def _add_partners(self) -> None:
        """Unchanged names of an inode that has got a new name: they are linked to it."""
        if not self._known:
            return
        for inode, group in self._links.items():
            here = {node.entry.path for node in group}
            for path in self._known.links.get(inode, ()):
                if path not in here and (node := self._walker.look(path, inode)):
                    self._nodes.append(node)
                    group.append(node)

    def _visit(self, directory: Node, fd: int, nodes: list[Node]) -> None:
        """Everything that needs the open directory."""
        if not directory.known and not directory.entry.bits & BARE:
            describe_directory(directory, fd)
        for node in nodes:
            if node.known or node.entry.is_regular or node.entry.is_directory:
                continue
            try:
                describe_special(self._tree, fd, node)
            except OSError as error:
                self._walker.failed(node.entry.path, error)

    def _queue(self, node: Node) -> None:
        self._parent.learn_chunks()
        size = node.entry.size
        self._seen_bytes += size
        if size > SMALL:
            self._running.append(self._leaders.submit(self._reader.read_big, node, self._workers))
            return
        self._batch.append(node)
        self._batch_bytes += size
        if self._batch_bytes >= BATCH or len(self._batch) >= BATCH_FILES:
            self._flush()

    def _flush(self) -> None:
        if self._batch:
            self._running.append(self._workers.submit(self._reader.read_small, self._batch))
        self._batch, self._batch_bytes = [], 0
        self._meter.check()

    def _collect(self) -> None:
        """Wait for the readers; files that grew or are sparse go to the readers of big files."""
        while self._running:
            waiting, self._running = self._running, []
            for future in waiting:
                for node in future.result() or ():
                    self._running.append(
                        self._leaders.submit(self._reader.read_big, node, self._workers)
                    )

    def _finish_links(self) -> None:
        """All names of an inode get what was read through one of them, and a common mark."""
        for group in self._links.values():
            while len(group) > 1 and group[0].entry.bits & VANISHED:
                group.pop(0)
                if group[0].entry.is_regular:
                    self._reader.read_big(group[0], self._workers)
            if len(group) < 2:
                continue
            source = group[0]
            first = min((node.entry.path for node in group), key=sort_key)
            link = chunk_id(first, self._spec.chunk_key)[:16]
            for node in group:
                _copy_content(source, node)
                node.entry.link = link

    def _settle_nodes(self) -> None:
        """Put the nodes in order, with what could not be read marked, without what vanished."""
        report = self._walker.report
        for node in report.closed:
            report.removed.append(node.entry.path)
            if node.known:
                node.known = False
                self._nodes.append(node)
        unreadable = {path for path, _ in report.unreadable}
        for node in self._nodes:
            if node.entry.path in unreadable:
                node.entry.bits |= UNREADABLE
                node.ctime_ns = 0
        self._nodes.sort(key=lambda node: sort_key(node.entry.path))
        gone = [node.entry.path for node in self._nodes if node.entry.bits & VANISHED]
        report.removed += gone
        self._nodes = list(_without_vanished(self._nodes))

    def _publish(self) -> CaptureOutcome:
        spec = self._spec
        entries = [node.entry for node in self._nodes]
        writer = ManifestWriter(spec.snapshot_id, self._store, self._parent.root, self._state.pages)
        patch = Patch(entries, self._walker.report.removed, self._parent.firsts)
        writer.write(patch, self._parent.page, self._table)
        summary = self._summary(entries, writer)
        root = writer.write_root(self._root(entries, writer, summary))
        self._remember(writer)
        return CaptureOutcome(spec.snapshot_id, root, summary)

    def _summary(self, entries: list[Entry], writer: ManifestWriter) -> Summary:
        unreadable = [*self._walker.report.unreadable, *self._reader.unreadable]
        texts = sorted(f"{display(p)}: {errno.errorcode.get(n, n)}" for p, n in unreadable)
        summary = Summary(
            files=sum(page.files for page in writer.pages),
            directories=sum(page.directories for page in writer.pages),
            entries=sum(page.entries for page in writer.pages),
            bytes=sum(page.bytes for page in writer.pages),
            new_bytes=self._reader.new_bytes,
            stored_bytes=self._writer.stored_bytes + writer.written_bytes,
            packs=len(self._writer.packs),
            torn=limited([display(e.path) for e in entries if e.bits & TORN]),
            unreadable=limited(texts),
            duration_seconds=round(time.monotonic() - self._began, 3),
        )
        if self._walker.report.vanished:
            summary.warnings.append(f"{self._walker.report.vanished} names vanished while walking")
        return summary

    def _root(self, entries: list[Entry], writer: ManifestWriter, summary: Summary) -> Root:
        spec = self._spec
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
                "torn": sum(1 for e in entries if e.bits & TORN),
                "unreadable": sum(1 for e in entries if e.bits & UNREADABLE),
            },
            torn=summary.torn,
            unreadable=summary.unreadable,
            user_rules=list(spec.user_rules),
            volume_path=display(spec.volume_path),
            agent_version=AGENT_VERSION,
            source=_source_facts(),
        )

    def _remember(self, writer: ManifestWriter) -> None:
        """Facts are written last: a capture that died leaves those of its parent in use."""
        listings = Listings(self._walker.report.listings, {})
        for node in self._walker.report.closed:
            listings.forget(node.entry.path)
        if self._known:
            listings.links.update(Listings(listings.all(), self._known.links).still_linked())
        for inode, group in self._links.items():
            listings.links[inode] = [node.entry.path for node in group]
        facts = Facts(self._rules, [page.name for page in writer.pages], writer.firsts, listings)
        spec, before = self._spec, self._scan_start_ns - statestore.RACY_NS
        self._state.remember(spec.snapshot_id, spec.parent, facts.encode(before))
        kept = [*writer.pages, *(self._parent.root.pages if self._parent.root else ())]
        self._state.pages.keep_only(page.sha256 for page in kept)
        self._state.forget_packs()


def _copy_content(source: Node, node: Node) -> None:
    path = node.entry.path
    if node is not source:
        fields = {name: getattr(source.entry, name) for name in Entry.__slots__}
        node.entry = Entry(**{**fields, "path": path})
    node.ctime_ns = source.ctime_ns


def _without_vanished(nodes: list[Node]) -> Iterator[Node]:
    """Drop names that went away while they were read, with all that was below them."""
    gone = b"\0"
    for node in nodes:
        path = node.entry.path
        if path.startswith(gone):
            continue
        if node.entry.bits & VANISHED:
            gone = path + b"/"
            continue
        yield node


def _source_facts() -> dict[str, str]:
    """Where the snapshot comes from: for people, nothing depends on it."""
    facts = {"kernel": platform.release(), "architecture": platform.machine()}
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return facts
    return {**facts, "distribution": release.get("PRETTY_NAME", release["ID"])}
