"""Who may do interpreter work: few at a time, so that the others find it free when they need it."""

import threading
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

_T = TypeVar("_T")
_TAKEN_AT_ONCE = 200


class Turns:
    """A semaphore that is given in the order in which it was asked for.

    Walking and opening small files are mostly interpreter work. Side by side they only pass the
    interpreter's lock to each other, at each system call, while nobody compresses. An ordinary
    semaphore goes to whoever runs at that moment: the walk would have it until it ends.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1

    def each(self, items: Iterator[_T]) -> Iterator[_T]:
        """The items, some at a turn."""
        while True:
            with self:
                taken = list(islice(items, _TAKEN_AT_ONCE))
            yield from taken
            if len(taken) < _TAKEN_AT_ONCE:
                return
