"""The one word for the state of a pod that every surface shows (promise 6).

running      usable: handed over by its start, and its machine was heard from lately
unreachable  it should be usable, but its machine is silent or no longer ready
recovering   its machine was lost, and it is started again from its newest saved state
stopping     a stop or the cancel of a start is under way
deleting     its user wants it gone and something still has to end first
"""

from datetime import datetime, timedelta
from enum import StrEnum

from podferry.domain.machine import Machine, MachineState, Pulse, last_heard
from podferry.domain.operation import Operation, OperationKind
from podferry.domain.pod import Desired, Pod, PodState

SILENCE = timedelta(seconds=60)
"""A machine beats at least every 10 seconds; this many seconds without a beat is no hiccup."""


class StateWord(StrEnum):
    LAUNCHING = "launching"
    WAITING_FOR_CAPACITY = "waiting_for_capacity"
    RESTORING = "restoring"
    RUNNING = "running"
    RECOVERING = "recovering"
    UNREACHABLE = "unreachable"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DELETING = "deleting"
    DELETED = "deleted"


_STARTING = frozenset(
    {
        PodState.LAUNCHING,
        PodState.WAITING_FOR_CAPACITY,
        PodState.RESTORING,
        PodState.RECOVERING,
    }
)
_UNDER_WAY = frozenset({PodState.LAUNCHING, PodState.RESTORING})


def state_word(
    pod: Pod,
    machine: Machine | None,
    pulse: Pulse | None,
    operation: Operation | None,
    now: datetime,
) -> StateWord:
    """The word for a pod, from its own state, its machine and the operation at work on it."""
    if pod.state == PodState.DELETED:
        return StateWord.DELETED
    if pod.desired == Desired.DELETED:
        return StateWord.DELETING
    if pod.state in _STARTING:
        return _starting_word(pod, operation)
    if pod.state == PodState.STOPPED and _is_between_halves(operation):
        return StateWord.LAUNCHING
    if pod.state == PodState.RUNNING and not _is_usable(pod, machine, pulse, now):
        return StateWord.UNREACHABLE
    return StateWord(pod.state.value)


def _starting_word(pod: Pod, operation: Operation | None) -> StateWord:
    if _is_withdrawn(pod, operation):
        return StateWord.STOPPING
    is_recovery = operation is not None and operation.kind == OperationKind.RECOVER
    if is_recovery and pod.state in _UNDER_WAY:
        return StateWord.RECOVERING
    return StateWord(pod.state.value)


def _is_withdrawn(pod: Pod, operation: Operation | None) -> bool:
    cancelled = operation is not None and operation.is_cancel_asked
    return cancelled or pod.desired == Desired.STOPPED


def _is_between_halves(operation: Operation | None) -> bool:
    """A move has stopped the pod and is about to start it elsewhere."""
    return (
        operation is not None
        and operation.is_active
        and operation.kind == OperationKind.MOVE
        and not operation.is_cancel_asked
    )


def _is_usable(pod: Pod, machine: Machine | None, pulse: Pulse | None, now: datetime) -> bool:
    if machine is None or machine.id != pod.machine_id or machine.state != MachineState.READY:
        return False
    if machine.registered_at is None or machine.ready_at is None:
        return False
    return now - last_heard(machine, pulse) <= SILENCE
