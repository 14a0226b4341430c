"""A run of a capture on a machine that is about to go: the newest files first, as many as fit.

What could not be read or uploaded in time keeps the content that the parent has of it. A file that
the parent does not have is left out: a new file is in the snapshot whole, or it is not.
"""

import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from typing import Any

from podferry_agent.snapshot.capturerun import CaptureRun
from podferry_agent.snapshot.errors import OutOfTimeError
from podferry_agent.snapshot.livefiles import LiveFiles
from podferry_agent.snapshot.reading import SMALL
from podferry_agent.snapshot.unreached import Unreached, differs_from
from podferry_agent.snapshot.walk import Node
from podferry_agent.snapshot.watch import LiveWatch

_IN_WORK = 3  # files and batches at once: what is begun stands in the way of what comes next
_LOOK = 0.1
_WALK_SHARE = 0.5
_READ_SHARE = 0.75  # if databases or mapped files wait for the second pass
_GUESS = 64 << 20  # bytes for each second, until it is seen how fast it goes
_SEEN = 4 << 20


class HurriedRun(CaptureRun):
    """One that has to be over before the machine is."""

    @property
    def _live_watch(self) -> LiveWatch:
        if self._watch is None:
            raise AssertionError("only live captures are hurried")
        return self._watch

    def _scan(self) -> None:
        """Find what has changed.

        A walk that takes too long ends early, if the parent's pages can stand for the rest.
        """
        self._pending: list[Node] = []
        self._live_watch.is_hurried = True
        self._parent.learn_chunks()
        for node in self._walker.walk(self._visit):
            if not node.known:
                self._take(node)
            if self._known and self._span.has_used(_WALK_SHARE):
                self._cut.is_walk_cut = True
                break
        self._add_partners()
        self._meter.totals(sum(n.entry.size for n in self._pending), len(self._pending))

    def _queue(self, node: Node) -> None:
        if not self._live_watch.takes(node):
            self._pending.append(node)

    def _read_all(self) -> None:
        self._scan()
        self._cut.is_partial = self._cut.is_walk_cut
        try:
            self._read_newest_first()
            self._settle_live_files()
            self._finish_links()
            self._writer.finish()
        except OutOfTimeError:
            self._cut.is_cut = True
        if self._cut.is_cut:
            self._seal()

    def _read_newest_first(self) -> None:
        late: list[Node] = []
        for node in self._in_order():
            if not self._has_time_for_more():
                self._cut.is_cut, late = True, []
                break
            is_big = node.entry.size > SMALL
            if is_big and node.entry.size > self._fitting():
                late.append(node)
                continue
            if is_big:
                self._flush()  # the smaller ones before it are newer
            self._submit(node)
            self._wait_for_room()
        self._flush()
        self._collect()
        for node in sorted(late, key=lambda node: node.entry.size):
            self._submit(node)
            self._collect()

    def _in_order(self) -> list[Node]:
        """The newest first; behind all others what is as old and as large as in the parent."""
        parent = None if self._known else self._parent
        changed: list[Node] = []
        same: list[Node] = []
        for node in self._pending:
            is_changed = parent is None or differs_from(parent.entry(node.entry.path), node)
            (changed if is_changed else same).append(node)
        return [*_newest_first(changed), *_newest_first(same)]

    def _has_time_for_more(self) -> bool:
        watch = self._live_watch
        waits = watch.databases or watch.mapped_nodes or watch.beside_databases
        return not (waits and self._span.has_used(_READ_SHARE))

    def _fitting(self) -> float:
        """The bytes that the time is enough for.

        A file that cannot be stored whole must not take the time of those that can.
        """
        stored, took = self._reader.new_bytes, time.monotonic() - self._began
        speed = stored / took if stored > _SEEN else _GUESS
        return speed * self._span.seconds_to_read()

    def _wait_for_room(self) -> None:
        while len(self._running) >= _IN_WORK:
            self._span.check_reading()
            running: list[Future[Any]] = [*self._running]
            done = wait(running, _LOOK, FIRST_COMPLETED).done
            self._running = [future for future in running if future not in done]
            for future in done:
                self._read_postponed(future)

    def _seal(self) -> None:
        """Wait for what is on its way, then make do with what is stored."""
        self._leaders.shutdown(wait=True, cancel_futures=True)
        self._workers.shutdown(wait=True, cancel_futures=True)
        with suppress(OutOfTimeError):
            self._writer.finish()
        LiveFiles(self._live_tools(self._live_watch)).keep_rewritten()
        unreached = Unreached(self._parent, self._table, self._writer, self._live_watch)
        unreached.settle(self._nodes, self._links, self._walker.report)
        if unreached.is_partial and not unreached.has_new:
            raise OutOfTimeError("the machine goes; nothing new could be stored in time")
        self._finish_links()
        self._cut.unreached, self._cut.paths = unreached.texts(), unreached.paths
        self._cut.is_partial = unreached.is_partial or self._cut.is_walk_cut
        self._span.note_cut()


def _newest_first(nodes: list[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: node.entry.mtime_ns, reverse=True)
