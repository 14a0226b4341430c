"""What must hold after any run, whatever happened in it. Each check lists what does not."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from podferry.domain.machine import FINAL_STATES, Machine
from podferry.domain.operation import Operation, OperationState
from podferry.domain.pod import Desired, Pod, PodState
from podferry.domain.snapshot import Snapshot, SnapshotState
from tests.chaos.driver import Driver
from tests.chaos.lineage import Lineage
from tests.chaos.money import compare, ledger_errors
from tests.chaos.world.rows import Rows
from tests.e2e.deployment import Deployment

_ENDED = frozenset({OperationState.SUCCEEDED, OperationState.FAILED, OperationState.CANCELLED})
_CLOSED = frozenset({SnapshotState.COMMITTED, SnapshotState.ABANDONED, SnapshotState.DELETED})


def violations(deployment: Deployment, rows: Rows, driver: Driver) -> list[str]:
    """Everything that is wrong after a run that has settled and left."""
    lineage = Lineage(rows)
    by_id = {pod.id: pod for pod in rows.pods}
    found = list(unsettled(rows, driver.settled_at, driver.standing()))
    for watched in driver.account.pods:
        found += lineage.check(watched, by_id[watched.id])
    for provider in deployment.info.control_urls:
        found += compare(deployment, provider, rows)
    return found + list(ledger_errors(rows))


def unsettled(
    rows: Rows, settled_at: datetime | None, standing: Sequence[Mapping[str, Any]]
) -> Iterable[str]:
    """What the rows say that cannot be once everybody has left.

    After `settled_at` there was no fault; instances that are `standing` have not ended.
    """
    for pod in rows.pods:
        yield from _at_rest(pod, rows)
        yield from _one_writer(pod, rows)
    yield from _operations(rows.operations, settled_at)
    yield from _machines(rows.machines, standing)


def _at_rest(pod: Pod, rows: Rows) -> Iterable[str]:
    if (pod.state, pod.desired) != (PodState.STOPPED, Desired.STOPPED):
        yield f"pod {pod.id} is {pod.state}, wanted {pod.desired}: it was stopped"
    if pod.operation_id is not None or pod.machine_id is not None:
        yield f"pod {pod.id} is at rest with {pod.operation_id}, {pod.machine_id}"
    if rows.volume(pod).lease is not None:
        yield f"volume {pod.volume_id} is leased: {rows.volume(pod).lease}"


def _one_writer(pod: Pod, rows: Rows) -> Iterable[str]:
    """Epochs rise with the machines; each save follows from the head that it replaced."""
    machines = sorted((m for m in rows.machines if m.pod_id == pod.id), key=lambda m: m.id)
    epochs = [machine.epoch for machine in machines]
    if epochs != sorted(set(epochs)):
        yield f"pod {pod.id}: the epochs of its machines are {epochs}"
    saves = rows.saves(pod)
    for save in saves:
        if save.state not in _CLOSED:
            yield f"snapshot {save.id} is {save.state}"
    yield from _heads(pod, rows.volume(pod).head, saves)


def _heads(pod: Pod, head: str | None, saves: list[Snapshot]) -> Iterable[str]:
    committed = [save for save in saves if save.state == SnapshotState.COMMITTED]
    committed.sort(key=lambda save: (save.committed_at, save.id))
    previous: Snapshot | None = None
    for save in committed:
        if previous is not None and save.epoch < previous.epoch:
            yield f"{save.id} of epoch {save.epoch} was committed after {previous.epoch}"
        expected = None if previous is None else previous.id
        if save.parent_id not in {expected, None}:
            yield f"{save.id} follows {save.parent_id}, but the head was {expected}"
        previous = save
    if head != (None if previous is None else previous.id):
        yield f"pod {pod.id}: its head is {head}, the newest save {previous and previous.id}"


def _operations(operations: list[Operation], settled_at: datetime | None) -> Iterable[str]:
    for operation in operations:
        if operation.state not in _ENDED:
            yield f"{operation.kind} {operation.id} is {operation.state}"
        is_undisturbed = settled_at is not None and operation.created_at > settled_at
        if is_undisturbed and operation.state != OperationState.SUCCEEDED:
            yield f"{operation.kind} {operation.id} without any fault: {operation.error}"


def _machines(machines: list[Machine], standing: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """The provider's list is our table: at the end both are empty."""
    for machine in machines:
        if machine.state not in FINAL_STATES:
            yield f"machine {machine.id} is {machine.state}"
    for instance in standing:
        yield f"ghost: {instance['provider']} {instance['id']} {instance['name']} stands"
