"""Stop a pod: hand over to the workflow that captures, verifies and only then gives up."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podferry.domain.operation import Cause, Operation, OperationKind
from podferry.domain.pod import Desired, Pod, PodState, check_move
from podferry.ports.store import Change, Create, Update
from podferry.services.operations import Operations, require_idle
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class StopPod:
    """The one door into the stop workflow, whatever the cause (promise 9)."""

    records: Records
    operations: Operations

    def ask(
        self,
        account_id: str,
        pod_id: str,
        *,
        accept_loss: bool,
        cause: Cause,
        also: Sequence[Change] = (),
    ) -> Operation:
        """Begin a stop of a running pod.

        With `accept_loss` the pod is stopped even if its captures fail; the operation's result
        then lists what is lost. `also` is written with it or not at all.

        Raises:
            NotFoundError: no such pod.
            WrongStateError: the pod is not running.
            ConflictError: the pod moved at the same moment.
        """
        pod = self.records.get_own(Pod, account_id, pod_id)
        require_idle(pod)
        operation = Operation(
            id=self.records.new_id(Operation),
            account_id=pod.account_id,
            created_at=self.records.now(),
            pod_id=pod.id,
            kind=OperationKind.STOP,
            cause=cause,
            accept_loss=accept_loss,
        )
        self.operations.store_and_launch(operation, *self.changes(pod, operation), *also)
        return operation

    def changes(self, pod: Pod, operation: Operation) -> list[Change]:
        """The rows of a stop of this pod by this (new) operation.

        Raises:
            WrongStateError: the pod is not running.
        """
        check_move(pod, PodState.STOPPING)
        stopping = replace(
            pod, state=PodState.STOPPING, desired=Desired.STOPPED, operation_id=operation.id
        )
        marked = replace(
            self.operations.with_milestone(operation, "asked"), machine_id=pod.machine_id
        )
        return [
            Update(stopping),
            Create(marked),
            self.records.pod_event(
                pod, "pod.stop_asked", operation, accept_loss=operation.accept_loss
            ),
        ]
