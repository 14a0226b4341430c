"""Move a pod: stop it, then start it elsewhere; the new place is looked for first."""

from dataclasses import dataclass, replace
from datetime import datetime

from podferry.domain.errors import WrongStateError
from podferry.domain.offer import Requirements
from podferry.domain.operation import Cause, Operation, OperationKind
from podferry.domain.pod import Pod, PodState
from podferry.ports.store import Create, Update
from podferry.services.operations import Operations, require_idle
from podferry.services.records import Records
from podferry.services.secrets import require_secrets


@dataclass(frozen=True, slots=True)
class MovePod:
    """The door into the move workflow."""

    records: Records
    operations: Operations

    def ask(
        self,
        account_id: str,
        pod_id: str,
        requirements: Requirements | None,
        cause: Cause,
        *,
        wait_until: datetime | None = None,
    ) -> Operation:
        """Begin a move of a running pod.

        With `wait_until` the machine is left though there may be nothing to go to: the pod then
        waits for capacity until that moment.

        Raises:
            NotFoundError: no such pod.
            WrongStateError: the pod is not running.
            SecretMissingError: its environment names a secret that there is not.
            ConflictError: the pod changed at the same moment.
        """
        pod = self.records.get_own(Pod, account_id, pod_id)
        require_idle(pod)
        if pod.state != PodState.RUNNING:
            raise WrongStateError(f"pod {pod.id} is {pod.state}; only a running pod can move")
        if cause == Cause.USER:
            # What nobody asked for goes on: a machine that will go is left in any case.
            require_secrets(self.records, account_id, pod.spec)
        operation = Operation(
            id=self.records.new_id(Operation),
            account_id=pod.account_id,
            created_at=self.records.now(),
            pod_id=pod.id,
            kind=OperationKind.MOVE,
            cause=cause,
            requirements=requirements,
            capacity_deadline_at=wait_until,
            halves=(self.records.new_id(Operation), self.records.new_id(Operation)),
        )
        self.operations.store_and_launch(
            operation,
            Create(self.operations.with_milestone(operation, "asked")),
            Update(replace(pod, operation_id=operation.id)),
            self.records.pod_event(pod, "pod.move_asked", operation),
        )
        return operation
