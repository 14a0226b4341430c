"""Run a command in a pod, through its agent."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from podferry.domain.command import ENDED, Command, CommandKind, OutputChunk
from podferry.domain.errors import NotFoundError, WrongStateError
from podferry.domain.machine import FINAL_STATES, Machine
from podferry.domain.pod import Pod, PodState
from podferry.ports.store import Change, Check, Create, Page, Update
from podferry.services.commands import closed
from podferry.services.records import Records

KEEP_OUTPUT = timedelta(hours=24)
_MACHINE_GONE = {
    "code": "machine_gone",
    "detail": "the machine was given up before the command ended; its outcome is unknown",
    "retryable": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    """What to run: `argv`, or a `script` for /bin/sh; exactly one of them."""

    argv: tuple[str, ...] | None = None
    script: str | None = None
    stdin: str | None = None
    """Base64."""
    timeout_seconds: int = 60
    working_dir: str | None = None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunCommand:
    """The result is the command's row; the output comes in chunks while it runs."""

    records: Records

    def ask(self, account_id: str, pod_id: str, request: ExecRequest) -> Command:
        """Queue the command for the pod's machine.

        Raises:
            NotFoundError: no such pod.
            WrongStateError: the pod is not running.
            ConflictError: the pod changed at the same moment.
        """
        pod = self.records.get_own(Pod, account_id, pod_id)
        if pod.state != PodState.RUNNING or pod.machine_id is None:
            raise WrongStateError(f"pod {pod.id} is {pod.state}; commands need a running pod")
        machine = self.records.store.get(Machine, pod.machine_id)
        command = Command(
            id=self.records.new_id(Command),
            account_id=account_id,
            created_at=self.records.now(),
            machine_id=machine.id,
            pod_id=pod.id,
            kind=CommandKind.EXEC,
            arguments=_arguments(pod, request),
            timeout_seconds=request.timeout_seconds,
            expires_at=self.records.now() + KEEP_OUTPUT,
        )
        # Not one more once the pod is stopping: the capture would see it at work.
        self.records.store.commit(Create(command), Check(pod))
        return command

    def get(self, account_id: str, pod_id: str, command_id: str) -> Command:
        """The command with its end, if it has ended.

        Raises:
            NotFoundError: no such command of this pod.
        """
        command = self.records.get_own(Command, account_id, command_id)
        if command.pod_id != pod_id or command.kind != CommandKind.EXEC:
            raise NotFoundError(f"no command {command_id} in pod {pod_id}")
        if command.state in ENDED or not self._is_machine_over(command):
            return command
        self.records.apply(lambda: self._end(command_id))
        return self.records.store.get(Command, command_id)

    def _is_machine_over(self, command: Command) -> bool:
        machine = self.records.store.get(Machine, command.machine_id)
        return machine.give_up_at is not None or machine.state in FINAL_STATES

    def _end(self, command_id: str) -> Sequence[Change]:
        """Nobody will report the end of a command whose machine is gone."""
        command = self.records.store.get(Command, command_id)
        if command.state in ENDED:
            return []
        return [Update(closed(command, self.records, error=_MACHINE_GONE))]

    def output(
        self, account_id: str, pod_id: str, command_id: str, after: int, limit: int
    ) -> Page[OutputChunk]:
        """What the command wrote after sequence number `after`, in order.

        The page's cursor is the sequence number to go on after.
        """
        self.get(account_id, pod_id, command_id)
        chunks: list[OutputChunk] = []
        cursor: str | None = None
        while True:
            page = self.records.store.list_owned(
                OutputChunk, command_id, limit=100, cursor=cursor, newest_first=False
            )
            chunks += [chunk for chunk in page.items if chunk.sequence > after]
            cursor = page.cursor
            if cursor is None or len(chunks) > limit:
                break
        has_more = len(chunks) > limit
        last = str(chunks[limit - 1].sequence) if has_more else None
        return Page(items=chunks[:limit], cursor=last)


def _arguments(pod: Pod, request: ExecRequest) -> dict[str, Any]:
    return {
        "argv": None if request.argv is None else list(request.argv),
        "script": request.script,
        "stdin": request.stdin,
        "timeout_seconds": request.timeout_seconds,
        "working_dir": request.working_dir,
        "environment": {**pod.spec.environment, **request.environment},
    }
