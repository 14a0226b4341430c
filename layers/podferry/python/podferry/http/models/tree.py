"""What is in snapshots, as users see it."""

import stat
from base64 import b64encode

from pydantic import Field

from podferry.domain.packages import PackageChange
from podferry.domain.tree import HAS_HOLES, TORN, UNREADABLE, Entry, shown
from podferry.http.models.fields import Output
from podferry.services.trees.diff import ChangeKind, TreeChange


class TreeEntryView(Output):
    """A name in a snapshot."""

    path: str = Field(
        description="Relative to the tree, without a slash at its begin. A backslash is doubled, "
        "and a byte that is no printable text is `\\xNN`; parameters are read the same way."
    )
    kind: str = Field(
        description="`file`, `directory`, `symlink`, `fifo`, `socket`, `character_device`, "
        "`block_device` or `other`."
    )
    size_bytes: int
    mode: str = Field(description="Permission bits, octal, such as `0644`.")
    uid: int
    gid: int
    mtime_ns: int = Field(description="Nanoseconds since 1970.")
    target: str | None = Field(description="Of a symlink.")
    is_torn: bool = Field(description="It changed while it was read, three times over.")
    is_unreadable: bool = Field(description="Only its metadata was captured.")
    has_holes: bool

    @classmethod
    def of(cls, entry: Entry) -> "TreeEntryView":
        return cls(
            path=shown(entry.path),
            kind=entry.kind,
            size_bytes=entry.size,
            mode=f"{stat.S_IMODE(entry.mode):04o}",
            uid=entry.uid,
            gid=entry.gid,
            mtime_ns=entry.mtime_ns,
            target=shown(entry.target) if entry.kind == "symlink" else None,
            is_torn=bool(entry.bits & TORN),
            is_unreadable=bool(entry.bits & UNREADABLE),
            has_holes=bool(entry.bits & HAS_HOLES),
        )


class ContentView(Output):
    """A piece of a file."""

    path: str
    size_bytes: int = Field(description="Of the whole file.")
    offset: int
    data: str = Field(description="The bytes from `offset` on, as Base64.")
    next_offset: int | None = Field(description="Where to go on; `null` at the end of the file.")

    @classmethod
    def of(cls, entry: Entry, offset: int, data: bytes) -> "ContentView":
        end = offset + len(data)
        return cls(
            path=shown(entry.path),
            size_bytes=entry.size,
            offset=offset,
            data=b64encode(data).decode(),
            next_offset=end if end < entry.size else None,
        )


class TreeChangeView(Output):
    """What became of one name."""

    path: str
    change: ChangeKind
    kind: str = Field(description="Of what is there, or was.")
    bytes_before: int | None = Field(description="`null` if it was added.")
    bytes_after: int | None = Field(description="`null` if it was removed.")
    differs_in: tuple[str, ...] = Field(
        description="If it was changed: `type`, or any of `content`, `mode`, `owner`, `xattrs`, "
        "`flags`, `links`, `mtime`."
    )

    @classmethod
    def of(cls, change: TreeChange) -> "TreeChangeView":
        old, new = change.old, change.new
        return cls(
            path=shown(change.entry.path),
            change=change.kind,
            kind=change.entry.kind,
            bytes_before=None if old is None else old.size,
            bytes_after=None if new is None else new.size,
            differs_in=change.differs_in,
        )


class PackageChangeView(Output):
    """A package that was added, removed or has another version."""

    manager: str = Field(description="`dpkg` or `pip`.")
    where: str = Field(description="Of pip: the directory that it is installed in.")
    name: str
    before: str | None = Field(description="Version; `null` if it was added.")
    after: str | None = Field(description="Version; `null` if it was removed.")


class PackageChangesView(Output):
    """All changes of packages between two snapshots, by manager, place and name."""

    data: tuple[PackageChangeView, ...]

    @classmethod
    def of(cls, changes: tuple[PackageChange, ...]) -> "PackageChangesView":
        return cls(
            data=tuple(
                PackageChangeView(
                    manager=change.place.manager,
                    where=change.place.where,
                    name=change.place.name,
                    before=change.old,
                    after=change.new,
                )
                for change in changes
            )
        )
