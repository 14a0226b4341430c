"""The loop that carries health, progress and ends up, and commands down."""

import logging
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from podferry_agent.api import ApiClient
from podferry_agent.commands import CommandRunner
from podferry_agent.errors import (
    ApiError,
    ApiUnreachableError,
    EpochStaleError,
    WireError,
)
from podferry_agent.metrics import Metrics
from podferry_agent.retry import Backoff
from podferry_agent.wire import Command, HeartbeatReply
from podferry_agent.workload import Workload

_LOG = logging.getLogger(__name__)
_SHORTEST_SECONDS = 0.05
_LONGEST_SECONDS = 60.0


class Wakeup:
    """Ends the wait between two beats. A signal handler may call it: SimpleQueue is reentrant."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        self._queue.put(None)

    def wait(self, seconds: float) -> None:
        try:
            self._queue.get(timeout=seconds)
            while True:
                self._queue.get_nowait()
        except queue.Empty:
            return


@dataclass(slots=True)
class Heartbeat:
    """`run` returns when `is_over` says so.

    A beat that failed is not repeated as it was: the next one says the same and more.
    """

    api: ApiClient
    boot_id: str
    workload: Workload
    metrics: Metrics
    runner: CommandRunner
    activity: Callable[[], dict[str, object] | None]
    wakeup: Wakeup
    is_over: Callable[[], bool]
    on_answer: Callable[[HeartbeatReply], None]
    _sequence: int = 0
    _backoff: Backoff = field(init=False)

    def __post_init__(self) -> None:
        self._backoff = self.api.new_backoff()

    def run(self, first_interval: float) -> None:
        """Raises: EpochStaleError when the pod belongs to another machine."""
        interval = first_interval
        while not self.is_over():
            interval = self.beat() or self._backoff.next_delay()
            if not self.is_over():
                self.wakeup.wait(interval)

    def beat(self) -> float | None:
        """The seconds to the next beat; None if this one failed."""
        self._sequence += 1
        started_at = time.monotonic()
        try:
            reply = HeartbeatReply.parse(self.api.post_once("/agent/v1/heartbeat", self.build()))
        except EpochStaleError:
            raise
        except (ApiUnreachableError, ApiError, WireError) as error:
            # Not even a refused token ends the agent: it may be the control plane that is wrong,
            # and the user's data is on this machine.
            _LOG.warning("heartbeat_failed", extra={"reason": str(error)})
            return None
        self._backoff.reset()
        self.on_answer(reply)
        self.runner.forget(reply.forget)
        for command in reply.commands:
            self._accept(command)
        elapsed = time.monotonic() - started_at
        return min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, reply.heartbeat_seconds - elapsed))

    def _accept(self, command: Command) -> None:
        try:
            self.runner.accept(command)
        except WireError as error:
            # Not even its id can be used, so there is nothing to report it under.
            _LOG.error("command_refused", extra={"reason": str(error)})

    def build(self) -> dict[str, object]:
        self.workload.log.trim()
        return {
            "sequence": self._sequence,
            "boot_id": self.boot_id,
            "workload": self.workload.status().to_json(),
            "metrics": self.metrics.read(),
            "activity": self.activity(),
            "commands": self.runner.reports(),
        }
