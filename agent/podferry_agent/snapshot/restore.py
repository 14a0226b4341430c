"""Restores a snapshot over a live tree: compare, stage, swap, verify."""

import errno
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.attributes import fetch_values
from podferry_agent.snapshot.branches import BranchFinder
from podferry_agent.snapshot.errors import (
    DiskFullError,
    RestoreMismatchError,
    SnapshotCorruptError,
)
from podferry_agent.snapshot.finish import finish_metadata, mend_directory_times
from podferry_agent.snapshot.job import Job
from podferry_agent.snapshot.live import LiveTree
from podferry_agent.snapshot.lost import Lost, read_what_is_whole
from podferry_agent.snapshot.manifest import ManifestReader, Root, load_root
from podferry_agent.snapshot.mapped import programs_with_deleted_files
from podferry_agent.snapshot.memory import for_big_buffers
from podferry_agent.snapshot.metadata import MetadataWriter
from podferry_agent.snapshot.model import (
    Entry,
    ObjectStore,
    Progress,
    RestoreOutcome,
    RestoreSpec,
    display,
)
from podferry_agent.snapshot.move import BranchNotMovedError
from podferry_agent.snapshot.plan import Planner, wanted
from podferry_agent.snapshot.progress import Meter
from podferry_agent.snapshot.recheck import Recheck
from podferry_agent.snapshot.rules import Rules, rules_for
from podferry_agent.snapshot.stage import StageDirectory
from podferry_agent.snapshot.staging import Source, Stager
from podferry_agent.snapshot.statestore import StateStore
from podferry_agent.snapshot.swap import Swap
from podferry_agent.snapshot.tree import Tree
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
        self._lost = Lost()
        self._written_bytes = 0
        self._deleted = 0

    def run(self) -> RestoreOutcome:
        self._state.note("restore", f"restoring {self._spec.snapshot_id}\n")
        self._meter.phase("prepare")
        root = self._root()
        reader = ManifestReader(self._store, root, self._state.pages)
        if self._spec.best_effort:
            entries = read_what_is_whole(reader, root, self._lost)
        else:
            entries = list(reader.entries())
        # A snapshot of nothing has its top directory; without it all that is here would be deleted.
        is_whole = len(entries) == root.counts["entries"] and entries and not entries[0].path
        if not is_whole and not self._lost.pages:
            raise SnapshotCorruptError("entries are missing from the pages", root.snapshot_id)
        rules = rules_for(self._spec, root.user_rules)
        want = wanted(self._spec, rules, entries)
        self._lost.files.update(fetch_values(want.values(), self._source(reader)))
        with Tree(self._spec.tree_root) as tree:
            self._until_equal(want, reader, rules, tree)
            if self._spec.kind == "environment" and self._spec.root == b"/":
                self._renew_library_cache(entries, tree)
        self._state.note("restore", f"done {self._spec.snapshot_id}\n")
        return self._outcome(entries)

    def _root(self) -> Root:
        root = load_root(self._store, self._spec.snapshot_id, self._spec.root_sha256)
        if root.kind != self._spec.kind:
            raise SnapshotCorruptError(
                f"it is a snapshot of kind {root.kind}, not {self._spec.kind}",
                f"{root.snapshot_id}/root",
            )
        return root

    def _until_equal(
        self, want: dict[bytes, Entry], reader: ManifestReader, rules: Rules, tree: Tree
    ) -> None:
        """A second round mends what another program changed meanwhile; more would not help."""
        wrong: list[bytes] = []
        has_branches = True
        attempts = 0
        while attempts < _ATTEMPTS:
            try:
                wrong = self._round(want, (reader, rules, tree), has_branches=has_branches)
                attempts += 1
                if not wrong:
                    return
            except BranchNotMovedError:
                if not has_branches:
                    raise
                has_branches = False  # name by name: whatever came there is replaced or kept
        raise RestoreMismatchError([display(path) for path in wrong])

    def _renew_library_cache(self, entries: list[Entry], tree: Tree) -> None:
        """The driver's libraries differ by machine; what ldconfig writes must leave no trace."""
        problem = self._hooks.ldconfig()
        if problem:
            self._warnings.add("ldconfig_failed", b"sbin/ldconfig", problem)
        mend_directory_times(tree, entries)

    def _round(
        self,
        want: dict[bytes, Entry],
        ground: tuple[ManifestReader, Rules, Tree],
        *,
        has_branches: bool,
    ) -> list[bytes]:
        """Paths that are wrong after one attempt."""
        reader, rules, tree = ground
        live = LiveTree(tree, rules, self._spec, want)
        planner = Planner(self._spec, tree, reader.table, self._meter)
        plan = planner.plan(want, live, self._warnings)
        stage = StageDirectory(self._spec)
        if has_branches:
            finder = BranchFinder(tree, live, stage.device)
            plan.branches = finder.find(plan.new_directories(live), want)
        metadata = MetadataWriter(self._warnings)
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
            self._stage(job, reader)
            self._swap(job)
        finally:
            stage.close()
        return self._verify(job, reader)

    def _source(self, reader: ManifestReader) -> Source:
        return Source(self._store, reader.table, self._spec.chunk_key, self._spec.best_effort)

    def _stage(self, job: Job, reader: ManifestReader) -> None:
        stager = Stager(job.stage, self._source(reader), job.metadata, self._meter)
        plan = job.plan
        self._lost.add_files(plan, stager.run(plan, self._hooks.step))
        self._written_bytes += stager.written_bytes
        if self._lost.files or self._lost.pages:
            plan.deletions = [path for path in plan.deletions if not self._lost.hides(path)]

    def _swap(self, job: Job) -> None:
        Swap(job, self._meter).run()
        job.stage.remove()
        finish_metadata(job)
        self._deleted += job.deleted
        posix.syncfs(job.tree.fd)

    def _verify(self, job: Job, reader: ManifestReader) -> list[bytes]:
        """Paths that are wrong though nothing was refused; the rest becomes warnings."""
        wrong = []
        for difference in Recheck(job, reader.table, self._meter).differences():
            if difference.kind in ("content", "missing", "type", "target"):
                wrong.append(difference.path)
            else:
                self._warnings.add("differs", difference.path, difference.kind)
        return wrong

    def _outcome(self, entries: list[Entry]) -> RestoreOutcome:
        regular = [entry for entry in entries if entry.is_regular]
        damaged = self._lost.damaged()
        count = sum(each.files for each in damaged)
        return RestoreOutcome(
            snapshot_id=self._spec.snapshot_id,
            files=len(regular) - len(self._lost.files),
            bytes=sum(entry.size for entry in regular if entry.path not in self._lost.files),
            written_bytes=self._written_bytes,
            deleted=self._deleted,
            warnings=self._warnings.texts(),
            needs_restart=programs_with_deleted_files() if self._spec.root == b"/" else [],
            duration_seconds=round(time.monotonic() - self._began, 3),
            damaged=damaged,
            status=f"damaged: {count} files" if damaged else "complete",
        )
