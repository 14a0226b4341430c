"""Asks for the saves that are due, so that a silent control plane does not stop them."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from podferry_agent.api import ApiClient
from podferry_agent.errors import ApiError, ApiUnreachableError, WireError
from podferry_agent.wire import Command, SaveReply

_LOG = logging.getLogger(__name__)
_FIRST_RETRY_SECONDS = 15.0
_SHORTEST_SECONDS = 0.2


class SaveTimer:
    """Knows when a save is due; who else begins one, or that one is under way, it is told.

    The answer to its question is a command like those that heartbeats bring. While there is no
    answer it asks again and again, and at once when a heartbeat gets through: an agent alone can
    store nothing, so that is the earliest moment.
    """

    def __init__(
        self, api: ApiClient, accept: Callable[[Command], None], stopping: threading.Event
    ) -> None:
        self._api = api
        self._accept = accept
        self._stopping = stopping
        self._changed = threading.Condition()
        self._interval: int | None = None
        self._due_at = 0.0
        self._running = 0
        self._is_cut_off = False
        self._backoff = api.new_backoff()

    def start(self) -> None:
        threading.Thread(target=self._run, name="save-timer", daemon=True).start()

    def learn(self, interval: int | None) -> None:
        """A heartbeat was answered; `None` says that the pod is not to be saved."""
        with self._changed:
            if self._is_cut_off:
                self._is_cut_off = False
                self._due_at = 0.0
            if interval is not None and interval < (self._interval or 0):
                # The control plane knows best what is left of a shorter interval.
                self._due_at = 0.0
            self._interval = interval
            self._changed.notify_all()

    @contextmanager
    def save(self) -> Iterator[None]:
        """Around a save, whoever asked for it."""
        began_at = time.monotonic()
        with self._changed:
            self._running += 1
        is_good = False
        try:
            yield
            is_good = True
        finally:
            with self._changed:
                self._running -= 1
                wait = float(self._interval or 0)
                retry_at = time.monotonic() + min(wait, _FIRST_RETRY_SECONDS)
                self._due_at = began_at + wait if is_good else retry_at
                self._changed.notify_all()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wait()
            if not self._stopping.is_set():
                self._ask()

    def _wait(self) -> None:
        """Until a save is due and none is under way."""
        with self._changed:
            while True:
                left = self._due_at - time.monotonic()
                is_idle = self._interval is not None and not self._running
                if is_idle and left <= 0:
                    return
                self._changed.wait(left if is_idle else None)

    def _ask(self) -> None:
        try:
            self._take(SaveReply.parse(self._api.post_once("/agent/v1/snapshots", {})))
        except ApiUnreachableError as error:
            _LOG.warning("save_not_begun", extra={"reason": str(error)})
            self._ask_again_in(self._backoff.next_delay(error.retry_after_seconds), cut_off=True)
        except (ApiError, WireError) as error:
            _LOG.error("save_refused", extra={"reason": str(error)})
            self._ask_again_in(_FIRST_RETRY_SECONDS)

    def _take(self, reply: SaveReply) -> None:
        self._backoff.reset()
        if reply.command is None:
            self._ask_again_in(max(_SHORTEST_SECONDS, reply.in_seconds))
            return
        # Should it not begin, because it was done before, the next question tells what is due.
        self._ask_again_in(_FIRST_RETRY_SECONDS)
        self._accept(reply.command)

    def _ask_again_in(self, seconds: float, *, cut_off: bool = False) -> None:
        with self._changed:
            self._is_cut_off = cut_off
            self._due_at = time.monotonic() + seconds
