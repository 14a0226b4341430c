"""Tell the machine to restore, and then to make itself usable."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from podferry.domain.account import Account, SshKey
from podferry.domain.command import CommandKind
from podferry.domain.host_key import SSH_PORT
from podferry.domain.machine import Machine
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.domain.snapshot import SnapshotKind
from podferry.ports.workflows import Workflows
from podferry.services.commands import GiveCommand, Order, machine_of
from podferry.services.operations import Operations
from podferry.services.records import Records

RESTORE_SECONDS = 24 * 3600
RUN_MARGIN_SECONDS = 60


@dataclass(frozen=True, slots=True)
class RestoreSnapshot:
    """Restore the environment or the volume; nothing expected means nothing to do."""

    records: Records
    operations: Operations
    workflows: Workflows
    commands: GiveCommand
    kind: SnapshotKind

    def run(self, operation_id: str, task_token: str) -> None:
        """Give the command; the agent's report answers the token.

        Raises:
            OperationCancelledError, MachineLostError, ConflictError (run it again).
        """
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        snapshot_id = operation.environment_snapshot_id
        if self.kind == SnapshotKind.VOLUME:
            snapshot_id = operation.volume_snapshot_id
        if snapshot_id is None:
            self.workflows.succeed(task_token, {"restored": None})
            return
        order = partial(self._order, operation, snapshot_id)
        self.commands.once(operation, f"restore-{self.kind}", task_token, order)

    def _order(self, operation: Operation, snapshot_id: str) -> Order:
        pod = self.operations.pod_of(operation)
        return Order(
            kind=CommandKind.RESTORE,
            arguments={
                "kind": self.kind,
                "snapshot_id": snapshot_id,
                "chunk_key": self.records.store.get(Account, pod.account_id).chunk_key,
                "rules": list(pod.capture_rules),
                "ssh_authorized_keys": public_keys(self.records, pod),
            },
            timeout_seconds=RESTORE_SECONDS,
        )


@dataclass(frozen=True, slots=True)
class AwaitReady:
    """Run the startup script and probe the pod: `running` means usable (promise 6)."""

    records: Records
    operations: Operations
    commands: GiveCommand

    def run(self, operation_id: str, task_token: str) -> None:
        """Give the command; the agent's report answers the token.

        Raises:
            OperationCancelledError, MachineLostError, ConflictError (run it again).
        """
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        self.commands.once(operation, "run", task_token, partial(self._order, operation))

    def _order(self, operation: Operation) -> Order:
        pod = self.operations.pod_of(operation)
        machine = machine_of(self.records, operation)
        return Order(
            kind=CommandKind.RUN,
            arguments=_run_arguments(self.records, pod, machine),
            timeout_seconds=pod.spec.start_timeout_seconds + RUN_MARGIN_SECONDS,
        )


def _run_arguments(records: Records, pod: Pod, machine: Machine) -> dict[str, Any]:
    return {
        "startup_script": pod.spec.startup_script,
        "environment": {**pod.spec.environment, "PODFERRY_POD_ID": pod.id},
        "ssh_authorized_keys": public_keys(records, pod),
        "require_gpu": machine.offer.gpu_count > 0,
        "timeout_seconds": pod.spec.start_timeout_seconds,
        "port": pod.spec.serving_port,
        "ssh_port": SSH_PORT,
    }


def public_keys(records: Records, pod: Pod) -> list[str]:
    """The account's SSH keys, oldest first."""
    page = records.store.list_owned(SshKey, pod.account_id, limit=100, newest_first=False)
    return [key.public_key for key in page.items]
