"""What the phases of one restore share."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from podferry_agent.snapshot.live import LiveTree
from podferry_agent.snapshot.metadata import MetadataWriter
from podferry_agent.snapshot.model import RestoreSpec
from podferry_agent.snapshot.plan import Plan
from podferry_agent.snapshot.rules import Rules
from podferry_agent.snapshot.stage import StageDirectory
from podferry_agent.snapshot.tree import Tree
from podferry_agent.snapshot.warning import Warnings

_LOADER = (b"ld-linux", b"ld-2.", b"ld-musl", b"libc.so", b"libc-2.", b"libc.musl")
_RUNTIME = re.compile(
    rb"lib(?:pthread|m|dl|rt|resolv|nss_|util|anl|BrokenLocale|thread_db|crypt|nsl|mvec)[-._]"
)


@dataclass
class Job:
    spec: RestoreSpec
    tree: Tree
    rules: Rules
    plan: Plan
    live: LiveTree
    stage: StageDirectory
    metadata: MetadataWriter
    warnings: Warnings
    step: Callable[[str], None]  # called after each change; tests kill the process in it
    deleted: int = 0
    kept_directories: set[bytes] = field(default_factory=set)  # could not become something else
    grafted: set[bytes] = field(default_factory=set)  # made in kept directories, not in the plan


def rank(name: bytes) -> int:
    """The C library and its loader go first and together, then what is linked to them."""
    if name.startswith(_LOADER):
        return 0
    if _RUNTIME.match(name):
        return 1
    return 2 if b".so" in name else 3
