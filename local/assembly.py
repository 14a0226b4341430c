"""What a local stack is deployed from: the agent's bundle, the layers, the synthesized template.

Each part is built when its sources changed, and only then.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from local.processes import REPOSITORY

Report = Callable[[str], None]

ASSEMBLY = REPOSITORY / "build" / "cdk.local.out"
SOURCES = ("app.py", "cdk.json", "functions", "infra", "layers", "agent", "requirements.txt")
STEPS = (
    ("the agent's bundle", ("agent.bundle",)),
    ("the Lambda layers", ("infra.build_layers", "--target", "local")),
)


class BuildError(Exception):
    """A build step failed; the message has its output."""


def synthesized(report: Report) -> Path:
    """The cloud assembly for the local Python, built if anything changed since the last time.

    Raises:
        BuildError: a step failed.
    """
    try:
        ASSEMBLY.parent.mkdir(exist_ok=True)
        lock_file = (ASSEMBLY.parent / "local.lock").open("w")
    except OSError as error:
        raise BuildError(
            f"{ASSEMBLY.parent} cannot be written ({error.strerror}): remove it, or run as the "
            "user that it belongs to"
        ) from error
    with lock_file as lock:
        # Two stacks that start at once must not build into the same place.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _synthesized(report)


def _synthesized(report: Report) -> Path:
    stamp = ASSEMBLY.with_suffix(".stamp")
    digest = _digest(SOURCES)
    if ASSEMBLY.is_dir() and stamp.exists() and stamp.read_text() == digest:
        return ASSEMBLY
    for what, module in STEPS:
        report(f"building {what}")
        _run("-m", *module)
    report("synthesizing the template")
    _run("app.py", "-c", "target=local", "-o", str(ASSEMBLY))
    stamp.write_text(digest)
    return ASSEMBLY


def _run(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()
        raise BuildError(f"python {' '.join(arguments)} failed:\n{said}")


def _digest(names: Iterable[str]) -> str:
    """A hash over the names and contents of all source files."""
    digest = hashlib.sha256(sys.version.encode())
    for name in names:
        for path in sorted(_files(REPOSITORY / name)):
            digest.update(os.fsencode(path.relative_to(REPOSITORY)) + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _files(path: Path) -> Iterable[Path]:
    if path.is_file():
        yield path
    for found in path.rglob("*"):
        if found.is_file() and "__pycache__" not in found.parts:
            yield found
