"""Give a machine's agent something to do on behalf of a workflow step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.command import ENDED, Command, CommandKind, CommandState
from podferry.domain.machine import Machine
from podferry.domain.operation import Operation
from podferry.ports.store import Change, Create, Update
from podferry.ports.workflows import Workflows
from podferry.services.operations import Operations
from podferry.services.records import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command that a step wants carried out, and the token that waits for its end."""

    step: str
    kind: CommandKind
    arguments: dict[str, Any]
    timeout_seconds: int


@dataclass(frozen=True, slots=True)
class GiveCommand:
    """One command for each operation, step and try, however often the step itself is run."""

    records: Records
    operations: Operations
    workflows: Workflows

    def latest(self, operation: Operation, step: str) -> Command | None:
        """The step's newest command to the operation's present machine, if it gave one."""
        ids = [c for c in operation.commands if c.startswith(f"{_base(operation, step)}-")]
        if not ids:
            return None
        command = self.records.store.get(Command, ids[-1])
        return command if command.machine_id == operation.machine_id else None

    def give(
        self,
        operation: Operation,
        machine: Machine,
        order: Order,
        task_token: str,
        extra: Sequence[Change] = (),
    ) -> None:
        """Store a new command for the step; `extra` is written in the same transaction.

        Raises:
            ConflictError: the same step ran at the same time; its retry finds that command.
        """
        number = 1 + sum(
            c.startswith(f"{_base(operation, order.step)}-") for c in operation.commands
        )
        command = Command(
            id=f"{_base(operation, order.step)}-{number}",
            account_id=operation.account_id,
            created_at=self.records.now(),
            machine_id=machine.id,
            pod_id=operation.pod_id,
            kind=order.kind,
            arguments=order.arguments,
            timeout_seconds=order.timeout_seconds,
            operation_id=operation.id,
            step=order.step,
            task_token=task_token,
        )
        listed = replace(operation, commands=(*operation.commands, command.id))
        self.records.store.commit(
            Create(command),
            Update(self.operations.with_milestone(listed, order.step)),
            *extra,
        )

    def rejoin(self, operation: Operation, command: Command, task_token: str) -> None:
        """Like `resume`, for a step that goes forward.

        Raises:
            OperationCancelledError: a cancel came meanwhile and could not know the new token.
        """
        self.resume(command, task_token)
        self.operations.check_wanted(self.operations.load(operation.id))

    def resume(self, command: Command, task_token: str) -> None:
        """Let the new task token wait for a command that an earlier run of the step gave."""
        if command.state in ENDED:
            answer_step(self.workflows, command, task_token)
            return

        def plan() -> Sequence[Change]:
            present = self.records.store.get(Command, command.id)
            if present.state in ENDED:
                return []
            return [Update(replace(present, task_token=task_token))]

        self.records.apply(plan)
        present = self.records.store.get(Command, command.id)
        if present.state in ENDED:
            answer_step(self.workflows, present, task_token)

    def withdraw_open(self, operation: Operation, machine: Machine) -> None:
        """Close the operation's open commands and tell the agent to leave them."""
        for command_id in operation.commands:

            def plan(command_id: str = command_id) -> Sequence[Change]:
                command = self.records.store.get(Command, command_id)
                if command.state in ENDED:
                    return []
                return [
                    Update(closed(command, self.records, error=_WITHDRAWN)),
                    Create(self._cancel_of(command, machine)),
                ]

            self.records.apply(plan)

    def _cancel_of(self, command: Command, machine: Machine) -> Command:
        return Command(
            id=f"{command.id}-cancel",
            account_id=command.account_id,
            created_at=self.records.now(),
            machine_id=machine.id,
            pod_id=command.pod_id,
            kind=CommandKind.CANCEL,
            arguments={"command_id": command.id},
            timeout_seconds=60,
            operation_id=command.operation_id,
        )


_WITHDRAWN = {"code": "withdrawn", "detail": "the operation turned back", "retryable": False}


def closed(
    command: Command,
    records: Records,
    *,
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
) -> Command:
    """The command in its final state: failed if there is an error."""
    state = CommandState.SUCCEEDED if error is None else CommandState.FAILED
    return replace(command, state=state, result=result, error=error, ended_at=records.now())


def answer_step(workflows: Workflows, command: Command, task_token: str) -> None:
    """Tell the waiting step how the command ended."""
    if command.state == CommandState.SUCCEEDED:
        workflows.succeed(task_token, {"command_id": command.id})
        return
    error = command.error or {}
    workflows.fail(
        task_token, error_name(str(error.get("code"))), str(error.get("detail", "no detail"))
    )


def error_name(code: str) -> str:
    """The error class, by name, that stands for an agent's error code in a workflow."""
    names = {
        "snapshot_missing": "SnapshotMissingError",
        "snapshot_corrupt": "SnapshotCorruptError",
    }
    return names.get(code, "AgentFailedError")


def _base(operation: Operation, step: str) -> str:
    return f"cmd_{operation.id.partition('_')[2]}-{step}"
