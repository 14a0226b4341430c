from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from podferry.domain.machine import Machine, MachineState, Pulse
from podferry.domain.offer import Requirements
from podferry.domain.operation import Cause, Operation, OperationKind, OperationState
from podferry.domain.pod import Desired, Pod, PodState, RunSpec
from podferry.domain.state_word import SILENCE, StateWord, state_word
from tests.unit.http.clouds import an_offer

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)

POD = Pod(
    id="pod_1",
    account_id="acct_1",
    created_at=NOW,
    name="a",
    state=PodState.RUNNING,
    desired=Desired.RUNNING,
    spec=RunSpec(image="debian:12"),
    requirements=Requirements(),
    environment_id="env_1",
    volume_id="vol_1",
    machine_id="mach_1",
)
MACHINE = Machine(
    id="mach_1",
    account_id="acct_1",
    created_at=NOW,
    pod_id="pod_1",
    operation_id="op_1",
    offer=an_offer(),
    stamp="pf-00000000-0000000000000",
    epoch=1,
    state=MachineState.READY,
    boot_token_sha256="",
    registered_at=NOW,
    ready_at=NOW,
)
PULSE = Pulse(
    id="mach_1", account_id="acct_1", created_at=NOW, heard_at=NOW, boot_id="b", busy_until=NOW
)
OPERATION = Operation(
    id="op_1",
    account_id="acct_1",
    created_at=NOW,
    pod_id="pod_1",
    kind=OperationKind.START,
    cause=Cause.USER,
)


def test_promise_06_running_means_that_the_machine_is_ready_and_was_heard() -> None:
    assert state_word(POD, MACHINE, PULSE, None, NOW) == StateWord.RUNNING


@pytest.mark.parametrize(
    "machine",
    [
        None,
        replace(MACHINE, id="mach_2"),
        replace(MACHINE, ready_at=None),
        replace(MACHINE, registered_at=None),
        *(replace(MACHINE, state=s) for s in MachineState if s != MachineState.READY),
    ],
)
def test_promise_06_a_pod_whose_machine_is_not_usable_is_never_called_running(
    machine: Machine | None,
) -> None:
    assert state_word(POD, machine, PULSE, None, NOW) == StateWord.UNREACHABLE


def test_promise_06_a_silent_machine_makes_its_pod_unreachable() -> None:
    assert state_word(POD, MACHINE, PULSE, None, NOW + SILENCE) == StateWord.RUNNING
    late = NOW + SILENCE + SECOND
    assert state_word(POD, MACHINE, PULSE, None, late) == StateWord.UNREACHABLE
    assert state_word(POD, MACHINE, None, None, late) == StateWord.UNREACHABLE


def test_a_machine_that_was_just_made_ready_has_time_to_beat() -> None:
    old = replace(PULSE, heard_at=NOW - timedelta(hours=1))
    assert state_word(POD, MACHINE, old, None, NOW + SECOND) == StateWord.RUNNING
    assert state_word(POD, MACHINE, None, None, NOW + SECOND) == StateWord.RUNNING


@pytest.mark.parametrize(
    "state", [s for s in PodState if s not in {PodState.RUNNING, PodState.DELETED}]
)
def test_other_states_are_shown_as_they_are(state: PodState) -> None:
    pod = replace(POD, state=state)
    assert state_word(pod, None, None, None, NOW) == StateWord(state.value)


@pytest.mark.parametrize(
    "state", [PodState.LAUNCHING, PodState.RESTORING, PodState.WAITING_FOR_CAPACITY]
)
def test_a_start_that_was_withdrawn_is_stopping(state: PodState) -> None:
    pod = replace(POD, state=state)
    cancelled = replace(OPERATION, is_cancel_asked=True)
    assert state_word(pod, None, None, cancelled, NOW) == StateWord.STOPPING
    unwanted = replace(pod, desired=Desired.STOPPED)
    assert state_word(unwanted, None, None, OPERATION, NOW) == StateWord.STOPPING


def test_between_the_halves_of_a_move_a_pod_is_launching() -> None:
    stopped = replace(POD, state=PodState.STOPPED, machine_id=None)
    move = replace(OPERATION, kind=OperationKind.MOVE)
    assert state_word(stopped, None, None, move, NOW) == StateWord.LAUNCHING
    for over in (
        replace(move, state=OperationState.FAILED),
        replace(move, is_cancel_asked=True),
        OPERATION,
    ):
        assert state_word(stopped, None, None, over, NOW) == StateWord.STOPPED


def test_a_pod_that_is_to_go_is_deleting_until_it_is_deleted() -> None:
    going = replace(POD, state=PodState.STOPPED, desired=Desired.DELETED)
    assert state_word(going, None, None, None, NOW) == StateWord.DELETING
    gone = replace(going, state=PodState.DELETED)
    assert state_word(gone, None, None, None, NOW) == StateWord.DELETED
