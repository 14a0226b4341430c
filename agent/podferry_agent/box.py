"""The box the user's programs live in: its root, and the environment they are started with."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from podferry_agent.settings import PRIVATE_VARIABLES

_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The boot script moves these aside so that they do not reach the agent; programs get them back.
_SET_ASIDE = {"PF_LL": "LD_LIBRARY_PATH", "PF_LP": "LD_PRELOAD"}


@dataclass(frozen=True, slots=True)
class Box:
    """`image_environment` is what the image and the provider gave us at boot."""

    root: Path
    machine_id: str
    image_environment: Mapping[str, str]
    secrets: Callable[[], Mapping[str, str]] = dict
    """The pod's secrets, by variable, as they are known at this moment."""

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """For a program of the user: the image's variables, ours taken out, theirs put in.

        It holds secrets: it is for `exec` alone, and no file or log may have it.
        """
        result = {
            name: value
            for name, value in self.image_environment.items()
            if name not in PRIVATE_VARIABLES and name not in _SET_ASIDE
        }
        for kept, name in _SET_ASIDE.items():
            if self.image_environment.get(kept):
                result[name] = self.image_environment[kept]
        result.setdefault("PATH", _DEFAULT_PATH)
        result["HOME"] = result.get("HOME") or "/root"
        if self.root != Path("/"):
            result["HOME"] = str(self.root / "root")
            result["PATH"] = f"{self.root}/usr/local/bin:{self.root}/usr/bin:{result['PATH']}"
        result.update(self.secrets())
        result.update(extra)
        # The mark by which these programs are found again; last, so that nothing overrides it.
        result["PF_MACHINE"] = self.machine_id
        return result

    def working_directory(self, wanted: str | None = None) -> Path:
        """The directory asked for, else the volume, else the root."""
        if wanted:
            return self.inside(wanted)
        volume = self.root / "workspace"
        return volume if volume.is_dir() else self.root

    def inside(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def which(self, program: str) -> str | None:
        return shutil.which(program, path=self.environment({})["PATH"])


def shell_argv(script_file: Path) -> list[str]:
    """How to start a script: by its own first line if it has one, else with /bin/sh."""
    with script_file.open("rb") as file:
        has_interpreter = file.read(2) == b"#!"
    return [str(script_file)] if has_interpreter else ["/bin/sh", str(script_file)]


def clean_own_environment() -> None:
    """Take out of our own environment what would change how the bundle behaves.

    OpenSSL reads these at its first use; in a box they may name files that do not exist or that
    the user controls.
    """
    for name in [*os.environ]:
        if name.startswith(("SSL_", "OPENSSL_")) or name == "PF_TOKEN":
            del os.environ[name]
