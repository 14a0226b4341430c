"""Policy around an adapter: politeness, retries, logs and counters.

The adapters only translate. `wrapped` puts around one, from the inside out: what it does is seen
(`ObservedCloud`), its calls keep their distance (`PacedCloud`), safe ones are tried again
(`RetryingCloud`).
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from podferry.adapters.providers.registry import EVERY_CALL, ProviderAdapter
from podferry.domain.errors import PodferryError, ProviderBusyError
from podferry.ports.gpu_cloud import GpuCloud
from podferry.ports.surroundings import Signals
from podferry.ports.wrapped_cloud import WrappedCloud

_LOGGER = logging.getLogger(__name__)
_ATTEMPTS = 3
# A step of a workflow waits better than a function that is paid by the second.
_BUDGET_SECONDS = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """Time, as far as a wrapper needs it; tests hand in another."""

    monotonic: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)


def wrapped(cloud: ProviderAdapter, signals: Signals, pause: Pause | None = None) -> GpuCloud:
    """The adapter with everything around it that production wants."""
    pause = pause or Pause()
    observed = ObservedCloud(cloud, signals, pause)
    return RetryingCloud(PacedCloud(observed, cloud.min_interval_seconds, pause), pause)


class RetryingCloud(WrappedCloud):
    """Tries calls that are safe to repeat again while the provider is busy; `create` never."""

    def __init__(self, inner: GpuCloud, pause: Pause) -> None:
        super().__init__(inner)
        self._pause = pause

    def _around(self, call_name: str, call: Callable[[], T]) -> T:
        if call_name == "create":
            return call()
        deadline = self._pause.monotonic() + _BUDGET_SECONDS
        for _ in range(_ATTEMPTS - 1):
            try:
                return call()
            except ProviderBusyError as error:
                # Coming back too early makes some providers wait longer still.
                if self._pause.monotonic() + error.retry_after_seconds > deadline:
                    raise
                self._pause.sleep(error.retry_after_seconds)
        return call()


class PacedCloud(WrappedCloud):
    """Keeps minimum intervals between calls, of one method and of any, in this process.

    After a "busy" answer the interval is what the provider asked for.
    """

    def __init__(self, inner: GpuCloud, intervals: Mapping[str, float], pause: Pause) -> None:
        super().__init__(inner)
        self._intervals = intervals
        self._pause = pause
        self._lock = threading.Lock()
        self._free_at: dict[str, float] = {}

    def _around(self, call_name: str, call: Callable[[], T]) -> T:
        wait = self._reserve(call_name)
        if wait > 0:
            self._pause.sleep(wait)
        try:
            return call()
        except ProviderBusyError as error:
            self._keep_away(call_name, error.retry_after_seconds)
            raise
        finally:
            self._end(call_name)

    def _reserve(self, call_name: str) -> float:
        """Take the next free moment and say how far away it is."""
        names = (call_name, EVERY_CALL)
        with self._lock:
            now = self._pause.monotonic()
            start = max(now, *(self._free_at.get(name, now) for name in names))
            if start - now > _BUDGET_SECONDS:
                raise ProviderBusyError(
                    f"too many calls to {self.name} are waiting",
                    retry_after_seconds=start - now,
                )
            for name in names:
                self._free_at[name] = start + self._intervals.get(name, 0.0)
        return start - now

    def _keep_away(self, call_name: str, seconds: float) -> None:
        """Until the provider wants to be asked again, whoever asks next is told so, not it."""
        with self._lock:
            free_at = self._pause.monotonic() + seconds
            self._free_at[call_name] = max(self._free_at.get(call_name, free_at), free_at)

    def _end(self, call_name: str) -> None:
        """The provider counts from when a request arrives, which may be late in the call."""
        now = self._pause.monotonic()
        with self._lock:
            for name in (call_name, EVERY_CALL):
                free_at = now + self._intervals.get(name, 0.0)
                self._free_at[name] = max(self._free_at[name], free_at)


class ObservedCloud(WrappedCloud):
    """Logs every call and counts outcomes, as `provider.<name>.<ok or the error's code>`."""

    def __init__(self, inner: GpuCloud, signals: Signals, pause: Pause) -> None:
        super().__init__(inner)
        self._signals = signals
        self._pause = pause

    def _around(self, call_name: str, call: Callable[[], T]) -> T:
        started = self._pause.monotonic()
        outcome = "internal"
        detail = None
        try:
            result = call()
            outcome = "ok"
        except PodferryError as error:
            outcome, detail = error.code, error.detail
            raise
        finally:
            self._record(call_name, outcome, detail, self._pause.monotonic() - started)
        return result

    def _record(self, call_name: str, outcome: str, detail: str | None, seconds: float) -> None:
        self._signals.count(f"provider.{self.name}.{outcome}")
        level = logging.INFO if outcome == "ok" else logging.WARNING
        keys = {
            "provider": self.name,
            "call": call_name,
            "outcome": outcome,
            "detail": detail,
            "duration_seconds": round(seconds, 3),
        }
        _LOGGER.log(level, "provider call", extra=keys)
