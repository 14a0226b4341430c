"""The oracle sees rows that cannot be: of heads, epochs, operations, leases and machines."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from podferry.adapters.memory.store import MemoryStore
from podferry.domain.machine import Machine, MachineState
from podferry.domain.operation import Cause, Operation, OperationKind, OperationState
from podferry.domain.pod import Desired, Pod, PodState
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.domain.volume import Lease, Volume
from podferry.ports.store import Create
from tests.chaos.oracle import unsettled
from tests.chaos.world.rows import Rows
from tests.contract.entities import ACCOUNT, NOW, a_machine, a_pod, a_save, a_volume, an_id, at

SETTLED = NOW + timedelta(hours=1)


class Rest:
    """A pod that lived on two machines, was saved on both, and is stopped."""

    def __init__(self) -> None:
        volume_id = an_id("vol")
        self.pod: Pod = a_pod(state=PodState.STOPPED, desired=Desired.STOPPED, volume_id=volume_id)
        self.first, self.second = self._machine(1), self._machine(2)
        self.early = self._save(self.first, 10, None)
        self.late = self._save(self.second, 20, self.early.id)
        self.volume: Volume = a_volume(id=volume_id, head=self.late.id, lease=None)
        self.stop = Operation(
            id=an_id("op"),
            account_id=ACCOUNT,
            created_at=SETTLED - timedelta(minutes=1),
            pod_id=self.pod.id,
            kind=OperationKind.STOP,
            cause=Cause.USER,
            state=OperationState.SUCCEEDED,
        )

    def verdict(self, standing: Sequence[Mapping[str, Any]] = ()) -> list[str]:
        store = MemoryStore()
        rows = (
            *(self.pod, self.volume, self.stop),
            *(self.first, self.second, self.early, self.late),
        )
        store.commit(*(Create(row) for row in rows))
        return list(unsettled(Rows(store, ACCOUNT), SETTLED, standing))

    def _machine(self, epoch: int) -> Machine:
        return a_machine(pod_id=self.pod.id, epoch=epoch, state=MachineState.RELEASED)

    def _save(self, machine: Machine, minute: int, parent_id: str | None) -> Snapshot:
        return a_save(
            created_at=at(minute),
            subject_id=self.pod.volume_id,
            pod_id=self.pod.id,
            machine_id=machine.id,
            epoch=machine.epoch,
            parent_id=parent_id,
            committed_at=at(minute),
        )


@pytest.fixture
def rest() -> Rest:
    return Rest()


def test_a_pod_at_rest_is_in_order(rest: Rest) -> None:
    assert rest.verdict() == []


def test_saves_of_one_machine_and_saves_that_need_none_before_them_are_in_order(
    rest: Rest,
) -> None:
    rest.early = replace(rest.early, epoch=2)
    assert rest.verdict() == []
    rest.late = replace(rest.late, parent_id=None)
    assert rest.verdict() == []


@pytest.mark.parametrize("changes", [{"state": PodState.RUNNING}, {"desired": Desired.RUNNING}])
def test_a_pod_that_runs_or_is_wanted_is_not_at_rest(rest: Rest, changes: dict[str, Any]) -> None:
    rest.pod = replace(rest.pod, **changes)
    (found,) = rest.verdict()
    assert "it was stopped" in found


@pytest.mark.parametrize("held", ["operation_id", "machine_id"])
def test_a_stopped_pod_that_holds_something_is_seen(rest: Rest, held: str) -> None:
    changes: dict[str, Any] = {held: "something"}
    rest.pod = replace(rest.pod, **changes)
    (found,) = rest.verdict()
    assert "is at rest with" in found
    assert "something" in found


def test_a_lease_that_nobody_gave_back_is_seen(rest: Rest) -> None:
    rest.volume = replace(rest.volume, lease=Lease(pod_id=rest.pod.id, machine_id=None))
    (found,) = rest.verdict()
    assert "is leased" in found


@pytest.mark.parametrize("epoch", [2, 3], ids=["the same", "a lower one later"])
def test_promise_05_two_machines_with_one_epoch_or_epochs_that_fall_are_seen(
    rest: Rest, epoch: int
) -> None:
    rest.first = replace(rest.first, epoch=epoch)
    (found,) = rest.verdict()
    assert f"the epochs of its machines are [{epoch}, 2]" in found


@pytest.mark.parametrize("state", [SnapshotState.OPEN, SnapshotState.CAPTURED])
def test_a_save_that_nobody_ended_is_seen(rest: Rest, state: SnapshotState) -> None:
    rest.early = replace(rest.early, state=SnapshotState.ABANDONED)
    rest.late = replace(rest.late, parent_id=None)
    assert rest.verdict() == []
    rest.early = replace(rest.early, state=state)
    assert rest.verdict() == [f"snapshot {rest.early.id} is {state}"]


def test_promise_05_a_commit_of_an_older_epoch_after_a_newer_one_is_seen(rest: Rest) -> None:
    rest.early = replace(rest.early, epoch=3)
    assert rest.verdict() == [f"{rest.late.id} of epoch 2 was committed after 3"]


def test_promise_05_a_save_that_follows_another_than_the_head_is_seen(rest: Rest) -> None:
    rest.late = replace(rest.late, parent_id="snap_of_another_branch")
    (found,) = rest.verdict()
    assert f"follows snap_of_another_branch, but the head was {rest.early.id}" in found


def test_a_first_save_that_follows_something_is_seen(rest: Rest) -> None:
    rest.early = replace(rest.early, parent_id="snap_of_another_branch")
    (found,) = rest.verdict()
    assert found.endswith("but the head was None")


def test_the_order_of_the_commits_counts_and_not_that_of_the_captures(rest: Rest) -> None:
    rest.early = replace(rest.early, committed_at=at(30))
    found = rest.verdict()
    assert f"{rest.early.id} of epoch 1 was committed after 2" in found
    assert f"{rest.late.id} follows {rest.early.id}, but the head was None" in found


def test_a_head_that_is_not_the_newest_save_is_seen(rest: Rest) -> None:
    for head in (None, rest.early.id):
        rest.volume = replace(rest.volume, head=head)
        (found,) = rest.verdict()
        assert f"its head is {head}, the newest save {rest.late.id}" in found


def test_a_head_without_any_committed_save_is_seen(rest: Rest) -> None:
    rest.early = replace(rest.early, state=SnapshotState.ABANDONED)
    rest.late = replace(rest.late, state=SnapshotState.ABANDONED)
    (found,) = rest.verdict()
    assert found.endswith("the newest save None")


def test_an_operation_that_never_ended_is_seen(rest: Rest) -> None:
    rest.stop = replace(rest.stop, state=OperationState.RUNNING)
    assert rest.verdict() == [f"stop {rest.stop.id} is running"]


@pytest.mark.parametrize("state", [OperationState.FAILED, OperationState.CANCELLED])
def test_an_operation_may_fail_only_while_there_are_faults(
    rest: Rest, state: OperationState
) -> None:
    rest.stop = replace(rest.stop, state=state)
    assert rest.verdict() == []
    rest.stop = replace(rest.stop, created_at=SETTLED + timedelta(seconds=1))
    (found,) = rest.verdict()
    assert "without any fault" in found


def test_a_machine_that_we_never_gave_up_is_seen(rest: Rest) -> None:
    rest.second = replace(rest.second, state=MachineState.TERMINATING)
    assert rest.verdict() == [f"machine {rest.second.id} is terminating"]


def test_an_instance_that_stands_is_a_ghost_whatever_the_rows_say(rest: Rest) -> None:
    ghost = {"provider": "vastai", "id": "7", "name": "pf-x"}
    assert rest.verdict([ghost]) == ["ghost: vastai 7 pf-x stands"]
