"""The last seconds of a machine: tell the control plane, then save what can still be saved."""

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from podferry_agent.api import ApiClient
from podferry_agent.commands import CommandRunner
from podferry_agent.errors import ApiError, ApiUnreachableError, WireError
from podferry_agent.snapshot import TimeLimit
from podferry_agent.wire import Command, Notice, NoticeReply

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 0.05
_PAUSE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LastSave:
    """A save that is not settled when the machine goes is not the head, so trying harms nothing."""

    api: ApiClient
    runner: CommandRunner
    limit: TimeLimit
    stopping: threading.Event

    def tell(self, notice: Notice, deadline: float) -> Command | None:
        """Say it, until it is heard or `deadline` has come; the answer is the save to make."""
        backoff = self.api.new_backoff()
        while not self.stopping.is_set() and time.monotonic() < deadline:
            try:
                reply = self.api.post_once("/agent/v1/notice", notice.to_json())
                return NoticeReply.parse(reply).command
            except ApiUnreachableError as error:
                _LOG.warning("notice_not_heard", extra={"reason": str(error)})
                self.stopping.wait(backoff.next_delay(error.retry_after_seconds))
            except (ApiError, WireError) as error:
                _LOG.error("notice_refused", extra={"reason": str(error)})
                return None
        return None

    def make(self, notice: Notice, deadline: float) -> None:
        """Tell, then save once from now on: one that was under way misses what is newer."""
        while True:
            command = self.tell(notice, deadline)
            if command is None:
                return
            is_known = self.runner.knows(command.id)
            if is_known and not self._is_running(command.id):
                # Its end is still on the way up; until then there is no other save.
                self.stopping.wait(_LOOK_SECONDS)
                continue
            self.runner.accept(command)
            if not self._wait(command.id, deadline) or not is_known or self.limit.is_spent:
                return

    def make_until(self, notice: Notice, deadline: float) -> None:
        """A save that is sealed before `deadline`, with what it has; so is one under way."""
        self.limit.end_in(deadline - time.monotonic())
        self.make(notice, deadline)

    def make_until_one_of(self, notice: Notice, deadlines: Iterable[float]) -> None:
        """Nobody says how long there is: one for the shortest time; if it is partial, another."""
        for deadline in deadlines:
            cuts = self.limit.cuts
            self.make_until(notice, deadline)
            if self.limit.cuts == cuts or self.stopping.is_set():
                return

    def keep_making(self, notice: Notice, deadline: float) -> None:
        """Save again and again until the machine goes: the pod's programs go on meanwhile."""
        while True:
            self.make_until(notice, deadline)
            is_over = time.monotonic() + _PAUSE_SECONDS > deadline
            if is_over or self.stopping.wait(_PAUSE_SECONDS):
                return

    def _is_running(self, command_id: str) -> bool:
        return any(context.command.id == command_id for context in self.runner.running())

    def _wait(self, command_id: str, deadline: float) -> bool:
        """Whether the save ended in time."""
        while self._is_running(command_id):
            if time.monotonic() > deadline or self.stopping.wait(_LOOK_SECONDS):
                return False
        return True
