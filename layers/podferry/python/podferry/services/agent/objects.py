"""Short-lived URLs for named objects, and the hand-in of a finished capture (promise 11)."""

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from podferry.domain.command import ENDED, Command
from podferry.domain.errors import (
    EpochStaleError,
    FieldProblem,
    InvalidRequestError,
    NotFoundError,
    WrongStateError,
)
from podferry.domain.machine import Machine
from podferry.domain.manifest import NeededObject
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.domain.principal import Principal
from podferry.domain.saving import SaveKind
from podferry.domain.snapshot import (
    ROOT,
    Snapshot,
    SnapshotState,
    StoredObject,
    hash_in,
    is_pack,
    object_key,
)
from podferry.domain.volume import Volume
from podferry.ports.objects import SignedUpload, SnapshotObjects
from podferry.ports.store import Change, Update
from podferry.services.agent.membership import current_machine
from podferry.services.captures import parent_of
from podferry.services.records import Records
from podferry.services.saves.settle import SettleSave
from podferry.services.verification import VerifySnapshot

LARGEST_OBJECT = 64 * 1024 * 1024
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEPT_ROOTS = 16


@dataclass(frozen=True, slots=True)
class WantedObject:
    """An object that a restore asks for, in the snapshot that stored it."""

    snapshot_id: str
    name: str


@dataclass(frozen=True, slots=True)
class SignUploads:
    """A machine can add objects under its own open snapshot, and nothing else."""

    records: Records
    objects: SnapshotObjects

    def sign(
        self, principal: Principal, snapshot_id: str, wanted: Sequence[StoredObject]
    ) -> list[SignedUpload]:
        """One URL for each object, in order.

        Raises:
            InvalidRequestError: a name, size or hash that no object of ours can have.
            NotFoundError, WrongStateError, EpochStaleError: see `own_open`.
        """
        snapshot = own_open(self.records, principal, snapshot_id)
        _check_uploads(wanted)
        return [
            self.objects.sign_upload(
                snapshot.kind,
                object_key(snapshot.account_id, snapshot.id, one.name),
                one.size,
                one.sha256,
            )
            for one in wanted
        ]


@dataclass(frozen=True, slots=True)
class SignDownloads:
    """A machine can read the committed snapshots of its own pod, object by named object."""

    records: Records
    objects: SnapshotObjects
    verify: VerifySnapshot
    _roots: OrderedDict[str, frozenset[tuple[str, str]]] = field(default_factory=OrderedDict)

    def sign(
        self, principal: Principal, snapshot_id: str, wanted: Sequence[WantedObject]
    ) -> list[str]:
        """One URL for each object, in order.

        Raises:
            NotFoundError: no such snapshot of this pod, or an object that it does not need.
            EpochStaleError: the machine is no longer its pod's.
        """
        machine = current_machine(self.records, principal)
        snapshot = self._readable(machine, snapshot_id, wanted)
        return [
            self.objects.sign_download(
                snapshot.kind, object_key(snapshot.account_id, one.snapshot_id, one.name)
            )
            for one in wanted
        ]

    def _readable(
        self, machine: Machine, snapshot_id: str, wanted: Sequence[WantedObject]
    ) -> Snapshot:
        pod = self.records.store.get(Pod, machine.pod_id)
        snapshot = self.records.store.find(Snapshot, snapshot_id)
        if snapshot is None or not (
            self._is_of(pod, snapshot) or self._is_built_on(pod, snapshot, wanted)
        ):
            raise NotFoundError(f"no snapshot {snapshot_id} of pod {pod.id}")
        if snapshot.state == SnapshotState.COMMITTED:
            self._check(snapshot, wanted)
            return snapshot
        is_own = (snapshot.machine_id, snapshot.state) == (machine.id, SnapshotState.OPEN)
        if is_own and set(wanted) == {WantedObject(snapshot_id, ROOT)}:
            # An agent whose PUT of the root is answered "exists" reads back what is there.
            return snapshot
        raise NotFoundError(f"snapshot {snapshot_id} is not committed")

    def _is_of(self, pod: Pod, snapshot: Snapshot) -> bool:
        """A fork begins with a save of another volume; from a version, with another capture."""
        is_own = snapshot.subject_id in {pod.environment_id, pod.volume_id}
        if is_own or snapshot.id == pod.environment_head:
            return True
        return snapshot.id in self.records.store.get(Volume, pod.volume_id).pins

    def _is_built_on(self, pod: Pod, other: Snapshot, wanted: Sequence[WantedObject]) -> bool:
        """Whether a capture that is under way builds on another pod's: then lists, no content."""
        if any(is_pack(one.name) for one in wanted) or pod.operation_id is None:
            return False
        operation = self.records.store.get(Operation, pod.operation_id)
        commands = [self.records.store.get(Command, one) for one in operation.commands]
        return any(
            command.state not in ENDED and command.arguments.get("parent") == parent_of(other.id)
            for command in commands
        )

    def _check(self, snapshot: Snapshot, wanted: Sequence[WantedObject]) -> None:
        for one in wanted:
            if (one.snapshot_id, one.name) == (snapshot.id, ROOT):
                continue
            if (one.snapshot_id, one.name) not in self._needed(snapshot):
                raise NotFoundError(
                    f"snapshot {snapshot.id} does not need {one.name} of {one.snapshot_id}"
                )

    def _needed(self, snapshot: Snapshot) -> frozenset[tuple[str, str]]:
        """What the root lists; committed roots never change, so a few are kept in memory."""
        if snapshot.id not in self._roots:
            needed: Sequence[NeededObject] = self.verify.read_root(snapshot).needed
            self._roots[snapshot.id] = frozenset((n.snapshot_id, n.name) for n in needed)
            if len(self._roots) > _KEPT_ROOTS:
                self._roots.popitem(last=False)
        return self._roots[snapshot.id]


@dataclass(frozen=True, slots=True)
class RecordCapture:
    """The agent's part of a capture ends here; whether it counts is decided by verification.

    A stop verifies in its workflow, a save here and at once.
    """

    records: Records
    saves: SettleSave

    def commit(
        self, principal: Principal, snapshot_id: str, root: StoredObject, summary: dict[str, Any]
    ) -> bool:
        """Note the root; the same root again is the same hand-in.

        Returns false if the agent has to hand it in again, because there is more to verify.

        Raises:
            SnapshotError: the save is damaged, and has failed.
            InvalidRequestError: the root's name, size or hash is impossible; or it is a partial
                capture of a stop.
            WrongStateError: another root was handed in.
            NotFoundError, EpochStaleError: see `own_open`.
        """
        _check_uploads([root])
        if root.name != ROOT:
            raise InvalidRequestError(f"root.name is {root.name!r}; it must be {ROOT!r}")

        def plan() -> Sequence[Change]:
            snapshot = self.records.store.find(Snapshot, snapshot_id)
            is_own = snapshot is not None and snapshot.machine_id == principal.machine_id
            if snapshot is not None and is_own and snapshot.root == root:
                return []
            snapshot = own_open(self.records, principal, snapshot_id)
            if snapshot.save_kind == SaveKind.STOP and summary.get("is_partial"):
                raise InvalidRequestError(f"capture {snapshot_id} is a stop's; it must be whole")
            captured = replace(
                snapshot,
                state=SnapshotState.CAPTURED,
                root=root,
                summary=summary,
                captured_at=self.records.now(),
            )
            return [Update(captured)]

        self.records.apply(plan)
        captured = self.records.store.get(Snapshot, snapshot_id)
        return captured.save_kind == SaveKind.STOP or self.saves.run(snapshot_id)


def own_open(records: Records, principal: Principal, snapshot_id: str) -> Snapshot:
    """The open snapshot that this machine may write.

    Raises:
        NotFoundError: no such snapshot of this machine.
        WrongStateError: it is not open.
        EpochStaleError: the machine is no longer its pod's, or the snapshot is of another epoch.
    """
    machine = current_machine(records, principal)
    snapshot = records.store.find(Snapshot, snapshot_id)
    if snapshot is None or snapshot.machine_id != machine.id:
        raise NotFoundError(f"no snapshot {snapshot_id} of machine {machine.id}")
    if snapshot.epoch != machine.epoch:
        raise EpochStaleError(f"snapshot {snapshot_id} belongs to epoch {snapshot.epoch}")
    if snapshot.state != SnapshotState.OPEN:
        raise WrongStateError(f"snapshot {snapshot_id} is {snapshot.state}, not open")
    return snapshot


def _check_uploads(wanted: Sequence[StoredObject]) -> None:
    problems = [
        FieldProblem(where=f"/objects/{index}", problem=problem)
        for index, one in enumerate(wanted)
        if (problem := _problem(one)) is not None
    ]
    if problems:
        raise InvalidRequestError("objects cannot be stored as named", fields=tuple(problems))


def _problem(one: StoredObject) -> str | None:
    if not 0 < one.size <= LARGEST_OBJECT:
        return f"size {one.size} is not within 1..{LARGEST_OBJECT}"
    if _DIGEST.fullmatch(one.sha256) is None:
        return "sha256 is not 64 hex digits"
    if one.name == ROOT:
        return None
    named = hash_in(one.name)
    if named is None:
        return f"name {one.name!r} is not root, packs/<sha256> or pages/<sha256>"
    if named != one.sha256:
        return "the name is not the sha256 of the object"
    return None
