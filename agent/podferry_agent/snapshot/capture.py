"""Captures a tree: walk, read what changed, store what is new, write the pages, then the root."""

import errno
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from podferry_agent import AGENT_VERSION
from podferry_agent.snapshot.chunks import ChunkTable, Pack, chunk_id
from podferry_agent.snapshot.describe import describe_directory, describe_special
from podferry_agent.snapshot.errors import CaptureFailedError, InvalidSpecError
from podferry_agent.snapshot.manifest import (
    ManifestReader,
    ManifestWriter,
    Root,
    limited,
    load_root,
    needed_packs,
)
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
)
from podferry_agent.snapshot.packs import PackWriter, load_footer
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.reading import BATCH, BATCH_FILES, SMALL, FileReader
from podferry_agent.snapshot.rules import rules_for
from podferry_agent.snapshot.statestore import StateStore, StatFacts, proven_ctime
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
    with tree:
        return _Capture(spec, store, tree, Meter(progress, cancelled)).run()


class _Parent:
    """The snapshot before this one: its chunks, and which of its files are unchanged."""

    def __init__(self, spec: CaptureSpec, store: ObjectStore, state: StateStore) -> None:
        self.root: Root | None = None
        self.table = ChunkTable()
        self._entries: dict[bytes, tuple[Entry, int, int, int]] = {}
        if spec.parent is None:
            return
        self.root = load_root(store, spec.parent)
        if self.root.kind != spec.kind:
            raise InvalidSpecError(f"the parent {spec.parent} is of kind {self.root.kind}")
        reader = ManifestReader(store, self.root, state.pages)
        entries = list(reader.entries())
        self.table = reader.table
        facts = state.facts(spec.parent)
        pages = [page.name for page in self.root.pages]
        if facts and facts.pages == pages and len(facts.devs) == len(entries):
            rows = zip(entries, facts.devs, facts.inos, facts.ctimes, strict=True)
            self._entries = {e.path: (e, dev, ino, ctime) for e, dev, ino, ctime in rows if ctime}

    def unchanged(self, node: Node) -> Entry | None:
        found = self._entries.get(node.entry.path)
        if not found:
            return None
        old, dev, ino, ctime = found
        new = node.entry
        same = (dev, ino, ctime) == (node.dev, node.ino, node.ctime_ns)
        same = same and (old.mode, old.size, old.mtime_ns) == (new.mode, new.size, new.mtime_ns)
        return old if same and not (old.bits | new.bits) & BARE else None


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
        self._walker = Walker(
            self._tree, rules, self._spec.pod_prefix, with_sockets=self._spec.kind == "volume"
        )
        self._read_everything()
        self._nodes = list(_without_vanished(self._nodes))
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
            self._nodes.append(node)
            if node.nlink > 1 and not node.entry.is_directory:
                group = self._links.setdefault((node.dev, node.ino), [])
                group.append(node)
                if len(group) > 1:
                    continue
            if node.entry.is_regular and not node.known:
                self._queue(node)
        self._flush()
        self._meter.totals(self._seen_bytes, sum(n.entry.is_regular for n in self._nodes))

    def _visit(self, directory: Node, fd: int, nodes: list[Node]) -> None:
        """Everything that needs the open directory."""
        if not directory.known and not directory.entry.bits & BARE:
            describe_directory(directory, fd)
        for node in nodes:
            old = self._parent.unchanged(node)
            if old:
                old.link = b""
                node.entry, node.known = old, True
            elif not (node.entry.is_regular or node.entry.is_directory):
                try:
                    describe_special(self._tree, fd, node)
                except OSError as error:
                    self._walker.failed(node.entry.path, error)

    def _queue(self, node: Node) -> None:
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
                if group[0].entry.is_regular and not group[0].known:
                    self._reader.read_big(group[0], self._workers)
            if len(group) < 2:
                continue
            source = group[0]
            link = chunk_id(source.entry.path, self._spec.chunk_key)[:16]
            for node in group:
                _copy_content(source, node)
                node.entry.link = link

    def _publish(self) -> CaptureOutcome:
        spec = self._spec
        self._mark_unreadable_directories()
        entries = [node.entry for node in self._nodes]
        writer = ManifestWriter(spec.snapshot_id, self._store, self._parent.root, self._state.pages)
        writer.write(entries, self._table)
        summary = self._summary(entries, writer)
        root = writer.write_root(self._root(entries, writer, summary))
        self._remember(writer)
        return CaptureOutcome(spec.snapshot_id, root, summary)

    def _mark_unreadable_directories(self) -> None:
        unreadable = {path for path, _ in self._walker.report.unreadable}
        for node in self._nodes:
            if node.entry.path in unreadable:
                node.entry.bits |= UNREADABLE

    def _summary(self, entries: list[Entry], writer: ManifestWriter) -> Summary:
        unreadable = [*self._walker.report.unreadable, *self._reader.unreadable]
        texts = sorted(f"{display(p)}: {errno.errorcode.get(n, n)}" for p, n in unreadable)
        regular = [e for e in entries if e.is_regular]
        summary = Summary(
            files=len(regular),
            directories=sum(e.is_directory for e in entries),
            entries=len(entries),
            bytes=sum(e.size for e in regular),
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
            pages=writer.pages,
            packs=needed_packs(entries, self._table),
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
        facts = StatFacts(
            [page.name for page in writer.pages],
            [n.dev for n in self._nodes],
            [n.ino for n in self._nodes],
            [proven_ctime(n.ctime_ns, self._scan_start_ns) for n in self._nodes],
        )
        self._state.remember(self._spec.snapshot_id, facts, self._spec.parent)
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
