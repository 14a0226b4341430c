"""How much work a request makes: what it asks of the table and of the buckets."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

CALLS = {
    "store": ("find", "get", "commit", "list_owned", "list_active"),
    "objects": ("read", "facts", "listed", "delete", "sign_upload", "sign_download", "read_range"),
}


@contextmanager
def counted(world: Any):
    """Counts of calls by port, while the block runs."""
    counts = SimpleNamespace(store=0, objects=0)
    patched = []

    def wrap(port: str, target: Any, name: str) -> None:
        inner = getattr(target, name)

        def counting(*args: Any, **options: Any) -> Any:
            setattr(counts, port, getattr(counts, port) + 1)
            return inner(*args, **options)

        setattr(target, name, counting)
        patched.append((target, name))

    for port, names in CALLS.items():
        target = getattr(world, port)
        for name in names:
            if hasattr(target, name):
                wrap(port, target, name)
    try:
        yield counts
    finally:
        for target, name in patched:
            delattr(target, name)
