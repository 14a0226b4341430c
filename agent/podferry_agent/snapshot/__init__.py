"""The snapshot engine: captures a tree into objects and restores it, byte for byte."""

from podferry_agent.snapshot.capture import capture
from podferry_agent.snapshot.errors import (
    CancelledByCallerError,
    CaptureFailedError,
    DamageError,
    DiskFullError,
    InvalidRuleError,
    InvalidSpecError,
    ObjectNotFoundError,
    OutOfTimeError,
    RestoreMismatchError,
    SnapshotCorruptError,
    SnapshotError,
    SnapshotMissingError,
    UnsupportedFormatError,
)
from podferry_agent.snapshot.model import (
    CaptureOutcome,
    CaptureSpec,
    Damaged,
    Difference,
    ObjectStore,
    Progress,
    RestoreOutcome,
    RestoreSpec,
    StoredObject,
    Summary,
    TreeSpec,
)
from podferry_agent.snapshot.pausing import resume_all_left_paused
from podferry_agent.snapshot.restore import RestoreHooks, restore
from podferry_agent.snapshot.rules import Explanation, Rules, Verdict, rules_for
from podferry_agent.snapshot.timelimit import Span, TimeLimit
from podferry_agent.snapshot.verify import verify_tree

__all__ = [
    "CancelledByCallerError",
    "CaptureFailedError",
    "CaptureOutcome",
    "CaptureSpec",
    "DamageError",
    "Damaged",
    "Difference",
    "DiskFullError",
    "Explanation",
    "InvalidRuleError",
    "InvalidSpecError",
    "ObjectNotFoundError",
    "ObjectStore",
    "OutOfTimeError",
    "Progress",
    "RestoreHooks",
    "RestoreMismatchError",
    "RestoreOutcome",
    "RestoreSpec",
    "Rules",
    "SnapshotCorruptError",
    "SnapshotError",
    "SnapshotMissingError",
    "Span",
    "StoredObject",
    "Summary",
    "TimeLimit",
    "TreeSpec",
    "UnsupportedFormatError",
    "Verdict",
    "capture",
    "restore",
    "resume_all_left_paused",
    "rules_for",
    "verify_tree",
]
