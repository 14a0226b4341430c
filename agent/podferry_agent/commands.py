"""Runs the commands that heartbeats bring down, each once, and reports how they stand."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from podferry_agent.errors import AgentError, StoppingError, WireError
from podferry_agent.journal import CommandJournal, JournalEntry
from podferry_agent.processes import is_alive, kill_group
from podferry_agent.redaction import redact
from podferry_agent.wire import Command

_LOG = logging.getLogger(__name__)
_MOST_AT_ONCE = 32
_DETAIL_CHARACTERS = 2000
# Both are idempotent: they go on where they stood, from what is stored and what is on disk.
RERUN_KINDS = frozenset({"capture", "restore"})


@dataclass(slots=True)
class CommandContext:
    """What a handler may use: its command, whether to stop, and where to say how far it is."""

    command: Command
    cancelled: threading.Event
    note_process: Callable[[int, int], None]
    progress: dict[str, object] | None = None
    stop_reason: str = "cancelled"

    def report(self, progress: dict[str, object]) -> None:
        self.progress = progress

    def stop(self, reason: str) -> None:
        self.stop_reason = reason
        self.cancelled.set()

    def raise_if_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise StoppingError(f"the command was {self.stop_reason.replace('_', ' ')}")


Handler = Callable[[CommandContext], Mapping[str, object]]


@dataclass(slots=True)
class CommandRunner:
    """Keeps every command it ever ran, so that one that comes twice or late is not run again."""

    handlers: Mapping[str, Handler]
    journal: CommandJournal
    on_end: Callable[[], None]
    _entries: dict[str, JournalEntry] = field(default_factory=dict)
    _contexts: dict[str, CommandContext] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def recover(self) -> None:
        """At the agent's start: report the truth about what was running when it was killed."""
        self._entries = self.journal.load()
        for entry in list(self._entries.values()):
            if entry.has_ended:
                continue
            if entry.kind in RERUN_KINDS:
                _LOG.info("command_run_again", extra={"command_id": entry.id, "kind": entry.kind})
                self._launch(Command(entry.id, entry.kind, entry.args, entry.timeout_seconds))
                continue
            if entry.pid is not None and is_alive(entry.pid, entry.started):
                kill_group(entry.pid)
            detail = "the agent was restarted while this command ran; how far it got is unknown"
            self._finish(entry, error=_error("agent_restarted", detail, retryable=True))

    def accept(self, command: Command) -> None:
        """Start it, unless it is known: then only make sure that its end is reported (again)."""
        with self._lock:
            known = self._entries.get(command.id)
            if known is not None:
                known.is_reported = False
                return
            keeps_args = command.kind in RERUN_KINDS
            entry = JournalEntry(
                id=command.id,
                kind=command.kind,
                timeout_seconds=command.timeout_seconds,
                args=dict(command.args) if keeps_args else {},
            )
            self.journal.save(entry)
            self._entries[command.id] = entry
            is_full = len(self._contexts) >= _MOST_AT_ONCE
        if command.kind == "cancel":
            self._cancel(entry, command)
        elif is_full:
            detail = f"{_MOST_AT_ONCE} commands run already; try again when one has ended"
            self._finish(entry, error=_error("too_many_commands", detail, retryable=True))
        else:
            self._launch(command)

    def knows(self, command_id: str) -> bool:
        """Whether it was ever accepted."""
        with self._lock:
            return command_id in self._entries

    def reports(self) -> list[dict[str, object]]:
        with self._lock:
            return [
                entry.report(self._progress(entry.id))
                for entry in self._entries.values()
                if not entry.is_reported
            ]

    def forget(self, command_ids: Iterable[str]) -> None:
        """Their ends arrived. They stay known, in case one is delivered once more."""
        with self._lock:
            for command_id in command_ids:
                entry = self._entries.get(command_id)
                if entry is not None and entry.has_ended and not entry.is_reported:
                    entry.is_reported = True
                    self.journal.save(entry)
            self.journal.prune(self._entries)

    def is_settled(self) -> bool:
        """Whether every end has arrived at the control plane."""
        with self._lock:
            return all(entry.is_reported for entry in self._entries.values())

    def running(self) -> list[CommandContext]:
        with self._lock:
            return list(self._contexts.values())

    def stop_all(self, reason: str) -> None:
        for context in self.running():
            context.stop(reason)

    def _progress(self, command_id: str) -> dict[str, object] | None:
        context = self._contexts.get(command_id)
        return None if context is None else context.progress

    def _launch(self, command: Command) -> None:
        context = CommandContext(command, threading.Event(), self._process_noter(command.id))
        with self._lock:
            self._contexts[command.id] = context
        name = f"command-{command.kind}"
        threading.Thread(target=self._run, args=(context,), name=name, daemon=True).start()

    def _process_noter(self, command_id: str) -> Callable[[int, int], None]:
        def note(pid: int, started: int) -> None:
            with self._lock:
                entry = self._entries[command_id]
                entry.pid, entry.started = pid, started
                self.journal.save(entry)

        return note

    def _run(self, context: CommandContext) -> None:
        command = context.command
        extra = {"command_id": command.id, "kind": command.kind}
        _LOG.info("command_started", extra=extra)
        timer = threading.Timer(command.timeout_seconds, context.stop, args=("timed_out",))
        timer.daemon = True
        timer.start()
        try:
            outcome = self._outcome(context)
        finally:
            timer.cancel()
        entry = self._entries[command.id]
        self._finish(entry, **outcome)
        _LOG.info("command_ended", extra={**extra, "state": entry.state, "error": entry.error})

    def _outcome(self, context: CommandContext) -> dict[str, dict[str, object]]:
        handler = self.handlers.get(context.command.kind)
        if handler is None:
            detail = f"this agent has no command {context.command.kind!r}; use a newer agent"
            return {"error": _error("unknown_command", detail)}
        try:
            return {"result": dict(handler(context))}
        except Exception as error:  # noqa: BLE001 - the outermost edge of a command
            if context.cancelled.is_set():
                return {"error": _error(context.stop_reason, str(error), retryable=True)}
            return {"error": _describe(error)}

    def _finish(
        self,
        entry: JournalEntry,
        *,
        result: dict[str, object] | None = None,
        error: dict[str, object] | None = None,
    ) -> None:
        with self._lock:
            entry.state = "succeeded" if error is None else "failed"
            entry.result, entry.error, entry.args = result, error, {}
            self.journal.save(entry)
            self._contexts.pop(entry.id, None)
        self.on_end()

    def _cancel(self, entry: JournalEntry, command: Command) -> None:
        try:
            target = command.fields().text("command_id")
        except WireError as error:
            self._finish(entry, error=_describe(error))
            return
        with self._lock:
            context = self._contexts.get(target)
        if context is not None:
            context.stop("cancelled")
        self._finish(entry, result={})


def _describe(error: Exception) -> dict[str, object]:
    if isinstance(error, AgentError):
        return _error(error.code, str(error), retryable=error.retryable)
    _LOG.error("command_crashed", exc_info=error)
    detail = f"{type(error).__name__}: {error}"
    return _error("agent_failure", detail, retryable=isinstance(error, OSError))


def _error(code: str, detail: str, *, retryable: bool = False) -> dict[str, object]:
    return {"code": code, "detail": redact(detail)[:_DETAIL_CHARACTERS], "retryable": retryable}
