"""Find the strongest isolation that works on this machine, by starting a box rather than guessing.

`python -m local.boxes.ladder [CACHE_DIRECTORY]` prints what was tried and why a rung was refused.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from local.boxes.base import ensure_base
from local.boxes.box import Box, BoxStartError
from local.boxes.spec import BoxSpec, Isolation
from local.boxes.user_namespace import subordinate_range

_PROBE_SECONDS = 20.0
"""A box that works answers in milliseconds; a busy machine must not look like a weak one."""
_APPARMOR_SWITCH = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_APPARMOR_HELP = (
    "AppArmor forbids user namespaces to ordinary users here. Either run as root (sudo), or allow "
    "them with `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or give this "
    "Python an AppArmor profile with `userns,`."
)


class NoIsolationError(Exception):
    """Only a plain directory would work, and nobody agreed to that."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One kind of isolation and why it does not work here (empty if it does)."""

    isolation: Isolation
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Ladder:
    """What was tried, strongest first; the last rung is the one to use."""

    rungs: tuple[Rung, ...]

    @property
    def isolation(self) -> Isolation:
        return self.rungs[-1].isolation

    def describe(self) -> str:
        """Tell a person which isolation is used and why no stronger one is."""
        lines = [f"boxes: isolation {self.isolation.value}"]
        lines += [f"  {rung.isolation.value}: {rung.refusal}" for rung in self.rungs[:-1]]
        if self.isolation is Isolation.CHROOT:
            lines.append("  boxes see the host's processes and share its process numbers")
        if self.isolation is Isolation.DIRECTORY:
            lines.append("  NO ISOLATION: programs of a box run on the host with your rights")
        if self.isolation is not Isolation.ROOT and _is_apparmor_strict():
            lines.append(f"  {_APPARMOR_HELP}")
        return "\n".join(lines)


_found: dict[tuple[Path, int], Ladder] = {}


def find_isolation(base: Path, *, allow_no_isolation: bool = False) -> Ladder:
    """Climb down until a box starts; the answer is kept for the life of the process.

    Raises:
        NoIsolationError: nothing but a plain directory works and `allow_no_isolation` is false.
    """
    key = (base, os.getuid())
    if key not in _found:
        _found[key] = _climb_down(base)
    ladder = _found[key]
    if ladder.isolation is Isolation.DIRECTORY and not allow_no_isolation:
        raise NoIsolationError(
            f"{ladder.describe()}\nEnable user namespaces, run as root, or say explicitly that "
            "boxes may run without isolation."
        )
    return ladder


def _climb_down(base: Path) -> Ladder:
    rungs: list[Rung] = []
    for isolation in Isolation:
        refusal = _missing_condition(isolation) or _probe(base, isolation)
        rungs.append(Rung(isolation, refusal))
        if not refusal:
            break
    return Ladder(tuple(rungs))


def _missing_condition(isolation: Isolation) -> str:
    is_root = os.geteuid() == 0
    match isolation:
        case Isolation.ROOT | Isolation.CHROOT if not is_root:
            return "needs root"
        case Isolation.RANGE | Isolation.SINGLE if is_root:
            return "is for ordinary users"
        case Isolation.RANGE:
            return _missing_for_range()
        case _:
            return ""


def _missing_for_range() -> str:
    if not (shutil.which("newuidmap") and shutil.which("newgidmap")):
        return "newuidmap is not installed (package uidmap or shadow-utils)"
    if not (subordinate_range("subuid") and subordinate_range("subgid")):
        return "no range of 65536 ids for this user in /etc/subuid and /etc/subgid"
    return ""


def _probe(base: Path, isolation: Isolation) -> str:
    """Start a box with /bin/true; return why it did not work, or nothing."""
    scratch = Path(tempfile.mkdtemp(prefix="box-probe-", dir=base.parent))
    box = Box(BoxSpec(scratch / "box", base, isolation, ("/bin/true",)))
    try:
        box.start()
        end = box.wait(_PROBE_SECONDS)
    except BoxStartError as error:
        return str(error)
    else:
        works = end is not None and end.code == 0
        return "" if works else f"/bin/true did not end well in {_PROBE_SECONDS:g} s: {end}"
    finally:
        box.destroy()
        scratch.rmdir()


def _is_apparmor_strict() -> bool:
    return _APPARMOR_SWITCH.exists() and _APPARMOR_SWITCH.read_text().strip() == "1"


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        cache = Path(arguments[0] if arguments else temporary).resolve()
        ladder = find_isolation(ensure_base(cache), allow_no_isolation=True)
        sys.stdout.write(ladder.describe() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
