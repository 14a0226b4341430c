"""Lists every difference between a tree and a snapshot."""

import os
import stat
from collections.abc import Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from podferry_agent.snapshot.attributes import fetch_values
from podferry_agent.snapshot.chunks import ChunkTable
from podferry_agent.snapshot.compare import has_content, metadata_changes, same_type
from podferry_agent.snapshot.found import entry_of, found_entry, open_entry
from podferry_agent.snapshot.live import LiveTree
from podferry_agent.snapshot.manifest import ManifestReader, load_root
from podferry_agent.snapshot.model import (
    BARE,
    UNREADABLE,
    Difference,
    Entry,
    ObjectStore,
    RestoreSpec,
)
from podferry_agent.snapshot.plan import wanted
from podferry_agent.snapshot.rules import rules_for
from podferry_agent.snapshot.scanning import FileStatus
from podferry_agent.snapshot.staging import Source
from podferry_agent.snapshot.statestore import StateStore
from podferry_agent.snapshot.tree import Tree, split_path

Row = tuple[Entry, FileStatus | None]


def verify_tree(spec: RestoreSpec, store: ObjectStore) -> list[Difference]:
    """Differences between the live tree and the snapshot; every byte of every file is hashed."""
    root = load_root(store, spec.snapshot_id, spec.root_sha256)
    reader = ManifestReader(store, root, StateStore(spec.state_dir, spec.kind).pages)
    rules = rules_for(spec, root.user_rules)
    want = wanted(spec, rules, reader.entries())
    fetch_values(want.values(), Source(store, reader.table, spec.chunk_key))
    with Tree(spec.tree_root) as tree:
        live = LiveTree(tree, rules, spec, want)
        found = [
            Difference(path, "extra")
            for path in live.nodes
            if path not in want and path not in live.bare
        ]
        checker = Checker(tree, reader.table, spec.chunk_key, live.bare)
        found += checker.differences((entry, live.nodes.get(path)) for path, entry in want.items())
    found += link_differences(want, live.nodes)
    return sorted(found, key=lambda d: (d.path, d.kind))


class Checker:
    """Compares what is on the disk with entries: metadata, and every byte."""

    def __init__(
        self, tree: Tree, table: ChunkTable, key: bytes, bare: Container[bytes] = ()
    ) -> None:
        """`bare`: directories that only have to be there, besides those the snapshot says."""
        self._bare = bare
        self._tree = tree
        self._table = table
        self._key = key

    def differences(self, rows: Iterable[Row]) -> list[Difference]:
        """For entries and the status of what has their path, or None."""
        work = list(rows)
        batches = [work[i : i + 64] for i in range(0, len(work), 64)]
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1), "pf-verify") as pool:
            return [found for batch in pool.map(self._check_batch, batches) for found in batch]

    def _check_batch(self, batch: list[Row]) -> list[Difference]:
        return [difference for row in batch for difference in self._check(*row)]

    def _check(self, entry: Entry, status: FileStatus | None) -> Iterator[Difference]:
        if entry.bits & UNREADABLE:
            return  # nobody promised its content or metadata
        if status is None:
            yield Difference(entry.path, "missing")
            return
        if entry.bits & BARE or entry.path in self._bare:
            if not same_type(entry, status.st_mode):
                yield Difference(entry.path, "type")
            return
        found, has_right_bytes = self._look(entry, status)
        if not same_type(entry, found.mode):
            yield Difference(entry.path, "type", f"{found.mode:o} instead of {entry.mode:o}")
            return
        for kind in metadata_changes(entry, found):
            yield Difference(entry.path, kind)
        if not has_right_bytes:
            yield Difference(entry.path, "content")

    def _look(self, entry: Entry, status: FileStatus) -> tuple[Entry, bool]:
        """What is there, described as an entry, and whether it has the right bytes."""
        is_file = stat.S_ISREG(status.st_mode)
        try:
            if not is_file:
                return found_entry(self._tree, entry.path, status), True
            with self._tree.file(*split_path(entry.path)) as fd:
                found = open_entry(entry.path, fd, os.fstat(fd))
                if not entry.is_regular:  # the file stands for a device
                    return found, True
                return found, has_content(fd, entry, self._table, self._key, exact_holes=False)
        except OSError:
            return entry_of(entry.path, status), False


def link_differences(
    want: Mapping[bytes, Entry], found: Mapping[bytes, FileStatus]
) -> Iterator[Difference]:
    """Names of one inode in the snapshot are one inode here, and others are not."""
    inodes: dict[bytes, tuple[int, int]] = {}
    groups: dict[tuple[int, int], bytes] = {}
    for path, entry in want.items():
        status = found.get(path)
        if status is None or entry.is_directory or entry.bits & UNREADABLE:
            continue
        if not entry.link and status.st_nlink == 1:  # alone in both
            continue
        inode = (status.st_dev, status.st_ino)
        group = entry.link or path
        if inodes.setdefault(group, inode) != inode or groups.setdefault(inode, group) != group:
            yield Difference(path, "links")
