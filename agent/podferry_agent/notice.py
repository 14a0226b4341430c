"""What happens when the machine tells us that it goes away (SIGTERM)."""

import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType

_LOG = logging.getLogger(__name__)

Hook = Callable[[], None]


class TerminationNotice:
    """Runs its hooks once, in order, in a thread of their own so that heartbeats go on.

    The handler only raises a flag: a signal may arrive while any lock is held.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._hooks: list[Hook] = []
        self._is_given = False
        self._has_run = False

    def install(self) -> None:
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def add_hook(self, hook: Hook) -> None:
        self._hooks.append(hook)

    def run_hooks_if_given(self) -> None:
        if not self._is_given or self._has_run:
            return
        self._has_run = True
        _LOG.warning("termination_notice")
        threading.Thread(target=self._run, name="termination", daemon=True).start()

    def _run(self) -> None:
        for hook in self._hooks:
            try:
                hook()
            except Exception:  # noqa: BLE001
                # Seconds are left; the next hook may still save something.
                _LOG.exception("termination_hook_failed")

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._is_given = True
        self._wake()
