"""How long a machine may be silent, by what its provider says of it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from podferry.domain.loss import PATIENCE, PATIENCE_WHEN_DOOMED, Word, is_doomed, is_lost
from podferry.domain.machine import Notice, NoticeKind
from tests.contract.entities import NOW, a_machine

SECOND = timedelta(seconds=1)


def told(kind, at=NOW, **said):
    return a_machine(notice=Notice(kind=kind, source="test", at=at, **said))


@pytest.mark.parametrize("word", list(Word))
def test_patience_ends_after_and_not_at_its_time(word):
    machine = a_machine()
    assert not is_lost(machine, word, PATIENCE[word], NOW)
    assert is_lost(machine, word, PATIENCE[word] + SECOND, NOW)


@pytest.mark.parametrize("word", list(Word))
def test_a_machine_that_said_so_has_less_of_it_once_its_time_is_over(word):
    machine = told(NoticeKind.RECLAIM, deadline_at=NOW)
    silence = PATIENCE_WHEN_DOOMED[word] + SECOND
    assert is_lost(machine, word, silence, NOW)
    assert not is_lost(machine, word, silence, NOW - SECOND)
    assert not is_lost(a_machine(), word, silence, NOW)


def test_without_a_deadline_a_notice_is_over_after_half_a_minute():
    machine = told(NoticeKind.SHUTDOWN)
    assert not is_doomed(machine, NOW + timedelta(seconds=29))
    assert is_doomed(machine, NOW + timedelta(seconds=30))


def test_a_machine_that_will_be_maintained_or_was_told_nothing_is_not_doomed():
    later = NOW + timedelta(days=1)
    assert not is_doomed(told(NoticeKind.MAINTENANCE, deadline_at=NOW), later)
    assert not is_doomed(replace(told(NoticeKind.RECLAIM), notice=None), later)
