"""Samples the box while its pod has an idle policy, and says for how long it has been idle."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from podferry_agent.idle.usage import Sample
from podferry_agent.idle.window import State, Window

_LOG = logging.getLogger(__name__)

SAMPLES_PER_WINDOW = 20
# A span that is longer was not watched: the box was suspended, or we were.
_LONGEST_SPAN_PERIODS = 3

# What counts as use, in the unit of the signal.
THRESHOLDS = {
    # More than a single sample of full use (case A8).
    "gpu": 6.0,
    "cpu": 10.0,
    "network": 10_000.0,
    # One session in one sample of the window is enough: it is somebody, not noise.
    "ssh": 1.0 / (2 * SAMPLES_PER_WINDOW),
    "processes": 6.0,
}


@dataclass(slots=True)
class _Tracked:
    """One signal, and since when it has been as it is."""

    window: Window
    state: State
    since: float

    def add(self, start: float, end: float, value: float | None) -> None:
        self.window.add(start, end, value)
        state = self.window.state
        if state != self.state:
            self.state, self.since = state, end

    def report(self, signal: str, now: float) -> dict[str, object]:
        return {
            "signal": signal,
            "state": self.state,
            "for_seconds": round(now - self.since, 3),
            "level": self.window.level,
        }


class ActivityWatch:
    """Asleep until a heartbeat brings the signals that count.

    Its verdict is the agent's half; the control plane has its own. After a restart of the agent
    the idle time begins anew: what nobody watched is not known.
    """

    def __init__(
        self,
        sample: Callable[[float], Sample],
        is_working: Callable[[], bool],
        stopping: threading.Event,
        window_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sample = sample
        self._is_working = is_working
        self._stopping = stopping
        self._clock = clock
        self._window_seconds = window_seconds
        self._period = window_seconds / SAMPLES_PER_WINDOW
        self._changed = threading.Condition()
        self._counted: tuple[str, ...] | None = None
        self._tracked: dict[str, _Tracked] = {}
        self._sampled_at = 0.0
        self._idle_since: float | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="activity", daemon=True).start()

    def learn(self, counted: tuple[str, ...] | None) -> None:
        """A heartbeat was answered; `None` says that the pod is not to be stopped when idle."""
        with self._changed:
            if counted == self._counted:
                return
            if self._counted is None:
                self._begin(self._clock())
            self._counted, self._idle_since = counted, None
            self._changed.notify_all()

    def report(self) -> dict[str, object] | None:
        """For the heartbeat; `None` if nobody asked."""
        is_working = self._is_working()
        with self._changed:
            if self._counted is None:
                return None
            now = self._clock()
            if now - self._sampled_at > _LONGEST_SPAN_PERIODS * self._period:
                self._begin(now)
            if is_working:
                self._idle_since = None
            idle_since = self._idle_since
            return {
                "counted": list(self._counted),
                "idle_seconds": None if idle_since is None else round(now - idle_since, 3),
                "readings": [one.report(name, now) for name, one in self._tracked.items()],
            }

    def take(self) -> None:
        """One sample, of the time since the one before. The thread does this again and again."""
        before, now = self._sampled_at, self._clock()
        elapsed = now - before
        if elapsed <= 0:
            return
        # Reading takes time; nobody is kept waiting for it.
        sample, is_working = self._sample(elapsed), self._is_working()
        was_watched = elapsed <= _LONGEST_SPAN_PERIODS * self._period
        with self._changed:
            if self._counted is None or self._sampled_at != before:
                return
            for signal, tracked in self._tracked.items():
                tracked.add(before, now, sample[signal] if was_watched else None)
            self._sampled_at = now
            self._judge(now, is_working=is_working)

    def _begin(self, now: float) -> None:
        """Nothing is known."""
        self._tracked = {
            signal: _Tracked(Window(self._window_seconds, threshold), "unknown", now)
            for signal, threshold in THRESHOLDS.items()
        }
        self._sampled_at, self._idle_since = now, None

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._changed:
                while self._counted is None:
                    self._changed.wait()
                self._changed.wait(self._period)
            self.take()

    def _judge(self, now: float, *, is_working: bool) -> None:
        is_quiet = all(self._is_quiet(signal) for signal in self._counted or ())
        if is_working or not is_quiet:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
            _LOG.info("box_idle")

    def _is_quiet(self, signal: str) -> bool:
        tracked = self._tracked.get(signal)
        return tracked is not None and tracked.state == "quiet"
