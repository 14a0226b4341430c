"""The rows that a save is made of, read together."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from podferry.domain.command import ENDED, Command
from podferry.domain.machine import Machine, MachineState
from podferry.domain.operation import Cause, Operation, OperationKind, reached
from podferry.domain.pod import Pod, PodState
from podferry.domain.saving import Saving, due_at, overdue_at
from podferry.domain.snapshot import Snapshot
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Create, Update
from podferry.services.commands import cancel_of, closed
from podferry.services.records import Records

SAVE_STEP = "save"


@dataclass(frozen=True, slots=True)
class Place:
    """A running pod, the machine that it runs on and the volume that this machine writes."""

    pod: Pod
    machine: Machine
    volume: Volume

    @property
    def saving(self) -> Saving:
        return self.volume.saving_by(self.machine.epoch)

    @property
    def due_at(self) -> datetime:
        return due_at(self.saving, self.machine.serves_since, self._interval)

    @property
    def overdue_at(self) -> datetime:
        """The state that was restored at the start is as good as a save of that moment."""
        since = self.machine.serves_since
        good_at = max(self.volume.saved_at or since, since)
        return overdue_at(self.saving, good_at, self._interval)

    @property
    def _interval(self) -> timedelta:
        return timedelta(seconds=self.pod.save_interval_seconds)


def asked_save(records: Records, pod: Pod, label: str | None) -> Operation:
    """A user's wish for a save, not stored yet."""
    now = records.now()
    operation = Operation(
        id=records.new_id(Operation),
        account_id=pod.account_id,
        created_at=now,
        pod_id=pod.id,
        kind=OperationKind.SAVE,
        cause=Cause.USER,
        label=label,
    )
    return reached(operation, "asked", now)


def place_of(records: Records, pod_id: str) -> Place | None:
    """Where the pod runs; `None` if its volume must not be saved: only a running writer's is."""
    pod = records.store.get(Pod, pod_id)
    if pod.state != PodState.RUNNING or pod.machine_id is None or pod.is_reader:
        return None
    machine = records.store.get(Machine, pod.machine_id)
    volume = records.store.get(Volume, pod.volume_id)
    is_writer = machine.state == MachineState.READY and volume.epoch == machine.epoch
    return Place(pod, machine, volume) if is_writer else None


def command_id_of(snapshot_id: str) -> str:
    """The name of the command that makes a save: found from the save, however it was given."""
    return f"cmd_{snapshot_id.partition('_')[2]}-{SAVE_STEP}"


def operation_of(records: Records, snapshot: Snapshot) -> Operation | None:
    """The operation that asked for the save, if one did."""
    if snapshot.operation_id is None:
        return None
    return records.store.get(Operation, snapshot.operation_id)


def end_command(
    records: Records, snapshot_id: str, error: dict[str, Any] | None, *, tell_agent: bool = False
) -> list[Change]:
    """Close the save's command, if it is open; the agent need not report it any more."""
    command = records.store.find(Command, command_id_of(snapshot_id))
    if command is None or command.state in ENDED:
        return []
    result = {"snapshot_id": snapshot_id} if error is None else None
    changes: list[Change] = [Update(closed(command, records, result=result, error=error))]
    if tell_agent:
        changes.append(Create(cancel_of(command, records)))
    return changes
