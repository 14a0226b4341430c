"""How a volume is saved while its pod runs: when the next save is due, and how the saves go.

A pod loses at most its interval (promise 8): saves begin that far apart, and one that failed is
tried again sooner.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from podferry.domain.pod import Failure

FIRST_RETRY = timedelta(seconds=15)
PATIENCE = timedelta(seconds=60)
"""What a save may take beyond its time before somebody is told."""
LONGEST_QUIET_SAVE = timedelta(hours=1)
"""For so long a save that is under way keeps the alarm silent: a first one may be large."""
FULL_AFTER = 3
DAMAGED = frozenset({"snapshot_missing", "snapshot_corrupt"})


class SaveKind(StrEnum):
    """What made a save."""

    STOP = "stop"
    BACKGROUND = "background"
    MANUAL = "manual"
    RECLAIM = "reclaim"
    """Made in the last seconds of a machine that was told that it goes."""


class SaveState(StrEnum):
    """The word for how the saves of a pod go."""

    SAVED = "saved"
    FAILING = "failing"
    NEVER_SAVED = "never_saved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The saves of a volume by one machine; the next machine begins with a clean one."""

    epoch: int = 0
    open_id: str | None = None
    """The one save that is under way."""
    begun_at: datetime | None = None
    """When the newest save began, however it ended."""
    asked_by: str | None = None
    """The operation whose save begins as soon as none is open."""
    failures: int = 0
    """In a row, up to now."""
    error: Failure | None = None
    """Of the last one, if it failed."""
    is_overdue: bool = False
    """It was told that no good save has come for too long."""


def due_at(saving: Saving, ready_at: datetime, interval: timedelta) -> datetime:
    """When the next save should begin, if none is open."""
    if saving.failures and saving.error is not None:
        delay: timedelta = FIRST_RETRY * 2 ** min(saving.failures - 1, 16)
        return saving.error.at + min(interval, delay)
    return (saving.begun_at or ready_at) + interval


def overdue_at(saving: Saving, good_at: datetime, interval: timedelta) -> datetime:
    """When somebody has to be told that there is no newer save than that of `good_at`."""
    patience = 2 * interval + PATIENCE
    if saving.open_id is not None:
        patience = max(patience, LONGEST_QUIET_SAVE)
    return good_at + patience


def needs_whole_save(saving: Saving) -> bool:
    """Saves that build on a damaged one are damaged, too; one without a parent ends that."""
    error = saving.error
    return saving.failures >= FULL_AFTER and error is not None and error.code in DAMAGED


def save_state(saving: Saving, head: str | None, *, is_running: bool) -> SaveState:
    """The word; failures count only while there is a machine whose work could be lost."""
    if is_running and (saving.failures or saving.is_overdue):
        return SaveState.FAILING
    return SaveState.NEVER_SAVED if head is None else SaveState.SAVED
