"""What owners and recipients ask for: share, decide, revoke, accept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from podferry.domain.account import Account
from podferry.domain.errors import FieldProblem, InvalidRequestError, WrongStateError
from podferry.domain.operation import NO_POD, Operation, OperationKind
from podferry.domain.share import Decision, Finding, Share, ShareState, check_move
from podferry.domain.snapshot import Snapshot, SnapshotKind
from podferry.domain.volume import Environment
from podferry.ports.store import Change, Check, Create, Page, Update
from podferry.services.environments.rows import own_environment, version_of
from podferry.services.identify import token_digest
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.sharing.rows import new_operation, shared_with, source_of

SHARE_PREFIX = "pfs_"
_IN_ONE_COMMIT = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class NewShare:
    """With whom, and for how long."""

    accounts: tuple[str, ...] = ()
    with_link: bool = False
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOn:
    """`path` is that of a finding, or ends in `/**` and stands for all findings below."""

    path: str
    decision: Decision

    def covers(self, finding: Finding) -> bool:
        if self.path.endswith("/**"):
            return finding.path.startswith(self.path.removesuffix("**"))
        return finding.path == self.path


@dataclass(frozen=True, slots=True)
class Shares:
    """See the module. Nothing here reads the data that is shared."""

    records: Records
    operations: Operations

    def share(
        self, account_id: str, environment_id: str, number: int, new: NewShare
    ) -> tuple[Share, str | None]:
        """Begin to scan a version; the secret of the link, if one is wanted, is shown once.

        Raises:
            NotFoundError: no such version.
            InvalidRequestError: nobody to share with, an unknown account, or no future.
        """
        environment = own_environment(self.records, account_id, environment_id)
        version = version_of(self.records.store, environment, number)
        self._check(new)
        operation = new_operation(self.records, OperationKind.SHARE, account_id, version.pod_id)
        token = f"{SHARE_PREFIX}{self.records.randomness.secret()}" if new.with_link else None
        share = Share(
            id=self.records.new_id(Share),
            account_id=account_id,
            created_at=self.records.now(),
            environment_id=environment.id,
            version=number,
            snapshot_id=version.snapshot_id,
            image=version.image,
            pod_id=version.pod_id,
            accounts=new.accounts,
            token_sha256=None if token is None else token_digest(token),
            expires_at=new.expires_at,
            operation_id=operation.id,
        )
        self._launch(share, operation, Create(share), Check(environment))
        return share, token

    def _check(self, new: NewShare) -> None:
        problems = [
            FieldProblem(f"/accounts/{index}", "no such account")
            for index, one in enumerate(new.accounts)
            if self.records.store.find(Account, one) is None
        ]
        if not new.accounts and not new.with_link:
            problems.append(FieldProblem("/accounts", "name accounts, or ask for a link"))
        if new.expires_at is not None and new.expires_at <= self.records.now():
            problems.append(FieldProblem("/expires_at", "it is in the past"))
        if problems:
            raise InvalidRequestError("this cannot be shared so", fields=tuple(problems))

    def _launch(self, share: Share, operation: Operation, *changes: Change) -> None:
        named = replace(operation, share_id=share.id, environment_snapshot_id=share.snapshot_id)
        named = self.operations.with_milestone(named, "asked")
        told = self._told(share, named, f"environment.share_{share.state}")
        self.operations.store_and_launch(named, Create(named), *told, *changes)

    def _told(
        self, share: Share, operation: Operation, event: str, **evidence: str
    ) -> list[Change]:
        """Under the pod that the version was captured from: what became of it, and who took it."""
        return self.operations.told(
            operation, event, share_id=share.id, version=share.version, **evidence
        )

    def get(self, account_id: str, share_id: str) -> Share:
        """One of the account's own shares."""
        return self.records.get_own(Share, account_id, share_id)

    def list(self, account_id: str, *, limit: int, cursor: str | None) -> Page[Share]:
        """The account's own shares, newest first."""
        return self.records.store.list_owned(Share, account_id, limit=limit, cursor=cursor)

    def findings(
        self, account_id: str, share_id: str, *, limit: int, cursor: str | None
    ) -> Page[Finding]:
        """What the scan has against the version."""
        share = self.get(account_id, share_id)
        return self.records.store.list_owned(Finding, share.id, limit=limit, cursor=cursor)

    def decide(self, account_id: str, share_id: str, decisions: Sequence[DecisionOn]) -> Share:
        """Exclude or accept findings; of two decisions on one the later counts.

        With the last of them decided it is sealed by an operation of its own.

        Raises:
            NotFoundError: no such share.
            WrongStateError: it does not wait for decisions.
            InvalidRequestError: a decision is on no finding.
        """
        share = self.get(account_id, share_id)
        if share.state != ShareState.NEEDS_DECISION:
            raise WrongStateError(f"share {share.id} is {share.state}; nothing is to be decided")
        findings = list(self.records.all_owned(Finding, share.id))
        _check_known(decisions, findings)
        changed = [replace(one, decision=_decided(one, decisions)) for one in findings]
        updates = [
            Update(new)
            for old, new in zip(findings, changed, strict=True)
            if old.decision != new.decision
        ]
        for start in range(0, len(updates), _IN_ONE_COMMIT):
            self.records.store.commit(*updates[start : start + _IN_ONE_COMMIT], Check(share))
        undecided = sum(1 for one in changed if one.decision is None)
        self._note(replace(share, undecided=undecided))
        return self.get(account_id, share_id)

    def _note(self, share: Share) -> None:
        if share.undecided:
            self.records.store.commit(Update(share))
            return
        check_move(share, ShareState.SEALING)
        operation = new_operation(self.records, OperationKind.SHARE, share.account_id, share.pod_id)
        sealing = replace(share, state=ShareState.SEALING, operation_id=operation.id)
        self._launch(sealing, operation, Update(sealing))

    def revoke(self, account_id: str, share_id: str) -> None:
        """Nobody can accept it any more; copies that are made stay. Twice is once.

        Raises:
            NotFoundError: no such share.
        """

        def plan() -> Sequence[Change]:
            share = self.get(account_id, share_id)
            if share.state == ShareState.REVOKED:
                return []
            now = self.records.now()
            operation = self.operations.load(share.operation_id)
            return [
                Update(replace(share, state=ShareState.REVOKED, revoked_at=now)),
                *self._told(share, operation, "environment.share_revoked"),
            ]

        self.records.apply(plan)

    def accept(self, account_id: str, share_id: str, token: str | None, name: str) -> Operation:
        """Begin to copy what is shared into an environment of the account's own.

        Raises:
            NotFoundError: no such share for this account.
            WrongStateError: it is not ready, was revoked, has expired, or its data was deleted.
        """
        made: list[Operation] = []

        def plan() -> Sequence[Change]:
            share = shared_with(self.records, account_id, share_id, token)
            share.require_open(self.records.now())
            source_of(self.records, share)
            operation = new_operation(self.records, OperationKind.ACCEPT, account_id, NO_POD)
            environment, snapshot = self._target(share, operation, name)
            named = replace(operation, share_id=share.id, environment_snapshot_id=snapshot.id)
            made.append(self.operations.with_milestone(named, "asked"))
            return [
                Create(made[-1]),
                Create(environment),
                Create(snapshot),
                Update(replace(share, accepts=share.accepts + 1)),
                *self._told(
                    share,
                    self.operations.load(share.operation_id),
                    "environment.share_accepted",
                    by=account_id,
                ),
            ]

        self.operations.schedules.enable()
        self.records.apply(plan)
        self.operations.launch_execution(made[-1])
        return made[-1]

    def _target(
        self, share: Share, operation: Operation, name: str
    ) -> tuple[Environment, Snapshot]:
        now = self.records.now()
        environment = Environment(
            id=self.records.new_id(Environment),
            account_id=operation.account_id,
            created_at=now,
            name=name,
            image=share.image,
        )
        snapshot = Snapshot(
            id=self.records.new_id(Snapshot),
            account_id=operation.account_id,
            created_at=now,
            kind=SnapshotKind.ENVIRONMENT,
            subject_id=environment.id,
            pod_id=NO_POD,
            machine_id="",
            epoch=0,
            operation_id=operation.id,
            parent_id=None,
        )
        return environment, snapshot


def _check_known(decisions: Sequence[DecisionOn], findings: Sequence[Finding]) -> None:
    problems = tuple(
        FieldProblem(f"/decisions/{index}/path", "no finding of this share has this path")
        for index, one in enumerate(decisions)
        if not any(one.covers(finding) for finding in findings)
    )
    if problems:
        raise InvalidRequestError("decisions on what is not found", fields=problems)


def _decided(finding: Finding, decisions: Sequence[DecisionOn]) -> Decision | None:
    covering = [one.decision for one in decisions if one.covers(finding)]
    return covering[-1] if covering else finding.decision
