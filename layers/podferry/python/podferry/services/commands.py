"""Give a machine's agent something to do on behalf of a workflow step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.command import ENDED, Command, CommandKind, CommandState
from podferry.domain.errors import InternalError, MachineLostError
from podferry.domain.machine import FINAL_STATES, Machine
from podferry.domain.operation import Operation
from podferry.ports.store import Change, Create, Update
from podferry.ports.workflows import Workflows
from podferry.services.operations import Operations
from podferry.services.records import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a step wants its operation's machine to do."""

    kind: CommandKind
    arguments: dict[str, Any]
    timeout_seconds: int
    rows: Sequence[Change] = ()
    """Written in the same transaction as the command."""


@dataclass(frozen=True, slots=True)
class GiveCommand:
    """One command for each operation, step and try, however often the step itself is run."""

    records: Records
    operations: Operations
    workflows: Workflows

    def once(
        self,
        operation: Operation,
        step: str,
        task_token: str,
        order: Callable[[], Order],
        *,
        tries_again: bool = False,
    ) -> None:
        """Give the step's command, or wait for the one that an earlier run of the step gave.

        The command's end answers the task token. `order` is called only if there is something to
        give: no command yet or, for a step that `tries_again`, one that failed.

        Raises:
            OperationCancelledError: a cancel came meanwhile and could not know the new token.
            MachineLostError: the machine is given up or proven gone.
            ConflictError: the same step ran at the same time; its retry finds that command.
        """
        earlier = self.latest(operation, step)
        if earlier is None or (tries_again and earlier.state == CommandState.FAILED):
            self._give(operation, step, task_token, order())
        else:
            self._rejoin(operation, earlier, task_token)

    def latest(self, operation: Operation, step: str) -> Command | None:
        """The step's newest command to the operation's present machine, if it gave one."""
        ids = _given(operation, step)
        if not ids:
            return None
        command = self.records.store.get(Command, ids[-1])
        return command if command.machine_id == operation.machine_id else None

    def _give(self, operation: Operation, step: str, task_token: str, order: Order) -> None:
        command = Command(
            id=f"{_prefix(operation, step)}{len(_given(operation, step)) + 1}",
            account_id=operation.account_id,
            created_at=self.records.now(),
            machine_id=machine_of(self.records, operation).id,
            pod_id=operation.pod_id,
            kind=order.kind,
            arguments=order.arguments,
            timeout_seconds=order.timeout_seconds,
            operation_id=operation.id,
            step=step,
            task_token=task_token,
        )
        listed = replace(operation, commands=(*operation.commands, command.id))
        self.records.store.commit(
            Create(command), Update(self.operations.with_milestone(listed, step)), *order.rows
        )

    def _rejoin(self, operation: Operation, command: Command, task_token: str) -> None:
        """Let the new task token wait for a command that was given, and perhaps has ended."""

        def plan() -> Sequence[Change]:
            present = self.records.store.get(Command, command.id)
            if present.state in ENDED:
                return []
            return [Update(replace(present, task_token=task_token))]

        self.records.apply(plan)
        present = self.records.store.get(Command, command.id)
        if present.state in ENDED:
            answer_step(self.workflows, present, task_token)
        if operation.turned_back is None:
            # A step that goes forward. A cancel that came meanwhile woke the old token only.
            self.operations.check_wanted(self.operations.load(operation.id))

    def withdraw_open(self, operation: Operation) -> None:
        """Close the operation's open commands and tell the agent to leave them."""
        for command_id in operation.commands:

            def plan(command_id: str = command_id) -> Sequence[Change]:
                command = self.records.store.get(Command, command_id)
                if command.state in ENDED:
                    return []
                return [
                    Update(closed(command, self.records, error=_WITHDRAWN)),
                    Create(cancel_of(command, self.records)),
                ]

            self.records.apply(plan)


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


def cancel_of(command: Command, records: Records) -> Command:
    """The command that tells the agent to leave another one."""
    return Command(
        id=f"{command.id}-cancel",
        account_id=command.account_id,
        created_at=records.now(),
        machine_id=command.machine_id,
        pod_id=command.pod_id,
        kind=CommandKind.CANCEL,
        arguments={"command_id": command.id},
        timeout_seconds=60,
        operation_id=command.operation_id,
    )


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
        "secret_missing": "SecretMissingError",
        # The machine's fault, not the pod's: another one may do.
        "gpu_unusable": "BootFailedError",
        "ssh_probe_failed": "BootFailedError",
    }
    return names.get(code, "AgentFailedError")


def machine_of(records: Records, operation: Operation) -> Machine:
    """The operation's machine, to which its commands go.

    Raises:
        MachineLostError: it is given up or proven gone.
    """
    if operation.machine_id is None:
        raise InternalError(f"operation {operation.id} has no machine")
    machine = records.store.get(Machine, operation.machine_id)
    if machine.state in FINAL_STATES:
        raise MachineLostError(f"machine {machine.id} is {machine.state}")
    return machine


def _given(operation: Operation, step: str) -> list[str]:
    """The ids of the step's commands so far, oldest first."""
    return [c for c in operation.commands if c.startswith(_prefix(operation, step))]


def _prefix(operation: Operation, step: str) -> str:
    return f"cmd_{operation.id.partition('_')[2]}-{step}-"
