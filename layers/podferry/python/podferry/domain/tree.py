r"""Names in the tree of a snapshot: what is known of each, their order, and how they are written.

Paths are bytes, relative to the tree, without a leading slash; the top has the empty path. As text
they are UTF-8, with a backslash doubled and every byte that is not part of a printable character
as `\xNN`, so that each text means one path.
"""

import re
import stat
from dataclasses import dataclass, field

_ESCAPE = re.compile(r"\\(?:\\|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])")
_CONTROLS = {"\\n": b"\n", "\\r": b"\r", "\\t": b"\t", "\\\\": b"\\"}

TORN = 1
UNREADABLE = 2
HAS_HOLES = 8


@dataclass(frozen=True, slots=True)
class Block:
    """Where bytes lie: a compressed piece of a pack (docs/snapshot-format.md)."""

    snapshot_id: str
    pack_sha256: str
    offset: int
    stored: int
    raw: int
    codec: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of content by its id, and its place."""

    id: bytes
    block: Block
    offset: int
    length: int


@dataclass(slots=True)
class Entry:
    """One name. It is filled column by column as its page is read, and not changed after that."""

    path: bytes
    mode: int = 0
    uid: int = 0
    gid: int = 0
    size: int = 0
    mtime_ns: int = 0
    flags: int = 0
    bits: int = 0
    rdev: int = 0
    target: bytes = b""
    is_linked: bool = False
    xattrs: tuple[tuple[bytes, bytes], ...] = ()
    """Large values are known by the id of their chunk."""
    content: tuple[tuple[int, Chunk], ...] = field(default=())
    """Places in the file, and what is there; holes are not."""

    @property
    def kind(self) -> str:
        """`file`, `directory`, `symlink`, or what else it is."""
        return _KINDS.get(stat.S_IFMT(self.mode), "other")

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)


_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFCHR: "character_device",
    stat.S_IFBLK: "block_device",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


def sort_key(path: bytes) -> bytes:
    """Orders paths by component, so that a directory comes right before what is in it."""
    return path.replace(b"/", b"\0")


def path_of(key: bytes) -> bytes:
    return key.replace(b"\0", b"/")


def behind(key: bytes) -> bytes:
    """The least key that is neither this name nor anything in it."""
    return key + b"\x01"


def differences(old: Entry, new: Entry) -> tuple[str, ...]:
    """In what two states of one name differ, in this order; empty if in nothing."""
    if old.kind != new.kind:
        return ("type",)
    pairs = {
        "content": (_content(old), _content(new)),
        "mode": (old.mode, new.mode),
        "owner": ((old.uid, old.gid), (new.uid, new.gid)),
        "xattrs": (sorted(old.xattrs), sorted(new.xattrs)),
        "flags": (old.flags, new.flags),
        "links": (old.is_linked, new.is_linked),
        "mtime": (old.mtime_ns, new.mtime_ns),
    }
    return tuple(name for name, (before, after) in pairs.items() if before != after)


def _content(entry: Entry) -> object:
    """Equal chunks are equal bytes: their ids are hashes under one key for the account."""
    chunks = [(at, chunk.id) for at, chunk in entry.content]
    return entry.size, entry.target, entry.rdev, entry.bits & UNREADABLE, chunks


def shown(path: bytes) -> str:
    """The path as text."""
    text = path.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else _bytes_of(c) for c in text)


def _bytes_of(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def read_back(text: str) -> bytes:
    """The path that `shown` wrote, or any other spelling of it.

    Raises:
        ValueError: a backslash begins nothing that is known.
    """
    return _unescaped(text)


def first_path(text: str) -> bytes | None:
    r"""The path that a root names as the first one of a page; `None` if the text is ambiguous.

    Agents write characters that cannot be printed as Python escapes them: `\x85` may be that
    character, which takes two bytes, or the byte.
    """
    if re.search(r"(?<!\\)(?:\\\\)*\\x[89a-f]", text):
        return None
    return _unescaped(text)


def _unescaped(text: str) -> bytes:
    if "\\" not in text:
        return text.encode()
    parts, at = [], 0
    for found in _ESCAPE.finditer(text):
        parts += [text[at : found.start()], found[0]]
        at = found.end()
    parts.append(text[at:])
    if any("\\" in plain for plain in parts[::2]):
        raise ValueError("a backslash stands before `x` and two hexadecimal digits, or is doubled")
    plain = [part.encode() for part in parts]
    plain[1::2] = [_escape(part) for part in parts[1::2]]
    return b"".join(plain)


def _escape(text: str) -> bytes:
    if text in _CONTROLS:
        return _CONTROLS[text]
    number = int.from_bytes(bytes.fromhex(text[2:]))
    return bytes([number]) if text[1] == "x" else chr(number).encode("utf-8", "surrogatepass")
