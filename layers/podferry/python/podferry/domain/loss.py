"""When a silent machine counts as lost.

Silence alone proves nothing, and neither does the provider's word alone: it takes both. A machine
that its provider shows as running is never lost, however long it is silent: its user decides.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from podferry.domain.entity import Entity
from podferry.domain.machine import Machine, NoticeKind
from podferry.domain.state_word import SILENCE


class Word(StrEnum):
    """What the provider says of a machine whose agent is silent."""

    GONE = "gone"
    """It has ended, or two complete listings did not show it."""
    HALTED = "halted"
    """It is there and does not run."""
    RECLAIMED = "reclaimed"
    """It is there and does not run, because somebody else has its place: a bid was topped.

    It may come back by itself, but without the pod's programs, and nobody knows when. So it is lost
    as soon as one that is gone, and is ended before it wakes up.
    """
    NO_ANSWER = "no_answer"


PATIENCE = {
    Word.GONE: SILENCE,
    Word.RECLAIMED: SILENCE,
    Word.HALTED: timedelta(minutes=3),
    Word.NO_ANSWER: timedelta(minutes=15),
}
PATIENCE_WHEN_DOOMED = {
    Word.GONE: timedelta(seconds=20),
    Word.RECLAIMED: timedelta(seconds=20),
    Word.HALTED: timedelta(seconds=20),
    Word.NO_ANSWER: timedelta(minutes=3),
}
SHORTEST_PATIENCE = min(PATIENCE_WHEN_DOOMED.values())
UNSAID_DEADLINE = timedelta(seconds=30)
LONGEST_GAP = timedelta(minutes=3)
"""Between two looks of one watch; they come each minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch(Entity):
    """Since when somebody has looked without a break.

    While the control plane itself is down no machine can be heard. What was silent then has the
    whole patience from the moment it is back.
    """

    PREFIX: ClassVar[str] = "watch"

    since: datetime
    looked_at: datetime


def is_doomed(machine: Machine, now: datetime) -> bool:
    """Whether the machine said that it would go, and should have gone by now."""
    notice = machine.notice
    if notice is None or notice.kind == NoticeKind.MAINTENANCE:
        return False
    return now >= (notice.deadline_at or notice.at + UNSAID_DEADLINE)


def is_lost(machine: Machine, word: Word, silence: timedelta, now: datetime) -> bool:
    """Whether the machine's silence is long enough for what its provider says."""
    patience = PATIENCE_WHEN_DOOMED if is_doomed(machine, now) else PATIENCE
    return silence > patience[word]
