"""One run of a capture: walk, read what changed, store what is new, write pages, then the root."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from podferry_agent.snapshot.chunks import Pack, chunk_id
from podferry_agent.snapshot.databases import BESIDE
from podferry_agent.snapshot.describe import describe_directory, describe_special
from podferry_agent.snapshot.errors import SnapshotError
from podferry_agent.snapshot.livefiles import LiveFiles
from podferry_agent.snapshot.livetools import LiveTools
from podferry_agent.snapshot.model import (
    BARE,
    UNREADABLE,
    VANISHED,
    CaptureOutcome,
    CaptureSpec,
    Entry,
    ObjectStore,
    sort_key,
)
from podferry_agent.snapshot.openfiles import mapped_for_writing
from podferry_agent.snapshot.pace import Pace
from podferry_agent.snapshot.packs import PackWriter, load_footer
from podferry_agent.snapshot.pausing import Pauser, resume_left_paused
from podferry_agent.snapshot.plain import BATCH
from podferry_agent.snapshot.previous import Parent
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.proof import prover
from podferry_agent.snapshot.publish import Cut, Findings, Publisher
from podferry_agent.snapshot.reading import BATCH_FILES, SMALL, Chunking, FileReader
from podferry_agent.snapshot.restcopies import RestCopier
from podferry_agent.snapshot.rules import rules_for
from podferry_agent.snapshot.statestore import StateStore
from podferry_agent.snapshot.tree import Tree
from podferry_agent.snapshot.walk import Node, Walker
from podferry_agent.snapshot.watch import LiveWatch

_READERS, _NICE_READERS = 8, 2


class CaptureRun:
    """A run that takes all the time it needs; `HurriedRun` is the other kind."""

    def __init__(
        self, spec: CaptureSpec, store: ObjectStore, tree: Tree, meter: Meter, pace: Pace
    ) -> None:
        self._began = time.monotonic()
        self._scan_start_ns = time.time_ns()
        self._spec = spec
        self._store = store
        self._tree = tree
        self._meter = meter
        self._pace = pace
        self._span = pace.span
        self._cut = Cut()
        self._state = StateStore(spec.state_dir, spec.kind)
        self._pauser = Pauser(self._state.directory, allowed=spec.live and spec.pauses)
        self._watch = LiveWatch(tree.root, mapped_for_writing()) if spec.live else None
        self._warnings: list[str] = []
        self._copies: set[bytes] = set()
        self._nodes: list[Node] = []
        self._links: dict[tuple[int, int], list[Node]] = {}
        self._running: list[Future[list[Node]] | Future[None]] = []
        self._batch: list[Node] = []
        self._batch_bytes = 0
        self._seen_bytes = 0

    def run(self) -> CaptureOutcome:
        self._meter.phase("prepare")
        resume_left_paused(self._state.directory)
        self._parent = Parent(self._spec, self._store, self._state)
        self._table = self._parent.table
        self._learn_confirmed()
        rules = rules_for(self._spec)
        self._rules = rules.fingerprint()
        self._known = self._parent.listings(rules)
        self._doubt_what_is_known()
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
        return self._publisher().publish()

    def _doubt_what_is_known(self) -> None:
        """Have names looked at again whose times do not tell all."""
        if self._known is None:
            return
        if self._watch:
            doubted = [self._watch.relative(path) for path in self._watch.mapped.paths]
        else:
            # Not live: every byte of the file itself, and of what is beside it.
            doubted = [path + suffix for path in self._parent.copies for suffix in (b"", *BESIDE)]
        for path in doubted:
            if path:
                self._known.forget(path)

    def _learn_confirmed(self) -> None:
        """Reuse the packs of an earlier, killed run of this very snapshot, and only of this."""
        snapshot_id = self._spec.snapshot_id
        self._state.forget_packs(other_than=snapshot_id)
        for sha256, size, footer in self._state.confirmed_packs(snapshot_id):
            try:
                load_footer(Pack(snapshot_id, sha256, size), footer, self._table)
            except SnapshotError:
                continue  # the note was cut short by a power cut: the pack is stored again

    def _confirmed(self, pack: Pack, footer: bytes) -> None:
        self._state.confirm_pack(pack.snapshot_id, pack.sha256, pack.size, footer)

    def _read_everything(self) -> None:
        spec, is_fast = self._spec, self._pace.share is None
        threads = min(_READERS if is_fast else _NICE_READERS, os.cpu_count() or 1)
        self._writer = PackWriter(
            spec.snapshot_id,
            self._store,
            self._table,
            self._confirmed,
            self._span,
            prover(spec.chunk_key) if spec.paranoid else None,
        )
        chunking = Chunking(self._table, self._writer, spec.chunk_key)
        self._reader = FileReader(self._tree, chunking, self._meter, self._pace, self._watch)
        self._meter.phase("read")
        workers = ThreadPoolExecutor(threads, "pf-read")
        leaders = ThreadPoolExecutor(2, "pf-big")
        try:
            self._workers, self._leaders = workers, leaders
            self._read_all()
        finally:
            leaders.shutdown(wait=True, cancel_futures=True)
            workers.shutdown(wait=True, cancel_futures=True)
            # What is still on its way then is not waited for: nothing refers to it.
            self._writer.close(wait=not self._span.is_over)
        self._meter.finish()

    def _read_all(self) -> None:
        self._scan()
        self._collect()
        self._settle_live_files()
        self._finish_links()
        self._writer.finish()

    def _settle_live_files(self) -> None:
        if self._watch is None:
            return
        self._copies = self._parent.copies
        live = LiveFiles(self._live_tools(self._watch))
        databases = live.databases
        try:
            live.settle([node for node in self._nodes if node.entry.is_regular])
        finally:
            self._nodes += databases.added
            self._copies = (self._copies | databases.copies) - databases.others

    def _live_tools(self, watch: LiveWatch) -> LiveTools:
        return LiveTools(
            self._tree,
            self._reader,
            watch,
            self._parent,
            self._walker.report,
            RestCopier(self._pauser),
            self._pace,
            self._workers,
            self._state.directory / "copies",
            self._warnings,
        )

    def _scan(self) -> None:
        for node in self._reader.turns.each(self._walker.walk(self._visit)):
            if not node.known:
                self._take(node)
        self._add_partners()
        self._flush()
        self._meter.totals(self._seen_bytes, sum(n.entry.is_regular for n in self._nodes))

    def _take(self, node: Node) -> None:
        self._nodes.append(node)
        if node.nlink > 1 and not node.entry.is_directory:
            group = self._links.setdefault(node.inode, [])
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
        self._pace.breathe()
        if not directory.known and not directory.entry.bits & BARE:
            describe_directory(directory, fd)
            self._keep_large_attributes(directory.entry)
        for node in nodes:
            if node.known or node.entry.is_regular or node.entry.is_directory:
                continue
            try:
                describe_special(self._tree, fd, node)
                self._keep_large_attributes(node.entry)
            except OSError as error:
                self._walker.failed(node.entry.path, error)

    def _keep_large_attributes(self, entry: Entry) -> None:
        if entry.xattrs:
            self._parent.learn_chunks()
            self._reader.keep_large_attributes(entry)

    def _queue(self, node: Node) -> None:
        self._parent.learn_chunks()
        if self._watch and self._watch.takes(node):
            return
        self._submit(node)

    def _submit(self, node: Node) -> None:
        """Have a file read: by itself, or with others in a batch."""
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
        """Wait for the readers."""
        while self._running:
            waiting, self._running = self._running, []
            for future in waiting:
                self._read_postponed(future)

    def _read_postponed(self, done: Future[list[Node]] | Future[None]) -> None:
        """Files that grew or are sparse go to the readers of big files."""
        for node in done.result() or ():
            self._running.append(self._leaders.submit(self._reader.read_big, node, self._workers))

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
        self._nodes += [node for node, was_known in report.partial if was_known]
        unreadable = {path for path, _ in report.unreadable}
        # What is in such a directory is not known in full: a restore deletes nothing there.
        unreadable.update(node.entry.path for node, _ in report.partial)
        for node in self._nodes:
            if node.entry.path in unreadable:
                node.entry.bits |= UNREADABLE
                node.is_doubtful = True
        self._nodes.sort(key=lambda node: sort_key(node.entry.path))
        gone = [node.entry.path for node in self._nodes if node.entry.bits & VANISHED]
        report.removed += gone
        self._nodes = list(_without_vanished(self._nodes))

    def _publisher(self) -> Publisher:
        return Publisher(
            spec=self._spec,
            store=self._store,
            state=self._state,
            parent=self._parent,
            pace=self._pace.without_limit(),
            table=self._table,
            nodes=self._nodes,
            report=self._walker.report,
            reader=self._reader,
            stored=self._writer,
            pauser=self._pauser,
            warnings=self._warnings,
            found=Findings(
                self._rules, self._known, self._links, self._copies, self._scan_start_ns
            ),
            began=self._began,
            cut=self._cut,
        )


def _copy_content(source: Node, node: Node) -> None:
    path = node.entry.path
    if node is not source:
        fields = {name: getattr(source.entry, name) for name in Entry.__slots__}
        node.entry = Entry(**{**fields, "path": path})
    node.row, node.is_doubtful = source.row, source.is_doubtful


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
