"""The oracle sees what it is there to see."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from podferry.adapters.memory.store import MemoryStore
from podferry.domain.machine import Machine, MachineState
from podferry.domain.offer import BillingRule
from podferry.domain.operation import Cause, Operation, OperationKind
from podferry.domain.pod import Pod
from podferry.domain.snapshot import SnapshotState
from podferry.ports.store import Create
from tests.chaos.lineage import Lineage
from tests.chaos.money import difference
from tests.chaos.world.account import PodUnderTest, Sight, Write, digest_of
from tests.chaos.world.rows import Rows
from tests.contract.entities import ACCOUNT, NOW, a_machine, a_pod, a_save, an_id, at

HOUR = timedelta(hours=1)
FIRST, SECOND = "mach_first", "mach_second"


class Story:
    """A first machine from nothing, a save at minute 10, a second machine that began from it."""

    def __init__(self) -> None:
        self.pod: Pod = a_pod(account_id=ACCOUNT)
        self.save = a_save(
            created_at=at(10),
            subject_id=self.pod.volume_id,
            pod_id=self.pod.id,
            machine_id=FIRST,
        )
        self.watched = PodUnderTest(self.pod.id)

    def wrote(self, record: str, minute: float, machine_id: str | None = FIRST) -> None:
        answered = None if machine_id is None else at(minute)
        self.watched.writes.append(Write(record, at(minute), answered, machine_id))

    def saw(self, *records: str, machine_id: str = SECOND, **files: str) -> None:
        digests = {f"files/{record}": digest_of(record) for record in records}
        digests["latest"] = digest_of(records[-1]) if records else ""
        self.watched.sights.append(Sight(at(60), machine_id, records, digests | files))

    def verdict(self) -> list[str]:
        store = MemoryStore()
        rows: list[Any] = [self.pod, self.save]
        for machine_id, save_id in ((FIRST, None), (SECOND, self.save.id)):
            operation = self._start(save_id)
            machine = a_machine(id=machine_id, pod_id=self.pod.id, operation_id=operation.id)
            rows += [operation, machine]
        store.commit(*(Create(row) for row in rows))
        return list(Lineage(Rows(store, ACCOUNT)).check(self.watched, self.pod))

    def _start(self, save_id: str | None) -> Operation:
        return Operation(
            id=an_id("op"),
            account_id=ACCOUNT,
            created_at=NOW,
            pod_id=self.pod.id,
            kind=OperationKind.START,
            cause=Cause.USER,
            volume_snapshot_id=save_id,
        )


def test_what_was_acknowledged_before_the_save_has_to_be_there() -> None:
    story = Story()
    story.wrote("a", 1)
    story.wrote("b", 2)
    story.saw("a", "b")
    assert story.verdict() == []
    story.saw("a")
    (lost,) = story.verdict()
    assert "lost ['b']" in lost


def test_what_came_after_the_save_began_may_be_there_or_not() -> None:
    story = Story()
    story.wrote("a", 1)
    story.wrote("b", 11)
    story.saw("a")
    story.saw("a", "b")
    assert story.verdict() == []


def test_what_nobody_acknowledged_may_be_there_or_not() -> None:
    story = Story()
    story.wrote("a", 1, machine_id=None)
    story.saw()
    story.saw("a")
    assert story.verdict() == []


def test_what_a_machine_has_that_nothing_explains_is_of_another_life() -> None:
    story = Story()
    story.wrote("a", 1)
    story.wrote("b", 70, machine_id=SECOND)
    story.saw("a", "b", machine_id=FIRST)
    (strange,) = story.verdict()
    assert "has ['b'] of another life" in strange


def test_a_record_twice_and_records_in_another_order_are_seen() -> None:
    story = Story()
    story.wrote("a", 1)
    story.wrote("b", 2)
    story.saw("a", "b", "a")
    story.saw("b", "a")
    assert [found.split(": ")[1] for found in story.verdict()] == [
        "a record was written twice",
        "records in another order",
        "records in another order",
    ]


def test_a_file_that_is_not_what_was_written_is_a_mixture() -> None:
    story = Story()
    story.wrote("a", 1)
    story.saw("a", **{"files/a": digest_of("b")})
    story.saw("a", latest=digest_of("b"))
    assert [found.split(": ")[1] for found in story.verdict()] == [
        "the file of a is not what was written",
        "the replaced file is none of those that were written",
    ]


def test_a_start_from_a_save_that_was_never_committed_is_seen() -> None:
    story = Story()
    story.save = replace(story.save, state=SnapshotState.CAPTURED)
    story.saw()
    (found,) = story.verdict()
    assert "which is captured" in found


def billed(**changes: Any) -> Machine:
    values = {
        "state": MachineState.RELEASED,
        "price_microusd_per_hour": 3_600_000,
        "billing_started_at": NOW,
        "ready_at": NOW,
        "released_at": NOW + 1.2 * HOUR,
    }
    return a_machine(**(values | changes))


def instance(*phases: tuple[float, str]) -> dict[str, Any]:
    return {"history": [((NOW + hours * HOUR).timestamp(), phase) for hours, phase in phases]}


RAN = instance((0, "running"), (0.9, "gone"))


def test_an_hour_that_began_only_for_us_is_explained_by_when_we_saw_the_end() -> None:
    assert list(difference(billed(), RAN, 3_600_000)) == []


@pytest.mark.parametrize("theirs", [0, 3_599_999, 7_200_000])
def test_a_bill_that_the_rule_does_not_give_is_seen(theirs: int) -> None:
    (found,) = difference(billed(), RAN, theirs)
    assert f"its provider says {theirs}" in found


def test_a_second_for_which_no_gpu_ran_may_be_cheaper_but_not_more() -> None:
    by_seconds = replace(billed().offer, billing=BillingRule(increment_seconds=1))
    machine = billed(offer=by_seconds)
    halted = instance((0, "running"), (0.5, "stopped"), (0.9, "gone"))
    assert list(difference(machine, halted, 1_800_000)) == []
    assert len(list(difference(machine, halted, 1_700_000))) == 1


def test_a_launch_time_in_whole_seconds_explains_one_second_more_and_no_other() -> None:
    by_seconds = replace(billed().offer, billing=BillingRule(increment_seconds=1))
    machine = billed(offer=by_seconds)
    ran = instance((0.9 / 3600, "running"), (0.5, "gone"))
    # 1,800 seconds by its rule; less what went before there was anything, less a fraction.
    assert list(difference(machine, ran, 1_800_000 - 1_890)) == []
    assert len(list(difference(machine, ran, 1_800_000 - 1_910))) == 1


def test_a_provider_that_tells_no_start_began_to_charge_before_the_agent_registered() -> None:
    by_seconds = replace(billed().offer, billing=BillingRule(increment_seconds=1))
    machine = billed(offer=by_seconds, billing_started_at=None, registered_at=NOW + 0.1 * HOUR)
    assert list(difference(machine, RAN, 3_240_000)) == []
    assert list(difference(machine, RAN, 2_880_000)) == []
    assert len(list(difference(machine, RAN, 3_250_000))) == 1
    assert len(list(difference(machine, RAN, 2_870_000))) == 1


def test_a_machine_that_nobody_saw_run_is_not_ours_to_account_for() -> None:
    unseen = billed(billing_started_at=None, ready_at=None)
    assert list(difference(unseen, RAN, 3_600_000)) == []


def test_a_machine_that_was_released_before_its_end_is_seen() -> None:
    early = billed(released_at=NOW + 0.5 * HOUR)
    (found,) = difference(early, RAN, 3_600_000)
    assert "was released at" in found
