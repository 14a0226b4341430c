"""Finds every shared library that a set of programs and extensions needs."""

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from .errors import BundleError

_LINE = re.compile(r"^\s*(\S+) (?:=> (\S+) )?\(0x")
_MISSING = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
_ELF = b"\x7fELF"

# Loaded by name at run time, so no program lists them. libgcc_s: glibc aborts the process without
# it when a thread ends by pthread_exit. The others are separate files only before glibc 2.34, or
# are asked for by wheels that were built against an older one.
_BY_NAME = (
    "libgcc_s.so.1",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "libm.so.6",
    "libresolv.so.2",
    "libnss_files.so.2",
    "libnss_dns.so.2",
)


def find_libraries(elf_files: Iterable[Path]) -> dict[str, Path]:
    """Library name -> file, from what this machine's own loader says.

    Raises:
        BundleError: There is no ldd, no glibc, or a library is missing.
    """
    found = _closure([*elf_files])
    libc = found.get("libc.so.6")
    if libc is None:
        raise BundleError("this Python is not linked to glibc; use one from a glibc distribution")
    extra = {}
    for name in _BY_NAME:
        for directory in _directories_beside(libc):
            if name not in found and (directory / name).exists():
                extra[name] = directory / name
    return {**_closure([*extra.values()]), **extra, **found}


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == _ELF


def loader_name(libraries: Iterable[str]) -> str:
    """The dynamic loader among them."""
    names = [name for name in libraries if name.startswith("ld-linux")]
    if len(names) != 1:
        raise BundleError(f"expected one dynamic loader, found {names or 'none'}")
    return names[0]


def _closure(elf_files: list[Path]) -> dict[str, Path]:
    if not elf_files:
        return {}
    try:
        done = subprocess.run(
            ["ldd", *elf_files],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise BundleError("ldd is not installed; it comes with glibc (libc-bin)") from error
    missing = sorted(set(_MISSING.findall(done.stdout)))
    if missing:
        raise BundleError(f"these libraries are not installed: {', '.join(missing)}")
    found = {}
    for line in done.stdout.splitlines():
        match = _LINE.match(line)
        path = match and (match.group(2) or match.group(1))
        if match and path and path.startswith("/"):
            found[os.path.basename(match.group(1))] = Path(path)  # noqa: PTH119 - a soname
    return found


def _directories_beside(libc: Path) -> list[Path]:
    """Where libc lies, by each of its names: with merged /usr the same place has two."""
    return list(dict.fromkeys((libc.parent, libc.resolve().parent)))
