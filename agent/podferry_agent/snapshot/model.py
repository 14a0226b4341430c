"""The words of the engine: specs go in, outcomes come out, trees are made of entries."""

import stat
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Literal, Protocol

from podferry_agent.snapshot.errors import InvalidSpecError

Kind = Literal["environment", "volume"]
REPORT_LIMIT = 100  # longest list of paths in a report; the counts are always exact

# Entry.bits
TORN = 1  # changed while it was read, three times; content is one of the readings, unless KEPT
UNREADABLE = 2  # metadata only: its content could not be read
BARE = 4  # a directory made if missing, otherwise left alone (mount points, /proc, /tmp)
HAS_HOLES = 8  # the chunks do not cover the whole size: the rest is holes
KEPT = 16  # torn; content, size and mtime are those of its last good save, whole
VANISHED = 1 << 16  # only while a capture runs: the name went away, it will not be in the manifest

_LIVE_SHARE = 0.5

DEFAULT_VOLUME_PATH = b"/workspace"
AGENT_DIRECTORY = b"/.podferry"
TEMPORARY_PREFIX = b".~pfr-"  # our own unfinished names in a live tree: never captured


class ObjectStore(Protocol):
    """Where objects live. Both methods are called from several threads at once."""

    def put(self, name: str, body: bytes | memoryview, sha256: str) -> None:
        """Store under the snapshot being captured; returns when durable; idempotent.

        The memory of `body` is used for something else after that.
        """

    def get(self, snapshot_id: str, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Read an object or a range of it; raises `ObjectNotFoundError` if there is none."""


@dataclass(frozen=True, kw_only=True)
class TreeSpec:
    """Names one tree of the pod: `/` without the volume, or the volume."""

    kind: Kind
    snapshot_id: str
    chunk_key: bytes
    root: bytes = b"/"
    state_dir: bytes = AGENT_DIRECTORY + b"/state"
    user_rules: tuple[str, ...] = ()
    volume_path: bytes = DEFAULT_VOLUME_PATH

    def __post_init__(self) -> None:
        if len(self.chunk_key) != 32:
            raise InvalidSpecError(f"chunk_key has {len(self.chunk_key)} bytes, it must have 32")
        if self.kind not in ("environment", "volume"):
            raise InvalidSpecError(f"kind is {self.kind!r}, it must be environment or volume")
        if not self.root.startswith(b"/") or not self.volume_path.startswith(b"/"):
            raise InvalidSpecError("root and volume_path must be absolute paths")

    @property
    def tree_root(self) -> bytes:
        """The directory on this machine that is the top of the tree."""
        if self.kind == "volume":
            return self.root.rstrip(b"/") + self.volume_path
        return self.root

    @property
    def pod_prefix(self) -> bytes:
        """What stands before an entry's path to make it a path of the pod: rules see those."""
        return self.volume_path if self.kind == "volume" else b""


@dataclass(frozen=True, kw_only=True)
class CaptureSpec(TreeSpec):
    """What to capture, and the snapshot whose chunks need not be stored again."""

    parent: str | None = None
    live: bool = False  # others write to the tree meanwhile
    pauses: bool = True  # a live capture may stop a writer for a moment
    paranoid: bool = False  # decompress and compare each pack before it is uploaded
    cpu_share: float | None = None  # of one core; None: half of one if live, else no limit

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cpu_share is not None and not 0 < self.cpu_share <= 1:
            raise InvalidSpecError(f"cpu_share is {self.cpu_share}, it must be above 0, at most 1")

    @property
    def share(self) -> float | None:
        """The part of one core that the capture may use; None is no limit."""
        return _LIVE_SHARE if self.live and self.cpu_share is None else self.cpu_share


@dataclass(frozen=True, kw_only=True)
class RestoreSpec(TreeSpec):
    """What to restore; `root_sha256`, where the caller knows it, pins the root object."""

    root_sha256: str | None = None
    best_effort: bool = False  # restore what is whole of a damaged snapshot, and name the rest


@dataclass(frozen=True)
class Progress:
    phase: str
    bytes_done: int = 0
    bytes_total: int | None = None
    files_done: int = 0
    files_total: int | None = None
    eta_seconds: int | None = None  # of this phase, from the speed of the last seconds


@dataclass(frozen=True)
class StoredObject:
    name: str
    size: int
    sha256: str


@dataclass
class Summary:
    """What a capture reports; the field names are those of the agent API."""

    files: int = 0
    directories: int = 0
    entries: int = 0
    bytes: int = 0
    new_bytes: int = 0
    stored_bytes: int = 0
    packs: int = 0
    torn: list[str] = field(default_factory=list)
    is_partial: bool = False  # there was no time for everything
    unreached: list[str] = field(default_factory=list)  # what is older for that, or left out
    unreached_files: int = 0
    unreadable: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    pauses: int = 0
    paused_ms: int = 0
    duration_seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class CaptureOutcome:
    snapshot_id: str
    root: StoredObject
    summary: Summary


@dataclass(frozen=True)
class Damaged:
    """A file, or the files of a lost page, that a best-effort restore left as they were."""

    path: str
    object_name: str
    files: int = 1


@dataclass(frozen=True)
class RestoreOutcome:
    snapshot_id: str
    files: int
    bytes: int
    written_bytes: int
    deleted: int
    warnings: list[str]
    needs_restart: list[str]
    duration_seconds: float
    damaged: list[Damaged] = field(default_factory=list)
    status: str = "complete"  # or "damaged: 3 files"


@dataclass(frozen=True)
class Difference:
    """One way in which a live tree is not what the snapshot says."""

    path: bytes
    kind: str  # missing extra type content mode owner mtime target node xattrs flags links
    detail: str = ""

    def __str__(self) -> str:
        return f"{display(self.path)}: {self.kind}{' ' + self.detail if self.detail else ''}"


@dataclass(slots=True)
class Entry:
    """One name in a tree. `refs` is flat: file offset, chunk number, file offset, ..."""

    path: bytes  # relative to the tree's root, no leading slash; b"" is the root itself
    mode: int
    uid: int = 0
    gid: int = 0
    size: int = 0
    mtime_ns: int = 0
    flags: int = 0
    bits: int = 0
    rdev: int = 0
    target: bytes = b""
    link: bytes = b""  # 16 bytes that all names of one inode share; empty if there is one name
    xattrs: tuple[tuple[bytes, bytes], ...] = ()
    refs: tuple[int, ...] = ()
    kept: str = ""  # the snapshot that first had this content, if it is KEPT
    large_xattrs: tuple[tuple[bytes, int], ...] = ()  # name, and the number of the value's chunk

    @property
    def chunks(self) -> tuple[int, ...]:
        """Numbers of all chunks that it takes to restore the entry."""
        if not self.large_xattrs:
            return self.refs[1::2]
        return (*self.refs[1::2], *(chunk for _, chunk in self.large_xattrs))

    @property
    def is_regular(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_symlink(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def parent(self) -> bytes:
        return self.path.rpartition(b"/")[0]

    @property
    def name(self) -> bytes:
        return self.path.rpartition(b"/")[2]


def is_below(path: bytes, paths: Collection[bytes]) -> bool:
    """Whether a path, or a directory above it, is among `paths`."""
    while paths and path:
        if path in paths:
            return True
        path = path.rpartition(b"/")[0]
    return False


def sort_key(path: bytes) -> bytes:
    """Orders paths by component, so that a directory comes right before what is in it."""
    return path.replace(b"/", b"\0")


def display(path: bytes) -> str:
    r"""A path as printable text that can be read back: `\` doubled, odd bytes as `\xNN`."""
    text = path.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
