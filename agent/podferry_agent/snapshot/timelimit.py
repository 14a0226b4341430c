"""How long captures may take, once it is known that the machine goes."""

import time

from podferry_agent.snapshot.errors import OutOfTimeError

# Parts of the time that is left: the last one is for pages, root and hand-in, the one before it
# for what is on its way. Each with its least and its most seconds.
_SEAL = (0.2, 1.5, 6.0)
_SEND = (0.1, 0.5, 3.0)
_SHORTEST = 2.5


class TimeLimit:
    """Set by whoever learns of the machine's end, also while a capture runs.

    While it is set, a live capture reads the newest files first and is sealed before the end with
    what it has: a *partial* save. After the end it is as if it had never been set: the machine is
    still there.
    """

    def __init__(self) -> None:
        # reads until, sends until, ends at; one assignment, so that no thread sees half of it.
        self.times = (0.0, 0.0, 0.0)
        self.cuts = 0  # captures that were sealed or given up before they had everything

    def end_in(self, seconds: float) -> None:
        """Captures have to be over then; too little time for a seal changes nothing."""
        if seconds < _SHORTEST:
            return
        ends = time.monotonic() + seconds
        sends = ends - _part(seconds, _SEAL)
        self.times = (sends - _part(seconds, _SEND), sends, ends)

    @property
    def is_set(self) -> bool:
        return self.times[2] > 0.0 and time.monotonic() < self.times[2]

    @property
    def is_spent(self) -> bool:
        """Whether it is set and too near for another capture."""
        return self.is_set and time.monotonic() >= self.times[0]

    def begin(self) -> "Span":
        """For one run of a capture, or for one upload."""
        return Span(self)


class Span:
    """One run: in a hurry if the end was known when it began; if not, over as soon as it is."""

    def __init__(self, limit: TimeLimit) -> None:
        self.is_hurried = limit.is_set
        self._limit = limit
        self._began = time.monotonic()

    def check_reading(self) -> None:
        """Raises `OutOfTimeError` when no more is to be read."""
        self._check(0)

    def check_sending(self) -> None:
        """Raises `OutOfTimeError` when uploads are not waited for any longer."""
        self._check(1)

    @property
    def is_over(self) -> bool:
        """Whether uploads are not waited for any longer."""
        return self._is_over(1)

    def seconds_to_read(self) -> float:
        """Of a hurried run."""
        return max(0.0, self._limit.times[0] - time.monotonic())

    def seconds_to_send(self) -> float:
        """Of a hurried run."""
        return max(0.0, self._limit.times[1] - time.monotonic())

    def seconds_left(self) -> float:
        """Of a hurried run: until it has to be over."""
        return max(0.0, self._limit.times[2] - time.monotonic())

    def has_used(self, share: float) -> bool:
        """Whether this part of the time for reading is over, counted from the run's beginning."""
        now, until = time.monotonic(), self._limit.times[0]
        return now - self._began >= share * (until - self._began)

    def note_cut(self) -> None:
        self._limit.cuts += 1

    def _check(self, place: int) -> None:
        if self._is_over(place):
            raise OutOfTimeError("the machine goes; there was no time for more")

    def _is_over(self, place: int) -> bool:
        if not self.is_hurried:
            return self._limit.is_set
        return time.monotonic() >= self._limit.times[place]


def _part(seconds: float, rule: tuple[float, float, float]) -> float:
    share, least, most = rule
    return min(most, max(least, share * seconds))
