"""Every way a capture, restore or verify can fail, each with a code that is part of the API."""

from collections.abc import Sequence


class SnapshotError(Exception):
    """Base of all engine errors; `retryable` says if the same call can succeed later."""

    code = "snapshot_failed"
    retryable = False


class ObjectNotFoundError(Exception):
    """Raised by an `ObjectStore` that has no object of that name; the engine adds the context."""


class DamageError(SnapshotError):
    """The snapshot cannot be read whole: names the object and the files that need it."""

    def __init__(self, what: str, object_name: str, files: Sequence[str] = ()) -> None:
        self.what = what
        self.object_name = object_name
        self.files = list(files)
        hit = f"; files hit ({len(self.files)}): {', '.join(self.files[:20])}" if files else ""
        super().__init__(f"{object_name}: {what}{hit}")


class SnapshotMissingError(DamageError):
    """An object the snapshot needs is not in the store."""

    code = "snapshot_missing"


class SnapshotCorruptError(DamageError):
    """An object is in the store, but its bytes are not what was captured."""

    code = "snapshot_corrupt"


class UnsupportedFormatError(SnapshotError):
    """A newer agent wrote this snapshot: reading on would restore something wrong."""

    code = "snapshot_format_unsupported"


class CancelledByCallerError(SnapshotError):
    """The caller's event was set before the point of no return."""

    code = "cancelled"


class OutOfTimeError(SnapshotError):
    """The machine goes before anything could be captured that is newer than the parent."""

    code = "out_of_time"
    retryable = True


class DiskFullError(SnapshotError):
    """The machine's disk cannot hold what has to be staged; nothing was changed."""

    code = "disk_full"


class InvalidRuleError(SnapshotError):
    """A user's rule cannot be understood."""

    code = "invalid_rule"


class InvalidSpecError(SnapshotError):
    """The caller asked for something that makes no sense, such as a key of the wrong length."""

    code = "invalid_request"


class CaptureFailedError(SnapshotError):
    """The tree cannot be captured as a whole, for example because its root is not a directory."""

    code = "capture_failed"


class RestoreMismatchError(SnapshotError):
    """Files differ from the snapshot after the swap, twice in a row."""

    code = "restore_mismatch"
    retryable = True

    def __init__(self, files: Sequence[str]) -> None:
        self.files = list(files)
        super().__init__(
            f"{len(self.files)} files differ from the snapshot after the swap: "
            f"{', '.join(self.files[:20])}; is a program still writing to them?"
        )
