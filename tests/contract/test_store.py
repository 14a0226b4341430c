"""What every `Store` promises, held against each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from podferry.domain.command import Command
from podferry.domain.entity import Entity
from podferry.domain.errors import (
    ConflictError,
    InternalError,
    NotFoundError,
)
from podferry.domain.machine import Machine
from podferry.domain.pod import Pod
from podferry.domain.volume import Volume
from podferry.ports.store import Check, Create, Delete, Store, Update
from tests.contract.entities import a_command, a_machine, a_pod, a_volume, an_id

WRITERS = 20


def outcomes(actions: Iterable[Callable[[], None]]) -> list[str]:
    """Run all actions at once; the sorted names of what they raised, or `done`."""

    def outcome(action: Callable[[], None]) -> str:
        try:
            action()
        except ConflictError as error:
            return type(error).__name__
        return "done"

    with ThreadPoolExecutor(WRITERS) as pool:
        return sorted(pool.map(outcome, actions))


@pytest.mark.parametrize("entity", [a_pod(), a_machine(), a_volume(), a_command()])
def test_what_was_created_is_found_exactly(store: Store, entity: Entity) -> None:
    store.commit(Create(entity))

    assert store.find(type(entity), entity.id) == entity
    assert store.get(type(entity), entity.id) == entity


def test_a_missing_row_is_none_to_find_and_an_error_to_get(store: Store) -> None:
    assert store.find(Pod, "pod_none") is None
    with pytest.raises(NotFoundError, match="pod pod_none"):
        store.get(Pod, "pod_none")


def test_rows_of_two_kinds_with_one_id_are_two_rows(store: Store) -> None:
    pod, volume = a_pod(id="same"), a_volume(id="same")

    store.commit(Create(pod), Create(volume))

    assert store.get(Pod, "same") == pod
    assert store.get(Volume, "same") == volume


def test_an_id_is_created_once(store: Store) -> None:
    pod = a_pod()
    store.commit(Create(pod))

    with pytest.raises(ConflictError, match=pod.id):
        store.commit(Create(replace(pod, name="other")))

    assert store.get(Pod, pod.id).name == pod.name


def test_promise_10_the_same_commit_twice_is_refused_and_not_doubled(store: Store) -> None:
    pod = a_pod()
    store.commit(Create(pod))
    change = Update(replace(pod, name="renamed"))
    store.commit(change)

    with pytest.raises(ConflictError):
        store.commit(Create(pod))
    with pytest.raises(ConflictError):
        store.commit(change)

    assert store.get(Pod, pod.id).revision == 1


def test_an_update_raises_the_revision_by_one(store: Store) -> None:
    pod = a_pod()
    store.commit(Create(pod))

    store.commit(Update(replace(pod, name="one")))
    store.commit(Update(replace(pod, name="two", revision=1)))

    assert store.get(Pod, pod.id) == replace(pod, name="two", revision=2)


def test_an_update_of_another_revision_is_refused(store: Store) -> None:
    pod = a_pod()
    store.commit(Create(pod))
    store.commit(Update(replace(pod, name="one")))

    with pytest.raises(ConflictError, match=pod.id):
        store.commit(Update(replace(pod, name="late")))
    with pytest.raises(ConflictError):
        store.commit(Update(replace(pod, name="early", revision=2)))

    assert store.get(Pod, pod.id).name == "one"


def test_an_update_of_a_missing_row_is_refused(store: Store) -> None:
    pod = a_pod()

    with pytest.raises(ConflictError):
        store.commit(Update(pod))

    assert store.find(Pod, pod.id) is None


def test_a_delete_removes_only_the_revision_it_names(store: Store) -> None:
    pod = a_pod()
    store.commit(Create(pod))
    store.commit(Update(pod))

    with pytest.raises(ConflictError):
        store.commit(Delete(pod))
    store.commit(Delete(replace(pod, revision=1)))
    assert store.find(Pod, pod.id) is None
    with pytest.raises(ConflictError):
        store.commit(Delete(replace(pod, revision=1)))

    store.commit(Create(pod))
    assert store.get(Pod, pod.id) == pod


def test_a_check_writes_nothing(store: Store) -> None:
    pod, volume = a_pod(), a_volume()
    store.commit(Create(pod))

    store.commit(Check(pod), Create(volume))
    store.commit(Check(pod))

    assert store.get(Pod, pod.id) == pod
    assert store.get(Volume, volume.id) == volume


def test_a_failed_check_refuses_the_whole_commit(store: Store) -> None:
    pod, volume = a_pod(), a_volume()
    store.commit(Create(pod))

    with pytest.raises(ConflictError, match=pod.id):
        store.commit(Create(volume), Check(replace(pod, revision=1)))
    with pytest.raises(ConflictError):
        store.commit(Check(volume))

    assert store.find(Volume, volume.id) is None


def test_a_commit_is_all_or_nothing(store: Store) -> None:
    old, gone, taken, new = a_pod(), a_pod(), a_pod(), a_pod()
    store.commit(Create(old), Create(gone), Create(taken))

    with pytest.raises(ConflictError, match=taken.id):
        store.commit(
            Create(new), Update(replace(old, name="x")), Delete(gone), Create(replace(taken))
        )

    assert store.find(Pod, new.id) is None
    assert store.get(Pod, old.id) == old
    assert store.get(Pod, gone.id) == gone


def test_a_commit_holds_a_hundred_changes_and_no_more(store: Store) -> None:
    commands = [a_command() for _ in range(101)]

    with pytest.raises(InternalError, match="101"):
        store.commit(*map(Create, commands))
    store.commit(*map(Create, commands[:100]))

    assert store.find(Command, commands[99].id) is not None
    assert store.find(Command, commands[100].id) is None


def test_a_commit_names_each_row_once(store: Store) -> None:
    pod = a_pod()

    with pytest.raises(InternalError, match=pod.id):
        store.commit(Create(pod), Update(pod))

    assert store.find(Pod, pod.id) is None


def test_a_commit_without_changes_is_refused(store: Store) -> None:
    with pytest.raises(InternalError, match="at least one"):
        store.commit()


def test_a_row_that_is_too_large_is_refused_whole(store: Store) -> None:
    pod, volume = a_pod(), a_volume(name="x" * 409_600)

    with pytest.raises(InternalError, match=volume.id):
        store.commit(Create(pod), Create(volume))

    assert store.find(Pod, pod.id) is None


def test_a_row_just_below_the_limit_is_taken(store: Store) -> None:
    volume = a_volume(name="x" * 400_000)

    store.commit(Create(volume))

    assert store.get(Volume, volume.id) == volume


def test_a_value_handed_out_is_nobody_elses(store: Store) -> None:
    machine = a_machine()
    store.commit(Create(machine))

    machine.facts["load"] = 99.0
    store.get(Machine, machine.id).facts.clear()

    assert store.get(Machine, machine.id).facts["load"] == 12.0


def test_of_twenty_writers_of_one_new_row_one_wins(contested_store: Store) -> None:
    pods = [a_pod(id="pod_race", name=f"writer {i}") for i in range(WRITERS)]

    results = outcomes([partial(contested_store.commit, Create(pod)) for pod in pods])

    assert results == ["ConflictError"] * (WRITERS - 1) + ["done"]


def test_of_twenty_writers_of_one_revision_one_wins(contested_store: Store) -> None:
    pod = a_pod()
    contested_store.commit(Create(pod))
    updates = [Update(replace(pod, name=f"writer {i}")) for i in range(WRITERS)]

    results = outcomes([partial(contested_store.commit, update) for update in updates])

    assert results == ["ConflictError"] * (WRITERS - 1) + ["done"]
    assert contested_store.get(Pod, pod.id).revision == 1


def test_of_twenty_transactions_over_one_row_one_wins_and_leaves_its_other_row(
    contested_store: Store,
) -> None:
    volume = a_volume()
    contested_store.commit(Create(volume))
    pods = [a_pod() for _ in range(WRITERS)]

    results = outcomes(
        [partial(contested_store.commit, Update(volume), Create(pod)) for pod in pods]
    )

    assert results == ["ConflictError"] * (WRITERS - 1) + ["done"]
    assert sum(contested_store.find(Pod, pod.id) is not None for pod in pods) == 1
    assert contested_store.get(Volume, volume.id).revision == 1


def test_a_counter_kept_by_compare_and_set_loses_no_step(contested_store: Store) -> None:
    volume = a_volume(epoch=0)
    contested_store.commit(Create(volume))

    def raise_epoch() -> None:
        for _ in range(1000):
            current = contested_store.get(Volume, volume.id)
            try:
                contested_store.commit(Update(replace(current, epoch=current.epoch + 1)))
            except ConflictError:
                continue
            return
        raise AssertionError("never won in a thousand tries")

    results = outcomes([raise_epoch] * 10)

    assert results == ["done"] * 10
    assert contested_store.get(Volume, volume.id).epoch == 10


def test_ids_of_the_builders_sort_by_time() -> None:
    assert an_id("pod") < an_id("pod")
