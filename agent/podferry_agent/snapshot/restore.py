"""Restores a snapshot over a live tree: compare, stage, swap, verify."""

import errno
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.errors import (
    DiskFullError,
    RestoreMismatchError,
    SnapshotCorruptError,
)
from podferry_agent.snapshot.finish import finish_metadata, mend_directory_times
from podferry_agent.snapshot.job import Job
from podferry_agent.snapshot.live import LiveTree
from podferry_agent.snapshot.manifest import ManifestReader, Root, load_root
from podferry_agent.snapshot.mapped import programs_with_deleted_files
from podferry_agent.snapshot.memory import for_big_buffers
from podferry_agent.snapshot.metadata import MetadataWriter
from podferry_agent.snapshot.model import (
    Difference,
    Entry,
    ObjectStore,
    Progress,
    RestoreOutcome,
    RestoreSpec,
    display,
)
from podferry_agent.snapshot.plan import Action, Planner
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.rules import rules_for
from podferry_agent.snapshot.stage import StageDirectory, Stager
from podferry_agent.snapshot.statestore import StateStore
from podferry_agent.snapshot.swap import Swap
from podferry_agent.snapshot.tree import Tree
from podferry_agent.snapshot.verify import TreeVerifier
from podferry_agent.snapshot.walk import Node
from podferry_agent.snapshot.warning import Warnings

_ATTEMPTS = 2
_LDCONFIG = Path("/sbin/ldconfig")
_LDCONFIG_SECONDS = 60


def _no_step(_: str) -> None:
    """Nothing to do after a step."""


def run_ldconfig() -> str | None:
    """The box's own ldconfig: the captured cache does not know this machine's driver."""
    if not _LDCONFIG.exists():
        return None  # a box without glibc has no cache to renew
    try:
        done = subprocess.run(
            [_LDCONFIG],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LDCONFIG_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.decode(errors="replace")[:500]


def _is_proven(job: Job, entry: Entry, node: Node) -> bool:
    """Whether a file is right by what `lstat` says after the swap, without opening it again.

    What was kept has the ctime it had when it was hashed. What was staged was checked chunk by
    chunk before it was written, and got the snapshot's mtime last: who writes to it changes that.
    """
    action = job.plan.actions[entry.path]
    before = job.live.nodes.get(entry.path)
    if action is Action.KEEP and before is not None:
        return (before.dev, before.ino, before.ctime_ns) == (node.dev, node.ino, node.ctime_ns)
    found = node.entry
    return action is Action.MAKE and (
        (found.mode, found.uid, found.gid, found.size, found.mtime_ns)
        == (entry.mode, entry.uid, entry.gid, entry.size, entry.mtime_ns)
    )


@dataclass(frozen=True)
class RestoreHooks:
    """What a test replaces: `step` is called after each change, `ldconfig` after the swap."""

    step: Callable[[str], None] = _no_step
    ldconfig: Callable[[], str | None] = run_ldconfig


def restore(
    spec: RestoreSpec,
    store: ObjectStore,
    progress: Callable[[Progress], None],
    cancelled: threading.Event,
    hooks: RestoreHooks = RestoreHooks(),
) -> RestoreOutcome:
    """Make the live tree equal to the snapshot, apart from what belongs to the machine.

    Until everything that differs has been staged and checked, the tree is not touched; after
    that only renames follow. A run that was killed is simply run again. Raises a `SnapshotError`.
    """
    try:
        with for_big_buffers():
            return _Restore(spec, store, Meter(progress, cancelled), hooks).run()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(f"the disk is full: {error}") from error
        raise


class _Restore:
    def __init__(
        self, spec: RestoreSpec, store: ObjectStore, meter: Meter, hooks: RestoreHooks
    ) -> None:
        self._began = time.monotonic()
        self._spec = spec
        self._store = store
        self._meter = meter
        self._hooks = hooks
        self._warnings = Warnings()
        self._state = StateStore(spec.state_dir, spec.kind)
        self._written_bytes = 0
        self._deleted = 0

    def run(self) -> RestoreOutcome:
        self._state.note("restore", f"restoring {self._spec.snapshot_id}\n")
        self._meter.phase("prepare")
        root = load_root(self._store, self._spec.snapshot_id, self._spec.root_sha256)
        if root.kind != self._spec.kind:
            raise SnapshotCorruptError(
                f"it is a snapshot of kind {root.kind}, not {self._spec.kind}",
                f"{root.snapshot_id}/root",
            )
        reader = ManifestReader(self._store, root, self._state.pages)
        entries = list(reader.entries())
        if len(entries) != root.counts["entries"]:
            raise SnapshotCorruptError("entries are missing from the pages", root.snapshot_id)
        with Tree(self._spec.tree_root) as tree:
            self._until_equal(root, reader, entries, tree)
        return self._outcome(entries)

    def _until_equal(
        self, root: Root, reader: ManifestReader, entries: list[Entry], tree: Tree
    ) -> None:
        """A second round mends what another program changed meanwhile; more would not help."""
        for _ in range(_ATTEMPTS):
            wrong = self._round(root, reader, entries, tree)
            if not wrong:
                break
        else:
            raise RestoreMismatchError([display(path) for path in wrong])
        if self._spec.kind == "environment" and self._spec.root == b"/":
            self._renew_library_cache(entries, tree)
        self._state.note("restore", f"done {self._spec.snapshot_id}\n")

    def _renew_library_cache(self, entries: list[Entry], tree: Tree) -> None:
        """The driver's libraries differ by machine; what ldconfig writes must leave no trace."""
        problem = self._hooks.ldconfig()
        if problem:
            self._warnings.add("ldconfig_failed", b"sbin/ldconfig", problem)
        mend_directory_times(tree, entries)

    def _round(
        self, root: Root, reader: ManifestReader, entries: list[Entry], tree: Tree
    ) -> list[bytes]:
        rules = rules_for(self._spec, root.user_rules)
        live = LiveTree(tree, rules, self._spec)
        planner = Planner(self._spec, tree, rules, reader.table, self._meter)
        plan = planner.plan(entries, live, self._warnings)
        stage = StageDirectory(self._spec)
        metadata = MetadataWriter(tree, self._warnings)
        job = Job(
            self._spec,
            tree,
            rules,
            plan,
            live,
            stage,
            metadata,
            self._warnings,
            self._hooks.step,
        )
        try:
            stager = Stager(stage, self._store, reader.table, self._spec.chunk_key, metadata)
            stager.run(plan.staged(), self._meter, self._hooks.step)
            self._written_bytes += stager.written_bytes
            self._swap(job)
        finally:
            stage.close()
        return self._verify(job, reader)

    def _swap(self, job: Job) -> None:
        self._meter.phase("swap", files=len(job.plan.want))
        self._meter.commit()
        Swap(job).run()
        job.stage.remove()
        finish_metadata(job)
        self._deleted += job.deleted
        posix.syncfs(job.tree.fd)

    def _verify(self, job: Job, reader: ManifestReader) -> list[bytes]:
        """Paths that are wrong though nothing was refused; the rest becomes warnings."""
        self._meter.phase("verify", files=len(job.plan.want))
        plan = job.plan
        swapped = {p for p, action in plan.actions.items() if action is Action.MAKE}
        live = LiveTree(job.tree, job.rules, self._spec, job.live)
        verifier = TreeVerifier(job.tree, reader.table, self._spec.chunk_key)
        wrong = []
        is_proven = partial(_is_proven, job)
        for difference in verifier.differences(plan.want, live, swapped, is_proven):
            if self._is_explained(job, difference):
                continue
            if difference.kind in ("content", "missing", "type", "target"):
                wrong.append(difference.path)
            else:
                self._warnings.add("differs", difference.path, difference.kind)
        return wrong

    def _is_explained(self, job: Job, difference: Difference) -> bool:
        path = difference.path
        if any(path == k or path.startswith(k + b"/") for k in job.kept_directories):
            return True
        if difference.kind == "extra" and path not in job.plan.deletions:
            return True
        kinds = self._warnings.paths.get(path, set())
        return bool(kinds & {f"{difference.kind}_not_applied", "not_replaced", "not_deleted"})

    def _outcome(self, entries: list[Entry]) -> RestoreOutcome:
        regular = [entry for entry in entries if entry.is_regular]
        return RestoreOutcome(
            snapshot_id=self._spec.snapshot_id,
            files=len(regular),
            bytes=sum(entry.size for entry in regular),
            written_bytes=self._written_bytes,
            deleted=self._deleted,
            warnings=self._warnings.texts(),
            needs_restart=programs_with_deleted_files() if self._spec.root == b"/" else [],
            duration_seconds=round(time.monotonic() - self._began, 3),
        )
