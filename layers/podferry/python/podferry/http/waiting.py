"""`Prefer: wait=n`: hold the answer until the thing has ended, for a short while."""

import re
from collections.abc import Callable
from typing import TypeVar

from podferry.http.call import Call

T = TypeVar("T")

_WAIT = re.compile(r"(?:^|,)\s*wait\s*=\s*\"?([0-9]{1,9})\"?\s*(?:[,;]|$)", re.IGNORECASE)
LONGEST_WAIT_SECONDS = 25
"""An HTTP API gives up on a function after 30 seconds."""
KEPT_BACK_SECONDS = 2.0
"""Of the function's own time, to answer in."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 1.0


def wait_for(
    call: Call, prefer: str | None, look: Callable[[], T], has_ended: Callable[[T], bool]
) -> T:
    """What `look` sees once it has ended, or when the caller's patience or our time is over."""
    seen = look()
    left = _patience_seconds(call, prefer)
    pause = _FIRST_PAUSE
    while not has_ended(seen) and left > 0:
        pause = min(pause, left, _LONGEST_PAUSE)
        call.pause(pause)
        left = min(left - pause, call.remaining_seconds() - KEPT_BACK_SECONDS)
        seen = look()
        pause *= 2
    return seen


def _patience_seconds(call: Call, prefer: str | None) -> float:
    wish = _WAIT.search(prefer or "")
    if wish is None:
        return 0
    return min(int(wish[1]), LONGEST_WAIT_SECONDS, call.remaining_seconds() - KEPT_BACK_SECONDS)
