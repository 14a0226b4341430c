"""Begin a save: the row of its snapshot, and the command that makes it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from podferry.domain.command import Command, CommandKind
from podferry.domain.operation import Operation, reached
from podferry.domain.saving import SaveKind, needs_whole_save
from podferry.domain.snapshot import Snapshot, SnapshotKind
from podferry.ports.store import Change, Check, Create, Update
from podferry.services.captures import CAPTURE_SECONDS, capture_arguments
from podferry.services.records import Records
from podferry.services.saves.rows import SAVE_STEP, Place, command_id_of, place_of

KEEP_COMMAND = timedelta(seconds=CAPTURE_SECONDS) + timedelta(days=1)
NOT_RUNNING_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Turn:
    """The save that is under way; without one, in how many seconds the next is due."""

    command: Command | None
    in_seconds: float


@dataclass(frozen=True, slots=True)
class BeginSave:
    """The one door to a save: of one volume at most one is open at any time."""

    records: Records

    def if_due(self, pod_id: str) -> None:
        """Begin the save that a user asked for or that is due, unless one is under way.

        Raises:
            ConflictError: the rows kept moving.
        """
        self.records.apply(lambda: self._plan(pod_id))

    def run(self, pod_id: str) -> Turn:
        """Like `if_due`, and say what is under way then.

        Raises:
            ConflictError: the rows kept moving.
        """
        self.if_due(pod_id)
        return self._look(pod_id)

    def at_once(self, pod_id: str) -> Turn:
        """Begin a save though none is due, unless one is under way: the machine is about to go.

        Raises:
            ConflictError: the rows kept moving.
        """
        self.records.apply(lambda: self._plan(pod_id, SaveKind.RECLAIM))
        return self._look(pod_id)

    def _look(self, pod_id: str) -> Turn:
        place = place_of(self.records, pod_id)
        if place is None:
            return Turn(None, NOT_RUNNING_SECONDS)
        left = (place.due_at - self.records.now()).total_seconds()
        open_id = place.saving.open_id
        command = open_id and self.records.store.find(Command, command_id_of(open_id))
        return Turn(command or None, max(0.0, left))

    def _plan(self, pod_id: str, kind: SaveKind = SaveKind.BACKGROUND) -> Sequence[Change]:
        place = place_of(self.records, pod_id)
        if place is None or place.saving.open_id is not None:
            return []
        if place.saving.asked_by is not None:
            operation = self.records.store.get(Operation, place.saving.asked_by)
            return self._asked(place, operation)
        if kind == SaveKind.BACKGROUND and self.records.now() < place.due_at:
            return []
        return self._begun(place, replace(self._snapshot(place), save_kind=kind))

    def _asked(self, place: Place, operation: Operation) -> list[Change]:
        snapshot = replace(
            self._snapshot(place),
            save_kind=SaveKind.MANUAL,
            operation_id=operation.id,
            label=operation.label,
        )
        begun = replace(
            reached(operation, "begun", self.records.now()),
            machine_id=place.machine.id,
            volume_snapshot_id=snapshot.id,
            commands=(command_id_of(snapshot.id),),
        )
        return [*self._begun(place, snapshot), Update(begun)]

    def _begun(self, place: Place, snapshot: Snapshot) -> list[Change]:
        now = self.records.now()
        saving = replace(place.saving, open_id=snapshot.id, begun_at=now, asked_by=None)
        return [
            Create(snapshot),
            Create(self._command(place, snapshot)),
            Update(replace(place.volume, saving=saving)),
            # Not one more once the pod is stopping.
            Check(place.pod),
        ]

    def _snapshot(self, place: Place) -> Snapshot:
        pod, volume = place.pod, place.volume
        return Snapshot(
            id=self.records.new_id(Snapshot),
            account_id=pod.account_id,
            created_at=self.records.now(),
            kind=SnapshotKind.VOLUME,
            subject_id=volume.id,
            pod_id=pod.id,
            machine_id=place.machine.id,
            epoch=place.machine.epoch,
            operation_id=None,
            parent_id=None if needs_whole_save(place.saving) else volume.head,
            save_kind=SaveKind.BACKGROUND,
        )

    def _command(self, place: Place, snapshot: Snapshot) -> Command:
        return Command(
            id=command_id_of(snapshot.id),
            account_id=snapshot.account_id,
            created_at=snapshot.created_at,
            machine_id=snapshot.machine_id,
            pod_id=snapshot.pod_id,
            kind=CommandKind.CAPTURE,
            arguments=capture_arguments(self.records, place.pod, snapshot, "live"),
            timeout_seconds=CAPTURE_SECONDS,
            operation_id=snapshot.operation_id,
            step=SAVE_STEP,
            expires_at=snapshot.created_at + KEEP_COMMAND,
        )
