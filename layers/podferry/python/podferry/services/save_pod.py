"""Save a pod's volume now, because its user says so."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podferry.domain.errors import WrongStateError
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod, PodState
from podferry.ports.store import Change, Check, Create, Update
from podferry.services.records import Records
from podferry.services.saves.begin import BeginSave
from podferry.services.saves.rows import Place, asked_save, place_of


@dataclass(frozen=True, slots=True)
class SavePod:
    """An operation without a workflow: the agent carries it, and it ends with its save."""

    records: Records
    begin: BeginSave

    def ask(self, account_id: str, pod_id: str, label: str | None) -> Operation:
        """Begin a save of a running pod.

        Its save has everything that was written before it was asked for: if another one is under
        way, which may have passed over that, it begins after it.

        Raises:
            NotFoundError: no such pod.
            WrongStateError: the pod is not running or only reads its volume, or a save that was
                asked for waits already.
        """
        pod = self.records.get_own(Pod, account_id, pod_id)
        asked = asked_save(self.records, pod, label)
        self.records.apply(lambda: self._plan(pod.id, asked))
        self.begin.if_due(pod.id)
        return self.records.store.get(Operation, asked.id)

    def _plan(self, pod_id: str, operation: Operation) -> Sequence[Change]:
        place = self._place(pod_id)
        saving = replace(place.saving, asked_by=operation.id)
        return [
            Create(operation),
            Update(replace(place.volume, saving=saving)),
            Check(place.pod),
            self.records.pod_event(place.pod, "pod.save_asked", operation, label=operation.label),
        ]

    def _place(self, pod_id: str) -> Place:
        place = place_of(self.records, pod_id)
        if place is None:
            raise WrongStateError(_not_running(self.records.store.get(Pod, pod_id)))
        if place.saving.asked_by is not None:
            raise WrongStateError(
                f"operation {place.saving.asked_by} waits to save pod {pod_id}; its save will "
                "have everything that is written by now"
            )
        return place


def _not_running(pod: Pod) -> str:
    if pod.is_reader:
        return f"pod {pod.id} only reads its volume; what it writes to /workspace is not saved"
    if pod.state == PodState.RUNNING:
        return f"pod {pod.id} cannot be saved: its machine {pod.machine_id} is gone; stop the pod"
    return f"pod {pod.id} is {pod.state}; only a running pod can be saved, and a stop saves it"
