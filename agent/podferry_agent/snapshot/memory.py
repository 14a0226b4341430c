"""How the process manages memory while the engine works."""

import ctypes
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_libc = ctypes.CDLL(None)
_lock = threading.Lock()
_runs = 0


@contextmanager
def for_big_buffers() -> Iterator[None]:
    """Keep freed blocks of a few MiB mapped, and collect no cycles; afterwards give all back.

    Otherwise the C library maps and unmaps each block, and the kernel clears its pages each time,
    which costs a tenth of a capture; and the collector looks at every entry again and again.
    """
    _begin()
    try:
        yield
    finally:
        _end()


def _begin() -> None:
    global _runs  # noqa: PLW0603 (as the collector, it belongs to the process)
    with _lock:
        _runs += 1
        gc.disable()
        if hasattr(_libc, "mallopt"):  # glibc; others have no such setting
            _libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
            _libc.mallopt(_M_TRIM_THRESHOLD, 1 << 30)
            _libc.mallopt(_M_TOP_PAD, 16 << 20)


def _end() -> None:
    global _runs  # noqa: PLW0603
    with _lock:
        _runs -= 1
        if _runs:
            return
        gc.enable()
        if hasattr(_libc, "malloc_trim"):
            _libc.malloc_trim(0)
