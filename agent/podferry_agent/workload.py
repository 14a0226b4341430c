"""The user's workload: the startup script, its state, and starting it again after a restart."""

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from podferry_agent.box import Box
from podferry_agent.errors import SettingsError, WireError
from podferry_agent.fields import Fields
from podferry_agent.processes import kill_group, send_signal
from podferry_agent.state import StateStore, replace_file
from podferry_agent.workload_process import BoundedLog, WorkloadProcess, start_script

_LOG = logging.getLogger(__name__)
_RECORD = "workload"
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """How to start it. Stored, so that a restarted box can start it again."""

    script: str
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None


@dataclass(frozen=True, slots=True)
class WorkloadStatus:
    state: str
    exit_code: int | None = None
    detail: str | None = None

    def to_json(self) -> dict[str, object]:
        return {"state": self.state, "exit_code": self.exit_code, "detail": self.detail}


class Workload:
    """One startup script at a time. States: none, starting, running, serving, exited, stopped."""

    def __init__(self, box: Box, store: StateStore, log_limit_bytes: int, boot_id: str) -> None:
        self._box = box
        self._store = store
        self._boot_id = boot_id
        self._lock = threading.RLock()
        self._spec: WorkloadSpec | None = None
        self._process: WorkloadProcess | None = None
        self._status = WorkloadStatus("none")
        self._is_lost = False
        self._is_closing = False
        self.log = BoundedLog(store.directory / "workload.log", log_limit_bytes)

    def start(self, spec: WorkloadSpec) -> None:
        """Replaces what ran before."""
        self.end(grace_seconds=5.0)
        with self._lock:
            self._is_lost = False
            self.log.begin()
            script_file = self._store.directory / "workload.sh"
            replace_file(script_file, spec.script.encode(), mode=0o700)
            self._spec = spec
            self._process = start_script(
                self._box, script_file, self.log.path, dict(spec.environment)
            )
            self._set(WorkloadStatus("starting"))
        _LOG.info("workload_started", extra={"pid": self._process.pid})

    def clear(self) -> None:
        """There is no workload (any more)."""
        self.end(grace_seconds=5.0)
        with self._lock:
            self._spec = self._process = None
            self._set(WorkloadStatus("none"))

    def status(self) -> WorkloadStatus:
        """Looks at the process and moves the state on."""
        with self._lock:
            process, state = self._process, self._status.state
            if process is None or self._is_closing or state in {"none", "exited", "stopped"}:
                return self._status
            if not process.is_alive():
                self._set(_exit_status(process))
            elif state == "running" and self._accepts():
                self._set(WorkloadStatus("serving"))
            return self._status

    def wait_ready(self, deadline: float, cancelled: threading.Event) -> WorkloadStatus | None:
        """Until it exited, its port accepts, or (no port) it lived for a second.

        None when neither came about before the deadline (time.monotonic) or the cancel.
        """
        alive_since = time.monotonic()
        while time.monotonic() < deadline and not cancelled.is_set():
            status = self.status()
            if status.state == "exited":
                return status
            if self._is_ready(alive_since):
                return self._become_ready()
            cancelled.wait(_POLL_SECONDS)
        return None

    def is_active(self) -> bool:
        """Whether the script, or anything it left in its session, is alive."""
        with self._lock:
            process = self._process
        if process is None or self._status.state == "stopped":
            return False
        return process.has_members()

    def mark_stopped(self) -> None:
        """Quiesced: paused, or ended by us. It did not exit by itself."""
        with self._lock:
            if self._process is not None:
                self._set(WorkloadStatus("stopped", detail="quiesced"))

    def resume(self) -> bool:
        """After a quiesce: go on, or start again if it was ended. True if started again."""
        with self._lock:
            spec, process = self._spec, self._process
            if spec is None or self._status.state != "stopped":
                return False
            if process is not None and process.has_members():
                is_alive = process.is_alive()
                self._set(WorkloadStatus("running") if is_alive else _exit_status(process))
                return False
        self.start(spec)
        self._become_ready()
        return True

    def end(self, grace_seconds: float) -> None:
        """SIGTERM to its group, grace, SIGKILL."""
        with self._lock:
            process = self._process
        if process is None or not process.has_members():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_seconds
        while time.monotonic() < deadline and process.has_members():
            time.sleep(_POLL_SECONDS)
        if process.has_members():
            kill_group(process.pid)
        for pid in process.session_members():
            send_signal(pid, signal.SIGKILL)
        if process.popen is not None:
            process.popen.wait()

    def end_with_the_box(self, grace_seconds: float) -> None:
        """The box goes away. What is stored still says running, so a restart starts it again."""
        self._is_closing = True
        self.end(grace_seconds)

    def recover(self) -> None:
        """At the agent's start: go on with a live workload, notice a lost one.

        A box that was restarted lost its processes without anybody wanting it. If only the agent
        was restarted, a workload that is gone ended by itself.
        """
        try:
            record = self._store.load(_RECORD)
            if record is None:
                return
            self._load(Fields(record, "stored workload"))
        except (SettingsError, WireError) as error:
            _LOG.error("stored_workload_damaged", extra={"reason": str(error)})
            self._status = WorkloadStatus("none", detail="what was stored about it is damaged")
            return
        if self._status.state in {"none", "exited", "stopped"}:
            return
        self._is_lost = self._process is None and self._spec is not None
        _LOG.info("workload_lost" if self._is_lost else "workload_adopted")

    def start_again_if_lost(self) -> None:
        """Called once the control plane answered: a machine with a stale epoch must not do it."""
        if self._is_lost and self._spec is not None:
            _LOG.info("workload_started_again")
            self.start(self._spec)
            self._become_ready()

    def _load(self, fields: Fields) -> None:
        spec, process = fields.optional_object("spec"), fields.optional_object("process")
        if spec is not None:
            self._spec = WorkloadSpec(
                spec.text("script"), spec.text_map("environment"), spec.optional_integer("port")
            )
        self._process = None if process is None else WorkloadProcess.parse(process)
        is_same_boot = fields.text("boot_id") == self._boot_id
        if self._process is not None and not is_same_boot and not self._process.is_alive():
            # After a restart of the box its number may belong to anything.
            self._process = None
        self._status = WorkloadStatus(
            fields.text("state"),
            fields.optional_integer("exit_code"),
            fields.optional_text("detail"),
        )

    def _set(self, status: WorkloadStatus) -> None:
        self._status = status
        spec, process = self._spec, self._process
        self._store.save_if_possible(
            _RECORD,
            {
                "spec": spec
                and {
                    "script": spec.script,
                    "environment": dict(spec.environment),
                    "port": spec.port,
                },
                "process": process and process.to_json(),
                "boot_id": self._boot_id,
                **status.to_json(),
            },
        )

    def _become_ready(self) -> WorkloadStatus:
        with self._lock:
            is_serving = self._accepts()
            self._set(WorkloadStatus("serving" if is_serving else "running"))
            return self._status

    def _is_ready(self, alive_since: float) -> bool:
        if self._spec is not None and self._spec.port is not None:
            return self._accepts()
        return time.monotonic() - alive_since >= 1.0

    def _accepts(self) -> bool:
        port = self._spec.port if self._spec is not None else None
        if port is None:
            return False
        try:
            socket.create_connection(("localhost", port), timeout=0.5).close()
        except OSError:
            return False
        return True


def _exit_status(process: WorkloadProcess) -> WorkloadStatus:
    code = process.exit_code
    if code is None:
        detail = "ended while the agent was being restarted; its exit code is unknown"
        return WorkloadStatus("exited", None, detail)
    detail_or_none = f"ended by signal {-code}" if code < 0 else None
    return WorkloadStatus("exited", code, detail_or_none)
