"""End a save: its head is committed, it failed, or a stop or its user made it needless."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.command import Command, CommandState
from podferry.domain.errors import EpochStaleError, WrongStateError
from podferry.domain.operation import Operation, OperationKind, OperationState, ended, reached
from podferry.domain.pod import Failure, Pod
from podferry.domain.saving import Saving
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Check, Update
from podferry.services.records import Records
from podferry.services.saves.rows import Place, end_command, operation_of, place_of
from podferry.services.storage import charged_first

FINAL = frozenset({SnapshotState.COMMITTED, SnapshotState.ABANDONED, SnapshotState.DELETED})
BETWEEN_LABELS = ", "
_CANCELLED = {"code": "operation_cancelled", "detail": "cancelled by the user"}


@dataclass(frozen=True, slots=True)
class EndSave:
    """Every end of a save is one transaction; whatever comes after it changes nothing."""

    records: Records

    def commit(self, snapshot_id: str, stored_bytes: int) -> None:
        """The verified save becomes the head, if its machine may still move it (promise 5).

        `stored_bytes` is what it added to the store, as its verification counted.

        Raises:
            EpochStaleError, WrongStateError: see `check_open`.
        """
        self.records.apply(lambda: self._committed(snapshot_id, stored_bytes))

    def command_ended(self, command: Command) -> None:
        """The agent has told, or told again, how the command of a save ended."""
        error = command.error
        if command.state == CommandState.SUCCEEDED:
            error = {"code": "save_unfinished", "detail": "the agent handed in nothing"}
        self.fail(str(command.arguments["snapshot_id"]), error or {})

    def fail(self, snapshot_id: str, error: dict[str, Any]) -> None:
        """Give the save up and note why; one that has ended stays as it is."""
        self.records.apply(lambda: self._failed(snapshot_id, error))

    def supersede(self, pod_id: str) -> None:
        """A stop takes its own capture: leave the save that is under way, and one that waits."""
        self.records.apply(lambda: self._superseded(pod_id))

    def detached(
        self, pod: Pod, volume: Volume, why: dict[str, Any]
    ) -> tuple[Volume, list[Change]]:
        """The volume without the save that is under way, and what becomes of that one."""
        saving = volume.saving
        idle = replace(volume, saving=replace(saving, open_id=None, asked_by=None))
        changes: list[Change] = []
        waiting = [saving.asked_by] if saving.asked_by is not None else []
        if saving.open_id is not None:
            snapshot = self.records.store.get(Snapshot, saving.open_id)
            changes += self._abandoned(snapshot, why)
            waiting += [snapshot.operation_id] if snapshot.operation_id is not None else []
        for operation_id in waiting:
            operation = self.records.store.get(Operation, operation_id)
            changes += self._ended(pod, operation, OperationState.CANCELLED, why)
        return idle, changes

    def cancel(self, operation: Operation) -> None:
        """Its user does not want it any more."""
        self.records.apply(lambda: self._cancelled(operation))

    def _committed(self, snapshot_id: str, stored_bytes: int) -> Sequence[Change]:
        snapshot = self.records.store.get(Snapshot, snapshot_id)
        if snapshot.state == SnapshotState.COMMITTED:
            return []
        place = check_open(self.records, snapshot)
        now = self.records.now()
        operation = operation_of(self.records, snapshot)
        counted = replace(
            snapshot, state=SnapshotState.COMMITTED, committed_at=now, stored_bytes=stored_bytes
        )
        committed, sums = charged_first(self.records, counted)
        return [
            Update(committed),
            *sums,
            Update(self._with_head(place, committed)),
            Check(place.pod),
            *end_command(self.records, snapshot.id, None),
            *([] if operation is None else self._succeeded(place.pod, operation, committed)),
            *self._recovery(place),
            *self._partial(place, committed),
        ]

    def _with_head(self, place: Place, save: Snapshot) -> Volume:
        """The save has everything that was written before it began, and perhaps more.

        Of a partial one only what is older than the last whole save is sure to be there.
        """
        good = replace(place.saving, open_id=None, failures=0, error=None, is_overdue=False)
        return replace(
            place.volume,
            head=save.id,
            whole_head=self._newest_whole(place.volume) if save.is_partial else None,
            saved_at=place.volume.saved_at if save.is_partial else save.created_at,
            size_bytes=save.size_bytes,
            saving=good,
        )

    def _newest_whole(self, volume: Volume) -> str | None:
        if volume.head is None:
            return None
        head = self.records.store.get(Snapshot, volume.head)
        return volume.whole_head if head.is_partial else head.id

    def _partial(self, place: Place, save: Snapshot) -> list[Change]:
        if not save.is_partial:
            return []
        return [
            self.records.background_event(
                place.pod,
                "pod.saved_in_part",
                snapshot_id=save.id,
                unreached_files=save.summary.get("unreached_files", 0),
            )
        ]

    def _recovery(self, place: Place) -> list[Change]:
        saving = place.saving
        if not saving.failures and not saving.is_overdue:
            return []
        return [
            self.records.background_event(
                place.pod, "pod.saves_recovered", failures=saving.failures
            )
        ]

    def _failed(self, snapshot_id: str, error: dict[str, Any]) -> Sequence[Change]:
        snapshot = self.records.store.find(Snapshot, snapshot_id)
        # A report that comes after days may be of a save that has been deleted.
        if snapshot is None or snapshot.state in FINAL:
            return []
        place = place_of(self.records, snapshot.pod_id)
        if place is None:
            return self._superseded(snapshot.pod_id)  # Which is no fault of the save.
        if place.saving.open_id != snapshot.id:
            return [Update(replace(snapshot, state=SnapshotState.ABANDONED))]
        failure = Failure(
            code=str(error.get("code", "unexplained")),
            detail=str(error.get("detail", "the agent gave no reason")),
            at=self.records.now(),
        )
        problem = {"code": failure.code, "detail": failure.detail}
        operation = operation_of(self.records, snapshot)
        return [
            Update(replace(snapshot, state=SnapshotState.ABANDONED)),
            Update(replace(place.volume, saving=_with_failure(place.saving, failure))),
            *end_command(self.records, snapshot.id, problem),
            *self._told(place, operation, problem),
        ]

    def _told(
        self, place: Place, operation: Operation | None, problem: dict[str, Any]
    ) -> list[Change]:
        """Of a row of failures the first is an event; one that a user waits for always is."""
        if operation is not None:
            return self._ended(place.pod, operation, OperationState.FAILED, problem)
        if place.saving.failures:
            return []
        return [self.records.background_event(place.pod, "pod.save_failed", **problem)]

    def _superseded(self, pod_id: str) -> Sequence[Change]:
        pod = self.records.store.get(Pod, pod_id)
        volume = self.records.store.get(Volume, pod.volume_id)
        saving = volume.saving
        is_idle = saving.open_id is None and saving.asked_by is None
        if is_idle or volume.lease is None or volume.lease.pod_id != pod.id:
            return []
        stop = self._stop_of(pod)
        labels = [] if stop is None else self._labels(saving, stop)
        idle, changes = self.detached(pod, volume, _superseded_by(stop, labels))
        if stop is not None and labels:
            changes.append(Update(replace(stop, label=BETWEEN_LABELS.join(labels))))
        return [Update(idle), *changes]

    def _stop_of(self, pod: Pod) -> Operation | None:
        """The stop that is at work on the pod."""
        operation = pod.operation_id and self.records.store.find(Operation, pod.operation_id)
        return operation if operation and operation.kind == OperationKind.STOP else None

    def _labels(self, saving: Saving, stop: Operation) -> list[str]:
        """What the capture of the stop is called, with the labels of the saves that it replaces."""
        save = saving.open_id and self.records.store.get(Snapshot, saving.open_id)
        asked = saving.asked_by and self.records.store.get(Operation, saving.asked_by)
        return [labelled.label for labelled in (stop, save, asked) if labelled and labelled.label]

    def _cancelled(self, asked: Operation) -> Sequence[Change]:
        operation = self.records.store.get(Operation, asked.id)
        if operation.state != OperationState.RUNNING:
            raise WrongStateError(f"operation {operation.id} is {operation.state} already")
        pod = self.records.store.get(Pod, operation.pod_id)
        volume = self.records.store.get(Volume, pod.volume_id)
        saving = volume.saving
        changes: list[Change] = []
        if operation.volume_snapshot_id is not None:
            save = self.records.store.get(Snapshot, operation.volume_snapshot_id)
            changes = self._abandoned(save, _CANCELLED)
            saving = replace(saving, open_id=None)
        return [
            *changes,
            Update(replace(volume, saving=replace(saving, asked_by=_other(saving, operation)))),
            *self._ended(
                pod, replace(operation, is_cancel_asked=True), OperationState.CANCELLED, _CANCELLED
            ),
        ]

    def _abandoned(self, snapshot: Snapshot, why: dict[str, Any]) -> list[Change]:
        return [
            Update(replace(snapshot, state=SnapshotState.ABANDONED)),
            *end_command(self.records, snapshot.id, why, tell_agent=True),
        ]

    def _succeeded(self, pod: Pod, operation: Operation, save: Snapshot) -> list[Change]:
        now = self.records.now()
        result = {"snapshot_id": save.id, "label": save.label, **save.summary}
        committed = reached(operation, "committed", now)
        event = self.records.pod_event(
            pod, "pod.saved", operation, snapshot_id=save.id, label=save.label
        )
        return [Update(ended(committed, OperationState.SUCCEEDED, now, result=result)), event]

    def _ended(
        self, pod: Pod, operation: Operation, state: OperationState, why: dict[str, Any]
    ) -> list[Change]:
        event = self.records.pod_event(pod, f"pod.save_{state}", operation, **why)
        return [Update(ended(operation, state, self.records.now(), error=why)), event]


def check_open(records: Records, snapshot: Snapshot) -> Place:
    """Where the save was made, if its machine may still move the head with it.

    Raises:
        EpochStaleError: the volume belongs to another machine.
        WrongStateError: a stop came first, or the save was given up.
    """
    volume = records.store.get(Volume, snapshot.subject_id)
    if volume.epoch != snapshot.epoch:
        raise EpochStaleError(
            f"volume {volume.id} is at epoch {volume.epoch}, save {snapshot.id} is of "
            f"{snapshot.epoch}"
        )
    place = place_of(records, snapshot.pod_id)
    if place is None or place.machine.id != snapshot.machine_id:
        raise WrongStateError(f"save {snapshot.id}: pod {snapshot.pod_id} is not running there")
    if place.saving.open_id != snapshot.id or snapshot.state != SnapshotState.CAPTURED:
        raise WrongStateError(f"save {snapshot.id} is {snapshot.state} and was given up")
    return place


def _superseded_by(stop: Operation | None, labels: Sequence[str]) -> dict[str, Any]:
    said = "the pod is being stopped, and the stop saves it"
    if stop is not None and labels:
        said += f"; the capture of {stop.id} is labelled {BETWEEN_LABELS.join(labels)!r}"
    return {"code": "superseded", "detail": said}


def _with_failure(saving: Saving, failure: Failure) -> Saving:
    return replace(
        saving,
        open_id=None,
        failures=saving.failures + 1,
        error=failure,
    )


def _other(saving: Saving, operation: Operation) -> str | None:
    """Who waits for a save besides the operation."""
    return None if saving.asked_by == operation.id else saving.asked_by
