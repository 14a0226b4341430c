"""A started startup script, which outlives the agent process that started it."""

import logging
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from podferry_agent.box import Box, shell_argv
from podferry_agent.fields import Fields
from podferry_agent.processes import find_process, is_alive, list_processes

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class WorkloadProcess:
    """`popen` is None when an earlier agent started it: then its exit code cannot be known."""

    pid: int
    started: int
    popen: subprocess.Popen[bytes] | None = None

    @classmethod
    def parse(cls, fields: Fields) -> "WorkloadProcess":
        return cls(fields.integer("pid"), fields.integer("started"))

    def to_json(self) -> dict[str, object]:
        return {"pid": self.pid, "started": self.started}

    @property
    def exit_code(self) -> int | None:
        return None if self.popen is None else self.popen.poll()

    def is_alive(self) -> bool:
        if self.popen is not None:
            return self.popen.poll() is None
        return is_alive(self.pid, self.started)

    def has_members(self) -> bool:
        """Whether it, or anything in its session, is alive."""
        return self.is_alive() or bool(self.session_members())

    def session_members(self) -> list[int]:
        """What the script left running, itself included: daemons in its session count."""
        return [p.pid for p in list_processes() if p.session == self.pid]


def start_script(
    box: Box, script_file: Path, log_file: Path, environment: dict[str, str]
) -> WorkloadProcess:
    """In a session of its own, so that signals to the agent's group never reach it.

    It writes straight into the file: a pipe would break, and kill it, when the agent dies.
    """
    descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        popen = subprocess.Popen(
            shell_argv(script_file),
            cwd=box.working_directory(),
            env=box.environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    process = find_process(popen.pid)
    return WorkloadProcess(popen.pid, process.started if process else 0, popen)


@dataclass(frozen=True, slots=True)
class BoundedLog:
    """A log whose writer we do not control, kept below a limit by cutting its old part off."""

    path: Path
    limit_bytes: int

    def trim(self) -> None:
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return
        if size <= self.limit_bytes:
            return
        newest = self.tail(self.limit_bytes // 2)
        try:
            self._previous.write_bytes(newest)
        except OSError as error:
            # A full disk. Cutting the log still helps.
            _LOG.warning("old_log_not_kept", extra={"reason": str(error)})
        # The writer appends (O_APPEND), so after this it goes on at the new end.
        os.truncate(self.path, 0)

    def begin(self) -> None:
        """For a new writer: what the one before it wrote is kept beside."""
        if self.path.exists():
            self.path.replace(self._previous)

    @property
    def _previous(self) -> Path:
        return self.path.with_suffix(".previous.log")

    def tail(self, count: int) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, self.path.stat().st_size - count))
                return file.read(count)
        except FileNotFoundError:
            return b""
