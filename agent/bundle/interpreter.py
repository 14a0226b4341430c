"""Finds the parts of a Python installation: program, standard library, packages."""

import importlib.metadata
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import BundleError

_DESCRIBE = """
import json, os, sys, sysconfig
print(json.dumps({
    "program": os.path.realpath(sys.executable),
    "library": sysconfig.get_path("stdlib"),
    "version": "%d.%d" % sys.version_info[:2],
    "full_version": sys.version,
    "path": [entry for entry in sys.path if entry.endswith("-packages")],
}))
"""

# Parts of the standard library that an agent never uses.
_DROPPED_DIRECTORIES = frozenset(
    {
        "__pycache__",
        "curses",
        "dbm",
        "dist-packages",
        "distutils",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "test",
        "tests",
        "tkinter",
        "turtledemo",
        "unittest",
        "venv",
        "wsgiref",
        "xmlrpc",
    }
)
_DROPPED_FILES = re.compile(
    r"(turtle|doctest|pydoc|pdb|_sysconfigdata\w*|antigravity|this)\.py$|\.(pyi|exe|a|o)$"
)
_DROPPED_EXTENSIONS = re.compile(
    r"^(_tkinter|_test|_ctypes_test|_curses|_dbm|_gdbm|_xxtest|_xxsub|xxlimited|xxsubtype|"
    r"_codecs_(cn|hk|iso2022|jp|kr|tw)|ossaudiodev|audioop|nis|readline|_crypt|_lsprof)"
)


@dataclass(frozen=True)
class Interpreter:
    """One Python installation, described by itself."""

    program: Path
    library: Path
    version: str
    full_version: str
    package_directories: tuple[Path, ...]

    @property
    def bundled_library(self) -> str:
        return f"lib/python{self.version}"

    def library_files(self) -> dict[str, Path]:
        """Place in the bundle -> source, of the standard library."""
        files = {}
        for source in sorted(self.library.rglob("*")):
            relative = source.relative_to(self.library)
            if source.is_file() and _is_wanted(relative):
                files[f"{self.bundled_library}/{relative.as_posix()}"] = source
        return files

    def package_files(self, requirements: Path) -> dict[str, Path]:
        """The pinned packages, laid beside the standard library.

        That is the one directory that every build of Python looks into: Debian's calls its
        packages' directory dist-packages, others site-packages.

        Raises:
            BundleError: A package is missing or has another version.
        """
        files = {}
        for name, version in pinned(requirements):
            for place, source in self._distribution_files(name, version):
                files[f"{self.bundled_library}/{place}"] = source
        return files

    def _distribution_files(self, name: str, version: str) -> list[tuple[str, Path]]:
        path = [str(directory) for directory in self.package_directories]
        found = list(importlib.metadata.distributions(name=name, path=path))
        if not found or found[0].version != version:
            present = found[0].version if found else "nothing"
            raise BundleError(
                f"{name}=={version} is required, but {self.program} has {present}; "
                "install agent/requirements.txt there"
            )
        wanted = []
        for file in found[0].files or []:
            is_ours = not file.parts[0].startswith("..") and ".dist-info" not in file.parts[0]
            if is_ours and _is_wanted(file) and not file.name.startswith("_cffi."):
                wanted.append((file.as_posix(), Path(str(found[0].locate_file(file)))))
        return wanted


def describe(python: Path) -> Interpreter:
    """Raises: BundleError if it is no usable CPython on glibc."""
    try:
        done = subprocess.run([python, "-c", _DESCRIBE], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BundleError(f"{python} cannot be run: {error}") from error
    facts = json.loads(done.stdout)
    return Interpreter(
        program=Path(facts["program"]),
        library=Path(facts["library"]),
        version=facts["version"],
        full_version=facts["full_version"],
        package_directories=tuple(Path(entry) for entry in facts["path"]),
    )


def pinned(requirements: Path) -> list[tuple[str, str]]:
    """Raises: BundleError at a line that is not NAME==VERSION."""
    pins = []
    for line in requirements.read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, separator, version = text.partition("==")
        if not separator:
            raise BundleError(f"{requirements}: {text!r} must be NAME==VERSION")
        pins.append((name.strip(), version.strip()))
    return pins


def _is_wanted(relative: Path | importlib.metadata.PackagePath) -> bool:
    *directories, name = relative.parts
    if any(part in _DROPPED_DIRECTORIES or part.startswith("config-") for part in directories):
        return False
    if directories[-1:] == ["lib-dynload"] and _DROPPED_EXTENSIONS.match(name):
        return False
    return not _DROPPED_FILES.search(name)
