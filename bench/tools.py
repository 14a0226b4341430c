"""The tools that are measured: a command line for each thing that each can do."""

import compileall
import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from agent.bundle.native import build_native

AGENT = Path(__file__).parents[1] / "agent"


@dataclass(frozen=True)
class Tool:
    """Shell commands with {src} {repo} {dst} {root} {kind} {n} {parent} to be filled in."""

    name: str
    needs: tuple[str, ...]
    save: str
    restore: str
    over: str
    begin: str = "mkdir -p {repo}"
    remark: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def missing(self) -> list[str]:
        return [program for program in self.needs if shutil.which(program) is None]

    def version(self) -> str:
        if not self.needs:
            return ""
        flag = "version" if self.needs[0] in ("restic", "rclone") else "--version"
        done = subprocess.run([self.needs[0], flag], capture_output=True, text=True, check=False)
        return done.stdout.split("\n", 1)[0].split(" compiled")[0]


_OURS = f"{quote(sys.executable)} -m podferry_agent.snapshot"
_OURS_TREE = "--kind {kind} --root {root} --state {repo}.state"
_RESTIC = "restic -q -r {repo}"
_TAR = "tar --xattrs --xattrs-include='*' --acls"
_UNTAR = (
    "for a in $(ls -v {repo}/*.zst); do zstd -q -d -c $a | "
    + _TAR
    + " -C {dst} -g /dev/null -xpf - || exit 1; done"
)
_RCLONE = "rclone -q sync --links --create-empty-src-dirs --transfers 8 --checkers 8"

OURS = Tool(
    "podferry",
    (),
    save=_OURS + " capture " + _OURS_TREE + " {repo} s{n} {parent}",
    restore=_OURS + " restore " + _OURS_TREE.replace("{root}", "{dstroot}") + " {repo} s{n}",
    over=_OURS + " restore " + _OURS_TREE.replace("{root}", "{dstroot}") + " {repo} s{n}",
    remark="every byte of what is already there is hashed",
    environment={"PYTHONPATH": str(AGENT)},
)
PEERS = [
    Tool(
        "restic",
        ("restic",),
        begin=_RESTIC + " init",
        save="cd {src} && " + _RESTIC + " backup .",
        restore=_RESTIC + " restore latest --target {dst}",
        over=_RESTIC + " restore latest --target {dst}{restic_over}",
        environment={"RESTIC_PASSWORD": "x"},
    ),
    Tool(
        "borg",
        ("borg",),
        begin="borg init -e none {repo}",
        save="cd {src} && borg create {repo}::s{n} .",
        restore="cd {dst} && borg extract {repo}::s{n}",
        over="cd {dst} && borg extract {repo}::s{n}",
        remark="without encryption, lz4: its fastest setting",
        environment={
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        },
    ),
    Tool(
        "tar | zstd -1",
        ("tar", "zstd"),
        save=_TAR + " -g {repo}/state -C {src} -cf - . | zstd -q -T0 -1 -o {repo}/{n}.tar.zst",
        restore=_UNTAR,
        over=_UNTAR,
        remark="all cores; incremental by `tar -g`; no checks of content",
    ),
    Tool(
        "casync",
        ("casync",),
        save="casync make --store={repo}/store.castr {repo}/s{n}.caidx {src}",
        restore="casync extract --store={repo}/store.castr {repo}/s{n}.caidx {dst}",
        over="casync extract --delete=yes --store={repo}/store.castr {repo}/s{n}.caidx {dst}",
    ),
    Tool(
        "desync",
        ("desync",),
        begin="mkdir -p {repo}/store",
        save="desync tar -i -s {repo}/store {repo}/s{n}.caidx {src}",
        restore="desync untar -i -s {repo}/store {repo}/s{n}.caidx {dst}",
        over="desync untar -i -s {repo}/store {repo}/s{n}.caidx {dst}",
    ),
    Tool(
        "rclone",
        ("rclone",),
        save=_RCLONE + " {src} {repo}",
        restore=_RCLONE + " {repo} {dst}",
        over=_RCLONE + " {repo} {dst}",
        remark="copies files one by one: no compression, no older states",
    ),
]


@functools.cache
def restic_over_options() -> str:
    """Newer versions compare by size and time, and delete what is too much; older write all."""
    if shutil.which("restic") is None:
        return ""
    shown = subprocess.run(["restic", "restore", "--help"], capture_output=True, check=False)
    return " --overwrite if-changed --delete" if b"--overwrite" in shown.stdout else ""


def compile_ours() -> None:
    """The agent's bundle has compiled modules and the helper; a fresh checkout has not."""
    build_native()
    compileall.compile_dir(AGENT / "podferry_agent", quiet=1)


def own_environment() -> dict[str, str]:
    """Of a Python that runs a module of ours, which uses the engine."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(AGENT), str(Path.cwd())])}


def environment_of(tool: Tool, home: Path) -> dict[str, str]:
    """The tool's caches stay inside the measured directory, and go with it."""
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    return {**os.environ, **own, **tool.environment}
