"""Who logs in: the user that the box's programs run as, with their shell and environment.

`/etc/passwd` is read anew for each login, with our own eyes: the C library's reader would be that
of the bundle, and a restore may replace the file and the shell at any time.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SHELLS = ("/bin/bash", "/bin/sh")
_ROOT = "root"


@dataclass(frozen=True, slots=True)
class Login:
    """`names` are those under which the user may log in."""

    names: frozenset[str]
    shell: str
    home: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LoginMaker:
    """`environment` is that of the pod's other programs."""

    root: Path
    environment: Mapping[str, str]

    def make(self) -> Login:
        name, shell = _entry(self.root, os.geteuid())
        home = self.environment.get("HOME", "/")
        shell = next((s for s in (shell, *_SHELLS) if s and os.access(s, os.X_OK)), _SHELLS[-1])
        identity = {"USER": name, "LOGNAME": name, "SHELL": shell, "HOME": home}
        return Login(frozenset({_ROOT, name}), shell, home, {**self.environment, **identity})


def _entry(root: Path, user_id: int) -> tuple[str, str]:
    """Name and shell; an image without an entry has a root all the same."""
    try:
        text = (root / "etc/passwd").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) >= 7 and fields[2] == str(user_id):
            return fields[0], fields[6].strip()
    return _ROOT, ""
