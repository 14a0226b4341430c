"""Heartbeats carry health and progress up and commands down."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from podferry.domain.activity import Activity, Signal
from podferry.domain.command import ENDED, Command, CommandKind, CommandState, Progress
from podferry.domain.errors import EpochStaleError
from podferry.domain.machine import Machine, MachineState, Pulse
from podferry.domain.pod import Pod, PodState
from podferry.domain.principal import Principal
from podferry.ports.store import Change, Create, Update
from podferry.services.agent.membership import current_place
from podferry.services.agent.register import BUSY_HEARTBEAT_SECONDS
from podferry.services.commands import answer_step, closed
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.recover.leftovers import NoteReturn
from podferry.services.saves.end import EndSave
from podferry.services.saves.rows import SAVE_STEP

RESTING_HEARTBEAT_SECONDS = 10.0
STAYS_BUSY = timedelta(seconds=60)
PULSE_EVERY = timedelta(seconds=4)
"""Health is stored at most this often; reports of commands are never held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReport:
    """What the agent says of a command: `running`, `succeeded` or `failed`."""

    id: str
    state: CommandState
    progress: Progress | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One heartbeat."""

    boot_id: str
    workload: dict[str, Any]
    metrics: dict[str, Any]
    activity: Activity | None = None
    reports: tuple[CommandReport, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatReply:
    """Commands to carry out, and ids whose end has arrived for good."""

    heartbeat_seconds: float
    commands: tuple[Command, ...] = ()
    forget: tuple[str, ...] = field(default=())
    save_interval_seconds: int | None = None
    """`None` while the pod is not to be saved."""
    idle_signals: tuple[Signal, ...] | None = None
    """What the agent watches; `None` while the pod is not to be stopped when idle."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """What became of a report: may the agent forget the command, is it worth quick beats."""

    id: str
    is_over: bool
    is_quiet: bool


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Reports may come twice, late or out of order; a command's end is final."""

    records: Records
    operations: Operations
    saves: EndSave
    returned: NoteReturn

    def beat(self, principal: Principal, beat: Beat) -> BeatReply:
        """Take the reports, keep the waiting steps alive, hand out commands.

        Raises:
            EpochStaleError: the machine must end itself.
        """
        machine, pod = self._place(principal)
        taken = [self._take(machine, r) for r in beat.reports]
        forget = tuple(t.id for t in taken if t.is_over)
        page = self.records.store.list_owned(Command, machine.id, limit=100, newest_first=False)
        # The list may lag: a command that has just ended must not go out again.
        open_commands = tuple(
            c for c in page.items if c.id not in forget and not _is_held_back(c, machine)
        )
        is_busy = (
            machine.state != MachineState.READY
            or any(not t.is_quiet for t in taken)
            or any(not _is_quiet(c) for c in open_commands)
        )
        busy_until = self._pulse(machine, beat, is_busy=is_busy)
        stays_busy = is_busy or self.records.now() < busy_until
        is_running = pod.state == PodState.RUNNING
        is_saved = is_running and not pod.is_reader
        return BeatReply(
            heartbeat_seconds=BUSY_HEARTBEAT_SECONDS if stays_busy else RESTING_HEARTBEAT_SECONDS,
            commands=open_commands,
            forget=forget,
            save_interval_seconds=pod.save_interval_seconds if is_saved else None,
            idle_signals=pod.idle.signals if is_running and pod.idle else None,
        )

    def _place(self, principal: Principal) -> tuple[Machine, Pod]:
        try:
            return current_place(self.records, principal)
        except EpochStaleError:
            self.returned.run(principal.machine_id or "")
            raise

    def _take(self, machine: Machine, report: CommandReport) -> _Taken:
        """Store the report."""
        command = self.records.store.find(Command, report.id)
        if command is None or command.machine_id != machine.id:
            # Its row expired, or it was never this machine's: nobody waits for it.
            return _Taken(report.id, is_over=True, is_quiet=True)
        is_over = command.state in ENDED or report.state != CommandState.RUNNING
        if not is_over:
            self._progress(command, report)
        elif command.state in ENDED:
            self._answer(command)
        else:
            self.records.apply(lambda: self._end(report))
            self._answer(self.records.store.get(Command, report.id))
        return _Taken(report.id, is_over=is_over, is_quiet=_is_quiet(command))

    def _progress(self, command: Command, report: CommandReport) -> None:
        def plan() -> Sequence[Change]:
            fresh = self.records.store.get(Command, command.id)
            if fresh.state in ENDED:
                return []
            state = CommandState.RUNNING
            if (fresh.state, fresh.progress) == (state, report.progress):
                return []
            return [Update(replace(fresh, state=state, progress=report.progress))]

        self.records.apply(plan)
        if command.task_token is not None:
            self.operations.workflows.beat(command.task_token)
        if command.operation_id is not None:
            self.operations.beat_waiter(self.operations.load(command.operation_id))

    def _end(self, report: CommandReport) -> Sequence[Change]:
        command = self.records.store.get(Command, report.id)
        if command.state in ENDED:
            return []
        error = report.error
        if report.state == CommandState.FAILED and error is None:
            error = {"code": "unexplained", "detail": "the agent gave no reason"}
        if report.state == CommandState.SUCCEEDED:
            error = None
        return [Update(closed(command, self.records, result=report.result, error=error))]

    def _answer(self, command: Command) -> None:
        """Answering twice is harmless: a token is good for one answer, a save for one end."""
        if command.step == SAVE_STEP:
            self.saves.command_ended(command)
        if command.task_token is not None:
            answer_step(self.operations.workflows, command, command.task_token)

    def _pulse(self, machine: Machine, beat: Beat, *, is_busy: bool) -> datetime:
        now = self.records.now()
        present = self.records.store.find(Pulse, machine.id)
        busy_until = now + STAYS_BUSY if is_busy else now
        if present is not None:
            busy_until = max(busy_until, present.busy_until)
            is_same = (present.workload, present.boot_id) == (beat.workload, beat.boot_id)
            if is_same and now - present.heard_at < PULSE_EVERY:
                return busy_until
        pulse = Pulse(
            id=machine.id,
            account_id=machine.account_id,
            created_at=machine.created_at,
            revision=0 if present is None else present.revision,
            heard_at=now,
            boot_id=beat.boot_id,
            busy_until=busy_until,
            workload=beat.workload,
            metrics=beat.metrics,
            activity=beat.activity,
        )
        self.records.store.commit(Create(pulse) if present is None else Update(pulse))
        return busy_until


def _is_quiet(command: Command) -> bool:
    """Nobody waits for a background save; with one a minute every beat would be a quick one."""
    return command.step == SAVE_STEP and command.operation_id is None


def _is_held_back(command: Command, machine: Machine) -> bool:
    """A user's command is not begun while the pod is brought to rest and captured."""
    is_new = (command.kind, command.state) == (CommandKind.EXEC, CommandState.PENDING)
    return is_new and machine.state == MachineState.DRAINING
