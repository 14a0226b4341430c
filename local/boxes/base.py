"""The root file system that all boxes of a machine share, built once from the host's own files.

Every image name that a simulated provider is asked for stands for this one base: there is no image
registry on a newcomer's machine, and a copy of the host's commands is enough for a pod to be used,
captured and restored. Only `broken/nonexistent` does not exist, so that a failing pull can be seen.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from local.boxes.base_tree import build_tree, find_commands

_FORMAT = 3
_MISSING_IMAGE = "broken/nonexistent"


class BaseBuildError(Exception):
    """The base could not be copied from the host."""


class ImageNotFoundError(Exception):
    """No base stands for this image name."""


def check_image(reference: str) -> None:
    """Refuse the one image name that does not exist.

    Raises:
        ImageNotFoundError: with the words of a container engine.
    """
    name = reference.split("@", 1)[0]
    repository = name.rsplit(":", 1)[0] if ":" in name.rsplit("/", 1)[-1] else name
    if repository.removeprefix("docker.io/") == _MISSING_IMAGE:
        raise ImageNotFoundError(
            f"manifest for {reference} not found: manifest unknown: manifest unknown"
        )


def ensure_base(cache: Path) -> Path:
    """Return the base in `cache`, building it (about two seconds) if the host changed.

    Raises:
        BaseBuildError: a file of the host could not be copied.
    """
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / _name()
    with _sole_user(cache):
        if not target.is_dir():
            _build(target)
    return target


def remove_unused_bases(cache: Path, specs: Iterable[Path]) -> list[Path]:
    """Delete what other versions of the host or of this package have built, and return it.

    `specs` are the descriptions that boxes keep beside themselves. The base on which a box was
    last started stays: it may still run on it.
    """
    if not cache.is_dir():
        return []
    with _sole_user(cache):
        used = {Path(json.loads(spec.read_text())["base"]).name for spec in specs}
        unused = [base for base in cache.glob("base-*") if base.name not in {_name(), *used}]
        for base in unused:
            shutil.rmtree(base)
    return unused


@contextmanager
def _sole_user(cache: Path) -> Iterator[None]:
    with (cache / "base.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(target: Path) -> None:
    unfinished = target.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        build_tree(unfinished)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise BaseBuildError(
            f"base {target}: cannot copy the host's files: {error}. "
            "Install the missing tool (ldd comes with libc-bin) or make the file readable."
        ) from error
    unfinished.rename(target)


def _name() -> str:
    """Says what the base is made of, so that an upgraded host gets a new one."""
    digest = hashlib.sha256(f"{_FORMAT} {sys.version} {sys.base_prefix} {os.getuid()}".encode())
    for command in find_commands():
        status = command.stat()
        digest.update(f"{command} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"base-{digest.hexdigest()[:16]}"
