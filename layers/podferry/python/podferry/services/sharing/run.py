"""The steps of sharing: scan and seal for the owner, copy for who accepts. In runs that fit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from podferry.domain.errors import (
    OperationCancelledError,
    SnapshotCorruptError,
    WrongStateError,
)
from podferry.domain.operation import Operation, OperationKind, OperationState
from podferry.domain.share import (
    MOST_NAMED,
    Decision,
    Finding,
    Receipt,
    Share,
    ShareState,
    check_move,
    finding_id,
)
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.domain.version import freeze
from podferry.domain.volume import Environment
from podferry.ports.objects import SnapshotObjects
from podferry.ports.store import Change, Check, Create, Update
from podferry.services.environments.rows import changes_of
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.sharing.copying import PageCopier, write_root
from podferry.services.sharing.derived import Totals, add_page, travelling
from podferry.services.sharing.examine import hits_of, shown
from podferry.services.sharing.guard import LeakGuard
from podferry.services.sharing.rows import chunk_key, source_of
from podferry.services.sharing.tree import AccountObjects, SnapshotPage, StoredTree
from podferry.services.verification import Cursor, VerifySnapshot
from podferry_agent.snapshot.errors import SnapshotError as EngineError

RUN_BYTES = 3 << 30
"""Contents of one run: at 20 MB/s, which the scan of small texts does, 2.5 of its 15 minutes."""
RUN_PAGES = 60
"""A copy keeps the entries of its run in memory, at most 8,192 of each page."""
MOST_FINDINGS = 500
State = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunShare:
    """One run of either kind of operation. Each may be repeated at any point."""

    records: Records
    operations: Operations
    objects: SnapshotObjects
    verify: VerifySnapshot

    def run(self, operation_id: str, state: State | None) -> State:
        """`{"is_done": False, "cursor": ...}` asks for another run.

        Raises:
            SnapshotMissingError, SnapshotCorruptError: the source, or the copy, is damaged.
            WrongStateError: too many findings, or the owner deleted the source.
            OperationCancelledError: also if the share was revoked.
        """
        operation = self.operations.load(operation_id)
        if operation.state == OperationState.SUCCEEDED:
            return _done()
        self.operations.check_wanted(operation)
        share = self.records.store.get(Share, operation.share_id or "")
        if share.state == ShareState.REVOKED:
            raise OperationCancelledError(f"share {share.id} was revoked")
        try:
            if operation.kind == OperationKind.ACCEPT:
                return Copying(self, operation, share).run(state or {})
            return Sealing(self, operation, share).run(state or {})
        except EngineError as error:
            raise SnapshotCorruptError(str(error)) from error

    def tree(self, share: Share) -> StoredTree:
        """What is shared, readable with its owner's key."""
        source = source_of(self.records, share)
        return StoredTree(self.objects, source, chunk_key(self.records, share.account_id))

    def findings(self, share: Share) -> list[Finding]:
        return list(self.records.all_owned(Finding, share.id))

    def excluded(self, share: Share) -> frozenset[str]:
        """Paths that the owner excluded, besides the list."""
        found = self.findings(share)
        return frozenset(one.path for one in found if one.decision == Decision.EXCLUDE)


def pages_of_run(tree: StoredTree, start: int) -> Iterator[tuple[int, SnapshotPage]]:
    """Pages from `start` on, as many as one run may work on; one at least."""
    size = 0
    for number in range(start, len(tree.root.pages)):
        size += tree.root.pages[number].bytes
        if number > start and (size > RUN_BYTES or number >= start + RUN_PAGES):
            return
        yield number, tree.page(number)


@dataclass(frozen=True, slots=True)
class Sealing:
    """For the owner: scan all that would leave; with everything decided, write the receipt."""

    base: RunShare
    operation: Operation
    share: Share

    def run(self, state: State) -> State:
        if self.share.state == ShareState.SCANNING:
            return self._scan(int(state.get("page", 0)))
        if self.share.state == ShareState.SEALING:
            return self._seal(state)
        if self.share.state in {ShareState.NEEDS_DECISION, ShareState.SHARED}:
            return _done()
        raise WrongStateError(f"share {self.share.id} is {self.share.state}")

    def _scan(self, start: int) -> State:
        tree, guard, last = self.base.tree(self.share), LeakGuard(), start
        for number, page in pages_of_run(tree, start):
            self._scan_page(page, guard)
            last = number + 1
        if last < len(tree.root.pages):
            return _more({"page": last})
        return self._scanned()

    def _scan_page(self, page: SnapshotPage, guard: LeakGuard) -> None:
        for entry in page.entries:
            if guard.reason(entry) is not None:
                continue
            hits = hits_of(page, entry)
            if hits:
                path = shown(entry)
                finding = Finding(
                    id=finding_id(self.share.id, path),
                    account_id=self.share.account_id,
                    created_at=self.base.records.now(),
                    share_id=self.share.id,
                    path=path,
                    size=entry.size,
                    hits=tuple(hits),
                )
                self.base.records.apply(partial(self._new, finding))

    def _new(self, finding: Finding) -> Sequence[Change]:
        known = self.base.records.store.find(Finding, finding.id)
        return [Create(finding)] if known is None else []

    def _scanned(self) -> State:
        found = len(self.base.findings(self.share))
        if found > MOST_FINDINGS:
            raise WrongStateError(
                f"{found} files look as if they held secrets, more than the {MOST_FINDINGS} that "
                "can be decided one by one; clean up the environment, keep it and share that"
            )
        to = ShareState.NEEDS_DECISION if found else ShareState.SEALING
        self._move(to, findings=found, undecided=found)
        return _done() if found else _more({})

    def _seal(self, state: State) -> State:
        tree = self.base.tree(self.share)
        guard = LeakGuard(self.base.excluded(self.share))
        totals, last = Totals.of(state.get("totals")), int(state.get("page", 0))
        for number, page in pages_of_run(tree, last):
            add_page(totals, list(travelling(page.entries, guard, totals)), page.table)
            last = number + 1
        if last < len(tree.root.pages):
            return _more({"page": last, "totals": totals.as_state()})
        self._move(ShareState.SHARED, receipt=self._receipt(totals))
        return _done()

    def _receipt(self, totals: Totals) -> Receipt:
        found = self.base.findings(self.share)
        accepted = [one.path for one in found if one.decision == Decision.ACCEPT]
        return Receipt(
            sealed_at=self.base.records.now(),
            entries=totals.entries,
            files=totals.files,
            bytes=totals.bytes,
            excluded=totals.excluded,
            excluded_bytes=totals.excluded_bytes,
            accepted=tuple(accepted[:MOST_NAMED]),
            accepted_files=len(accepted),
            manifest_sha256=totals.chain,
        )

    def _move(self, to: ShareState, **changes: Any) -> None:
        """The share and, unless another phase follows, the end of its operation."""

        def plan() -> Sequence[Change]:
            share = self.base.records.store.get(Share, self.share.id)
            if share.state == to:
                return []
            check_move(share, to)
            moved = Update(replace(share, state=to, **changes))
            told = self.base.operations.told(
                self.operation, f"environment.share_{to}", share_id=share.id, version=share.version
            )
            ends = [] if to == ShareState.SEALING else [self._ended(to, changes)]
            return [moved, *ends, *told]

        self.base.records.apply(plan)

    def _ended(self, to: ShareState, changes: dict[str, Any]) -> Change:
        operation = self.base.operations.load(self.operation.id)
        self.base.operations.check_wanted(operation)
        result = {"share_id": self.share.id, "state": to, "findings": changes.get("findings", 0)}
        done = self.base.operations.with_milestone(operation, to)
        return Update(self.base.operations.ended(done, OperationState.SUCCEEDED, result=result))


@dataclass(frozen=True, slots=True)
class Copying:
    """For who accepts: copy page by page, write the root, verify, make it version 1."""

    base: RunShare
    operation: Operation
    share: Share

    def run(self, state: State) -> State:
        if state.get("is_copied"):
            return self._verify(state)
        return self._copy(state)

    @property
    def _target(self) -> Snapshot:
        return self.base.records.store.get(Snapshot, self.operation.environment_snapshot_id or "")

    def _copy(self, state: State) -> State:
        tree, target = self.base.tree(self.share), self._target
        store = AccountObjects(self.base.objects, target.account_id, target.id)
        guard = LeakGuard(self.base.excluded(self.share))
        totals, last = Totals.of(state.get("totals")), int(state.get("page", 0))
        copier = PageCopier(store, chunk_key(self.base.records, target.account_id))
        for number, page in pages_of_run(tree, last):
            entries = list(travelling(page.entries, guard, totals))
            add_page(totals, entries, page.table)
            copier.add(page, entries)
            last = number + 1
        copier.finish()
        if last < len(tree.root.pages):
            return _more({"page": last, "totals": totals.as_state()})
        self._write_root(tree, store, totals)
        return _more({"is_copied": True})

    def _write_root(self, tree: StoredTree, store: AccountObjects, totals: Totals) -> None:
        receipt = self.share.receipt
        if receipt is None or totals.chain != receipt.manifest_sha256:
            raise SnapshotCorruptError(
                f"share {self.share.id}: what would leave is not what its receipt says"
            )
        stored, root = write_root(store, tree.root, receipt)
        made_on = tree.snapshot.made_on

        def plan() -> Sequence[Change]:
            target = self._target
            if target.state != SnapshotState.OPEN:
                return []
            now = self.base.records.now()
            captured = replace(
                target,
                state=SnapshotState.CAPTURED,
                root=stored,
                summary=dict(root.counts),
                captured_at=now,
                made_on=made_on,
            )
            return [Update(captured)]

        self.base.records.apply(plan)

    def _verify(self, state: State) -> State:
        """By the judge of all captures: it refuses a root that names objects of anybody else."""
        raw = state.get("cursor")
        cursor = None if raw is None else Cursor(int(raw["snapshot"]), int(raw["objects"]))
        verdict = self.base.verify.run([self._target], cursor, trust_parents=True)
        if verdict.cursor is not None:
            return _more({"is_copied": True, "cursor": verdict.as_state()["cursor"]})
        self.base.records.apply(self._committed)
        return _done()

    def _committed(self) -> Sequence[Change]:
        target = self._target
        if target.state == SnapshotState.COMMITTED:
            return []
        operation = self.base.operations.load(self.operation.id)
        self.base.operations.check_wanted(operation)
        share = self.base.records.store.get(Share, self.share.id)
        if share.state != ShareState.SHARED:
            raise OperationCancelledError(f"share {share.id} was revoked")
        now = self.base.records.now()
        environment = self.base.records.store.get(Environment, target.subject_id)
        committed = replace(target, state=SnapshotState.COMMITTED, committed_at=now)
        frozen = freeze(environment, committed, f"accepted from share {share.id}", now)
        ready = replace(
            frozen.environment, head=target.id, captured_at=now, size_bytes=committed.size_bytes
        )
        result = {
            "share_id": share.id,
            "environment_id": environment.id,
            "version": frozen.version.number,
            "snapshot_id": target.id,
            **{name: committed.summary[name] for name in ("entries", "files", "bytes")},
        }
        done = self.base.operations.with_milestone(operation, "copied")
        return [
            Check(share),
            Update(ready),
            *changes_of(frozen),
            Update(self.base.operations.ended(done, OperationState.SUCCEEDED, result=result)),
        ]


def _done() -> State:
    return {"is_done": True, "cursor": None}


def _more(cursor: State) -> State:
    return {"is_done": False, "cursor": cursor}
