"""However old a save is, it does not expire while something may still point to it."""

from dataclasses import replace

import pytest
from yard import Yard

from podferry.domain.pod import Pod
from podferry.domain.saving import SaveKind
from podferry.domain.volume import Volume
from podferry.ports.store import Update
from podferry.services.saves.thin import ThinSaves

LONG_AGO = 40
"""Days; after 30 no save is kept for its age."""


@pytest.fixture
def yard():
    return Yard()


def a_save(yard, volume, *, kind=SaveKind.BACKGROUND, label=None, is_whole=False):
    save = yard.save(volume, is_whole=is_whole)
    yard.store.commit(Update(replace(yard.snapshot(save), save_kind=kind, label=label)))
    yard.pass_days(1)
    return save


def expired_after_long(yard, volume):
    """Thin the saves; those that have expired."""
    yard.pass_days(LONG_AGO)
    ThinSaves(yard.records).run_if_due(yard.store.get(Volume, volume))
    return {one.id for one in yard.snapshots() if one.expired_at is not None}


def test_promise_08_the_head_is_kept_however_old_it_is(yard):
    """Its machine may have failed to save for a month."""
    volume = yard.volume()
    older = a_save(yard, volume)
    a_save(yard, volume)
    assert expired_after_long(yard, volume) == {older}


def test_the_newest_stop_is_kept_and_older_ones_are_not(yard):
    volume = yard.volume()
    older, _ = (a_save(yard, volume, kind=SaveKind.STOP) for _ in range(2))
    background = a_save(yard, volume)
    a_save(yard, volume)
    assert expired_after_long(yard, volume) == {older, background}


def test_a_save_with_a_label_is_kept(yard):
    volume = yard.volume()
    a_save(yard, volume, label="before the upgrade")
    plain = a_save(yard, volume)
    a_save(yard, volume)
    assert expired_after_long(yard, volume) == {plain}


def test_case_s12_what_an_open_save_builds_on_is_kept_until_that_one_is_given_up(yard):
    volume = yard.volume()
    parent = a_save(yard, volume)
    begun = yard.begin(volume)
    a_save(yard, volume, is_whole=True)
    assert expired_after_long(yard, volume) == set()
    yard.abandon(begun)
    assert expired_after_long(yard, volume) == {parent}


def test_what_the_operation_at_work_restores_is_kept_until_it_ends(yard):
    pod = yard.world.launch()
    volume = pod.volume_id
    restored = a_save(yard, volume)
    a_save(yard, volume)
    operation = yard.operation(restored)
    yard.store.commit(Update(replace(yard.world.pod(pod), operation_id=operation.id)))
    assert expired_after_long(yard, volume) == set()
    yard.store.commit(Update(replace(yard.store.get(Pod, pod.id), operation_id=None)))
    assert expired_after_long(yard, volume) == {restored}
