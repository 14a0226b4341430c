"""Switches that make a simulated provider misbehave in the ways real ones do.

Counted (next N, until cleared, or for some seconds):
  create_500_but_exists      the create answers 500, but the instance exists and is billed
  create_500_not_created     the create answers 500, and there is nothing
  create_timeout             the instance exists, but the connection is dropped without an answer
  create_ok_but_nothing      the create answers like a good one, and there is nothing
  offer_gone                 the offer is gone at the moment of the create
  boot_fails                 the instance ends up failed instead of booting on
  delete_fails               the delete answers 500, and the instance stands
  delete_says_ok_but_stands  the delete answers like a good one, and the instance stands
  delete_not_now             the delete does not fit the instance's state
  late_refusal               the create is taken, and refused after it was answered
  outbid                     an instance that was rented by bid and runs is outbid
  proxy_page                 any request meets a broken proxy: 502, and a page of HTML
  rate_limit                 any request of the wire API answers 429
  ssh_wrong_key              a machine that is logged in to was given another key
  ssh_drops                  its first connection that sends something is cut in the middle
  ssh_dies                   it ends once something was sent to it
  ssh_changes_key            it shows another host key after the first login
Others:
  no_capacity (true)         nothing is on offer, and nothing can be created
  unauthorised (true)        the key is not accepted
  account_limit (true)       the account may not rent what is on offer
  boot_never (true, or "pulling" for the second half of the boot)   boots stand still
  slow_boot_seconds (N)      boots take N seconds longer
  listing_lag_seconds (N)    lists do not show instances younger than N seconds; a single get does
  get_lag_seconds (N)        single gets and deletes do not know younger instances
  status_says (a word)       every instance is shown with this status
  terminating_seconds (N)    what was ended is shown as ending for N seconds
  price_bump (factor)        the contract is dearer than the offer
  ssh_late_seconds (N)       SSH answers N seconds later than the machine is up
  page_size (1 to 25)        lists come in smaller pages
  min_interval (true, or {"create": seconds, ...})   two calls too close: 429

Not every provider goes wrong in each of them: its class says in `own_faults` which of the peculiar
ones it knows, and in `unsupported_faults` which of the others it does not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class FaultError(ValueError):
    """There is no such switch, or it does not take this value."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_count(value: object) -> bool:
    if isinstance(value, dict):
        return set(value) == {"seconds"} and _is_number(value["seconds"])
    return value is True or (_is_number(value) and isinstance(value, int))


def _is_intervals(value: object) -> bool:
    if value is True:
        return True
    return isinstance(value, dict) and all(_is_number(seconds) for seconds in value.values())


@dataclass(frozen=True, slots=True)
class _Kind:
    accepts: Callable[[object], bool]
    wanted: str


_COUNT = _Kind(_is_count, 'a whole number (next N), true (until cleared) or {"seconds": N}')
_NUMBER = _Kind(_is_number, "a number >= 0")
_FLAG = _Kind(lambda value: value is True, "true")
_STUCK = _Kind(lambda value: value in (True, "pulling"), 'true or "pulling"')
_WORD = _Kind(lambda value: isinstance(value, str) and value.isidentifier(), "a word")
_PAGE = _Kind(lambda value: _is_number(value) and value in range(1, 26), "1 to 25")
_INTERVALS = _Kind(_is_intervals, 'true (documented ones) or {"create": seconds, ...}')

KINDS: Mapping[str, _Kind] = {
    "create_500_but_exists": _COUNT,
    "create_500_not_created": _COUNT,
    "create_timeout": _COUNT,
    "create_ok_but_nothing": _COUNT,
    "offer_gone": _COUNT,
    "boot_fails": _COUNT,
    "delete_fails": _COUNT,
    "delete_says_ok_but_stands": _COUNT,
    "delete_not_now": _COUNT,
    "late_refusal": _COUNT,
    "outbid": _COUNT,
    "proxy_page": _COUNT,
    "rate_limit": _COUNT,
    "ssh_wrong_key": _COUNT,
    "ssh_drops": _COUNT,
    "ssh_dies": _COUNT,
    "ssh_changes_key": _COUNT,
    "no_capacity": _FLAG,
    "unauthorised": _FLAG,
    "account_limit": _FLAG,
    "boot_never": _STUCK,
    "slow_boot_seconds": _NUMBER,
    "listing_lag_seconds": _NUMBER,
    "get_lag_seconds": _NUMBER,
    "status_says": _WORD,
    "terminating_seconds": _NUMBER,
    "ssh_late_seconds": _NUMBER,
    "price_bump": _NUMBER,
    "page_size": _PAGE,
    "min_interval": _INTERVALS,
}
PECULIAR = frozenset(
    {
        "account_limit",
        "delete_not_now",
        "get_lag_seconds",
        "late_refusal",
        "outbid",
        "ssh_changes_key",
        "ssh_dies",
        "ssh_drops",
        "ssh_late_seconds",
        "ssh_wrong_key",
        "status_says",
        "terminating_seconds",
    }
)
"""Switches of those simulators only that name them in `own_faults`."""


class Faults:
    """The switches of one simulator. They are gone after its restart."""

    def __init__(self, unsupported: frozenset[str] = frozenset()) -> None:
        self._known = {name: kind for name, kind in KINDS.items() if name not in unsupported}
        self._values: dict[str, Any] = {}
        self._until: dict[str, float] = {}
        self._lock = threading.Lock()

    def set(self, values: Mapping[str, Any]) -> None:
        """Turn switches on; all or none.

        Raises:
            FaultError: with the names that exist, or the values that one takes.
        """
        for name, value in values.items():
            if name not in self._known:
                known = ", ".join(sorted(self._known))
                raise FaultError(f"{name}: no such fault here; known are {known}")
            if not self._known[name].accepts(value):
                raise FaultError(f"{name}: {value!r} is not {self._known[name].wanted}")
        with self._lock:
            for name, value in values.items():
                self._values[name] = value
                if isinstance(value, dict) and "seconds" in value:
                    self._until[name] = time.monotonic() + value["seconds"]

    def clear(self, name: str | None = None) -> None:
        """Turn one switch off, or all."""
        with self._lock:
            for each in [name] if name else list(self._values):
                self._values.pop(each, None)
                self._until.pop(each, None)

    def take(self, name: str) -> bool:
        """Tell whether a counted fault strikes now, and use one of its strikes up."""
        with self._lock:
            value = self._values.get(name)
            if isinstance(value, dict):
                return time.monotonic() < self._until[name]
            if value is True:
                return True
            if not value:
                return False
            self._values[name] = value - 1
            return True

    def value(self, name: str) -> Any:
        """The value of a switch, None if it is off."""
        with self._lock:
            return self._values.get(name)

    def number(self, name: str, default: float = 0.0) -> float:
        value = self.value(name)
        return default if value is None else float(value)

    def names(self) -> list[str]:
        """The switches that there are here."""
        return sorted(self._known)

    def active(self) -> dict[str, Any]:
        with self._lock:
            return dict(self._values)
