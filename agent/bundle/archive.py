"""Packs a directory so that the same files always give the same bytes."""

import gzip
import tarfile
from pathlib import Path

# 2020-01-01: tar warns about the beginning of time, and a real time would change the hash.
_TIME = 1577836800


def pack(directory: Path, target: Path) -> None:
    """Sorted names, one owner, one time, and modes that depend on nothing but the kind of file."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in sorted(directory.rglob("*")):
            member = tar.gettarinfo(path, arcname=path.relative_to(directory).as_posix())
            _normalize(member, path)
            if member.isreg():
                with path.open("rb") as file:
                    tar.addfile(member, file)
            else:
                tar.addfile(member)


def _normalize(member: tarfile.TarInfo, path: Path) -> None:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = _TIME
    is_program = member.isdir() or ".so" in path.name or path.parent.name == "bin"
    member.mode = 0o755 if is_program else 0o644
