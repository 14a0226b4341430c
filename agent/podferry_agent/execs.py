"""Runs one command of the user in the box and sends its output up in chunks."""

import base64
import logging
import os
import selectors
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from podferry_agent.api import ApiClient
from podferry_agent.box import Box, shell_argv
from podferry_agent.commands import CommandContext
from podferry_agent.errors import ApiError, CommandError
from podferry_agent.processes import find_process, kill_group
from podferry_agent.redaction import SecretFilter
from podferry_agent.state import replace_file
from podferry_agent.wire import OUTPUT_CHUNK_BYTES, ExecArgs

_LOG = logging.getLogger(__name__)
_OUTPUT_LIMIT_BYTES = 16 * 1024 * 1024
_CHUNKS_PER_REQUEST = 16
_FLUSH_SECONDS = 0.2
# How long output may still come after the command itself ended: a daemon it left behind keeps
# the pipes open for ever.
_LINGER_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Exec:
    """The handler of `exec`."""

    box: Box
    api: ApiClient
    state_dir: Path
    may_fork: Callable[[], bool]

    def handle(self, context: CommandContext) -> dict[str, object]:
        if not self.may_fork():
            detail = "the environment is being restored; try again when that has ended"
            raise CommandError("restore_running", detail, retryable=True)
        args = ExecArgs.parse(context.command.fields())
        output = OutputSender(self.api, context.command.id, context.cancelled)
        with tempfile.TemporaryFile(dir=self.state_dir) as stdin:
            stdin.write(args.stdin or b"")
            stdin.seek(0)
            process = self._start(args, context, stdin)
            try:
                session = _Session(process, output, args.timeout_seconds)
                timed_out = session.run(context.cancelled)
            finally:
                self._clean_up(process, context.command.id)
        context.raise_if_cancelled()
        output.end()
        return {
            "exit_code": process.returncode,
            "timed_out": timed_out,
            "truncated": output.truncated,
        }

    def _start(
        self, args: ExecArgs, context: CommandContext, stdin: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                self._argv(args, context.command.id),
                cwd=self.box.working_directory(args.working_dir),
                env=self.box.environment(args.environment),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            where = error.filename or (args.argv[0] if args.argv else "/bin/sh")
            raise CommandError("exec_failed", f"cannot start: {where}: {error.strerror}") from error
        found = find_process(process.pid)
        context.note_process(process.pid, found.started if found else 0)
        return process

    def _clean_up(self, process: subprocess.Popen[bytes], command_id: str) -> None:
        """What a command that ended by itself left in the background may live on."""
        if process.poll() is None:
            kill_group(process.pid)
        process.wait()
        self._script_file(command_id).unlink(missing_ok=True)

    def _script_file(self, command_id: str) -> Path:
        return self.state_dir / f"exec-{command_id}.sh"

    def _argv(self, args: ExecArgs, command_id: str) -> list[str]:
        if args.script is None:
            program = self.box.which(args.argv[0]) or args.argv[0]
            return [program, *args.argv[1:]]
        script_file = self._script_file(command_id)
        replace_file(script_file, args.script.encode(), mode=0o700)
        return shell_argv(script_file)


@dataclass(slots=True)
class OutputSender:
    """Numbers the chunks of one command and posts them, at least once, in order."""

    api: ApiClient
    command_id: str
    cancelled: threading.Event
    truncated: bool = False
    _sequence: int = 0
    _total: int = 0
    _flushed_at: float = 0.0
    _pending: list[tuple[str, bytearray]] = field(default_factory=list)
    _filters: dict[str, SecretFilter] = field(default_factory=dict)

    def add(self, stream: str, data: bytes) -> None:
        """Without the pod's secrets: what goes up is stored."""
        self._add(stream, self._filters.setdefault(stream, SecretFilter()).feed(data))

    def end(self) -> None:
        """Nothing more comes; sends what is left."""
        for stream, secrets in self._filters.items():
            self._add(stream, secrets.end())
        self.flush()

    def _add(self, stream: str, data: bytes) -> None:
        room = _OUTPUT_LIMIT_BYTES - self._total
        if len(data) > room:
            self.truncated, data = True, data[:room]
        self._total += len(data)
        while data:
            if not self._pending or not self._fits(stream):
                self._pending.append((stream, bytearray()))
            chunk = self._pending[-1][1]
            part = data[: OUTPUT_CHUNK_BYTES - len(chunk)]
            chunk += part
            data = data[len(part) :]

    def flush_if_due(self) -> None:
        is_old = time.monotonic() - self._flushed_at >= _FLUSH_SECONDS
        if is_old or len(self._pending) >= _CHUNKS_PER_REQUEST:
            self.flush()

    def flush(self) -> None:
        while self._pending:
            chunks = [self._numbered(*chunk) for chunk in self._pending[:_CHUNKS_PER_REQUEST]]
            del self._pending[:_CHUNKS_PER_REQUEST]
            body: dict[str, object] = {"command_id": self.command_id, "chunks": chunks}
            try:
                self.api.post("/agent/v1/output", body, self.cancelled)
            except ApiError as error:
                # The command itself goes on; its report says that output is missing.
                _LOG.warning("output_refused", extra={"status": error.status, "code": error.code})
                self.truncated = True
        self._flushed_at = time.monotonic()

    def _fits(self, stream: str) -> bool:
        last_stream, chunk = self._pending[-1]
        return last_stream == stream and len(chunk) < OUTPUT_CHUNK_BYTES

    def _numbered(self, stream: str, data: bytearray) -> dict[str, object]:
        self._sequence += 1
        text = base64.b64encode(data).decode()
        return {"sequence": self._sequence - 1, "stream": stream, "data": text}


class _Session:
    """Reads both pipes of a running command until it is over or its time is."""

    def __init__(
        self, process: subprocess.Popen[bytes], output: OutputSender, timeout_seconds: float
    ) -> None:
        self._process = process
        self._output = output
        self._deadline = time.monotonic() + timeout_seconds
        self._selector = selectors.DefaultSelector()
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, selectors.EVENT_READ, name)

    def run(self, cancelled: threading.Event) -> bool:
        """True if the time ran out."""
        timed_out, ended_at = False, None
        while not cancelled.is_set():
            self._read(_FLUSH_SECONDS)
            now = time.monotonic()
            if self._process.poll() is not None:
                ended_at = ended_at or now
                if not self._selector.get_map() or now - ended_at > _LINGER_SECONDS:
                    break
            elif now > self._deadline:
                timed_out = True
                kill_group(self._process.pid)
            self._output.flush_if_due()
        self._close()
        return timed_out

    def _read(self, timeout: float) -> None:
        if not self._selector.get_map():
            # Both pipes are closed, but the command goes on.
            time.sleep(0.02)
            return
        for key, _ in self._selector.select(timeout):
            data = os.read(key.fd, OUTPUT_CHUNK_BYTES)
            if data:
                self._output.add(key.data, data)
            else:
                self._selector.unregister(key.fileobj)

    def _close(self) -> None:
        self._selector.close()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
