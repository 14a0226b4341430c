"""Start a pod: take its volume's lease, name what must be restored, hand over to the workflow."""

from dataclasses import dataclass, replace

from podferry.domain.offer import Requirements
from podferry.domain.operation import Cause, Operation, OperationKind
from podferry.domain.pod import Desired, Pod, PodState, check_move
from podferry.domain.use_of_volume import Attachment, taken
from podferry.domain.volume import Volume
from podferry.ports.store import Create, Update
from podferry.services.operations import Operations, require_idle
from podferry.services.records import Records
from podferry.services.secrets import require_secrets
from podferry.services.volumes.attach import attached
from podferry.services.volumes.rules import require_present


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a start writes, in one transaction."""

    pod: Pod
    volume: Volume
    operation: Operation
    event: Create


@dataclass(frozen=True, slots=True)
class StartPod:
    """The one door into the launch workflow."""

    records: Records
    operations: Operations

    def ask(
        self,
        account_id: str,
        pod_id: str,
        requirements: Requirements | None,
        cause: Cause,
        attach: Attachment | None = None,
    ) -> Operation:
        """Begin a start of a stopped pod, with `attach` on another volume from then on.

        Raises:
            NotFoundError: no such pod or volume.
            WrongStateError: the pod is not stopped; of two starts at once one gets this.
            VolumeBusyError: another pod's machine may write the volume.
            SecretMissingError: its environment names a secret that there is not.
            ConflictError: the pod moved at the same moment.
        """
        pod = self.records.get_own(Pod, account_id, pod_id)
        require_idle(pod)
        if attach is not None:
            pod = attached(self.records, pod, attach)
        volume = self.records.store.get(Volume, pod.volume_id)
        operation = self.new_operation(pod, OperationKind.START, cause, requirements)
        start = self.plan(pod, volume, operation)
        self.operations.store_and_launch(
            operation,
            Update(start.pod),
            Update(start.volume),
            Create(start.operation),
            start.event,
        )
        return operation

    def new_operation(
        self,
        pod: Pod,
        kind: OperationKind,
        cause: Cause,
        requirements: Requirements | None = None,
    ) -> Operation:
        """An operation that is not stored yet."""
        return Operation(
            id=self.records.new_id(Operation),
            account_id=pod.account_id,
            created_at=self.records.now(),
            pod_id=pod.id,
            kind=kind,
            cause=cause,
            requirements=requirements,
        )

    def plan(self, pod: Pod, volume: Volume, operation: Operation) -> Start:
        """The rows of a start of this pod by this new operation.

        Raises:
            WrongStateError: the pod is not stopped, or its volume was deleted or, for a reader,
                never saved.
            VolumeBusyError: another pod holds the volume.
            SecretMissingError: its environment names a secret that there is not.
        """
        check_move(pod, PodState.LAUNCHING)
        require_present(volume)
        require_secrets(self.records, pod.account_id, pod.spec)
        return Start(
            pod=replace(
                pod,
                state=PodState.LAUNCHING,
                desired=Desired.RUNNING,
                operation_id=operation.id,
                last_error=None,
            ),
            volume=taken(volume, pod),
            operation=replace(
                self.operations.with_milestone(operation, "asked"),
                environment_snapshot_id=pod.environment_head,
                volume_snapshot_id=volume.head,
            ),
            event=self.records.pod_event(
                pod,
                "pod.start_asked",
                operation,
                volume_id=volume.id,
                read_only=pod.is_reader,
            ),
        )
