"""Walks and hashes a live tree, and lists every difference to a snapshot."""

import os
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor

from podferry_agent.snapshot.chunks import ChunkTable
from podferry_agent.snapshot.compare import has_content, metadata_changes, same_type
from podferry_agent.snapshot.describe import describe_file
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
from podferry_agent.snapshot.rules import Rules, Verdict, rules_for
from podferry_agent.snapshot.statestore import StateStore
from podferry_agent.snapshot.tree import Tree, split_path
from podferry_agent.snapshot.walk import Node


def verify_tree(spec: RestoreSpec, store: ObjectStore) -> list[Difference]:
    """Differences between the live tree and the snapshot; every byte of every file is hashed."""
    root = load_root(store, spec.snapshot_id, spec.root_sha256)
    reader = ManifestReader(store, root, StateStore(spec.state_dir, spec.kind).pages)
    rules = rules_for(spec, root.user_rules)
    want = {e.path: e for e in reader.entries() if _is_ours(spec, rules, e)}
    with Tree(spec.tree_root) as tree:
        live = LiveTree(tree, rules, spec)
        return TreeVerifier(tree, reader.table, spec.chunk_key).differences(want, live, want)


def _is_ours(spec: RestoreSpec, rules: Rules, entry: Entry) -> bool:
    if not entry.path:
        return True
    absolute = spec.pod_prefix + b"/" + entry.path
    return rules.judge(absolute, directory=entry.is_directory) is not Verdict.MACHINE


def _is_not_proven(_: Entry, __: Node) -> bool:
    return False


class TreeVerifier:
    """Compares a described live tree with entries."""

    def __init__(self, tree: Tree, table: ChunkTable, key: bytes) -> None:
        self._tree = tree
        self._table = table
        self._key = key

    def differences(
        self,
        want: dict[bytes, Entry],
        live: LiveTree,
        to_hash: Container[bytes],
        is_proven: Callable[[Entry, Node], bool] = _is_not_proven,
    ) -> list[Difference]:
        """All differences; contents are compared for the paths in `to_hash`.

        Files of which `is_proven` says that they are right by what the walk saw are not opened.
        """
        found = [
            Difference(path, "extra")
            for path, node in live.nodes.items()
            if path not in want and not node.entry.bits & BARE
        ]
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1), "pf-verify") as pool:
            rows = ((entry, live.nodes.get(path)) for path, entry in want.items())
            work = [
                (entry, node, entry.path in to_hash)
                for entry, node in rows
                if node is None or not node.entry.is_regular or not is_proven(entry, node)
            ]
            batches = [work[i : i + 64] for i in range(0, len(work), 64)]
            for batch in pool.map(self._check_batch, batches):
                found += batch
        found += _link_differences(want, live)
        return sorted(found, key=lambda d: (d.path, d.kind))

    def _check_batch(self, batch: list[tuple[Entry, Node | None, bool]]) -> list[Difference]:
        return [d for entry, node, is_hashed in batch for d in self._check(entry, node, is_hashed)]

    def _check(self, entry: Entry, node: Node | None, is_hashed: bool) -> Iterator[Difference]:  # noqa: FBT001 (only from the line above)
        if node is None or (entry.bits | node.entry.bits) & (UNREADABLE | BARE):
            yield from _check_presence(entry, node)
            return
        has_right_bytes = True
        if node.entry.is_regular:
            has_right_bytes = self._check_file(entry, node, is_hashed=is_hashed)
        if not same_type(entry, node.entry):
            yield Difference(entry.path, "type", f"{node.entry.mode:o} instead of {entry.mode:o}")
            return
        for kind in metadata_changes(entry, node.entry):
            yield Difference(entry.path, kind)
        if not has_right_bytes:
            yield Difference(entry.path, "content")

    def _check_file(self, entry: Entry, node: Node, *, is_hashed: bool) -> bool:
        """Describes the live file, which may stand for a device; whether its bytes are right."""
        directory, name = split_path(entry.path)
        try:
            with self._tree.directory(directory) as parent:
                fd = self._tree.open_file(parent, name)
        except OSError:
            return False
        try:
            describe_file(node, fd, os.fstat(fd))
            if not entry.is_regular:
                return True
            if not is_hashed or node.entry.size != entry.size:
                return node.entry.size == entry.size
            return has_content(fd, entry, self._table, self._key, exact_holes=False)
        except OSError:
            return False
        finally:
            os.close(fd)


def _check_presence(entry: Entry, node: Node | None) -> Iterator[Difference]:
    """For names that are missing, or whose content and metadata nobody promised."""
    if entry.bits & UNREADABLE:
        return
    if node is None:
        yield Difference(entry.path, "missing")
    elif not same_type(entry, node.entry):
        yield Difference(entry.path, "type")


def _link_differences(want: dict[bytes, Entry], live: LiveTree) -> Iterator[Difference]:
    """Names of one inode in the snapshot are one inode here, and others are not."""
    inodes: dict[bytes, tuple[int, int]] = {}
    groups: dict[tuple[int, int], bytes] = {}
    for path, entry in want.items():
        node = live.nodes.get(path)
        if node is None or entry.is_directory or entry.bits & UNREADABLE:
            continue
        if not entry.link and node.nlink == 1:  # alone in both
            continue
        inode = (node.dev, node.ino)
        group = entry.link or path
        if inodes.setdefault(group, inode) != inode or groups.setdefault(inode, group) != group:
            yield Difference(path, "links")
