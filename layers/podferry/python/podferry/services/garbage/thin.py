"""Once a day, whether pods run or not: what need not be kept for its age expires."""

from dataclasses import dataclass

from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.domain.retention import expired_captures
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState
from podferry.domain.volume import Environment, Volume
from podferry.services.garbage.shift import Shift
from podferry.services.garbage.trash import EmptyTrash
from podferry.services.records import Records
from podferry.services.saves.thin import ThinSaves, expire, points_of


@dataclass(frozen=True, slots=True)
class ThinOut:
    """Saves also expire while their pods run (`Autosave`); captures of environments only here."""

    records: Records
    saves: ThinSaves
    trash: EmptyTrash

    def run(self, shift: Shift, account_id: str, kind: SnapshotKind) -> None:
        """Look through one kind of one account, as long as the shift may go on."""
        if kind == SnapshotKind.VOLUME:
            for volume in self.records.all_owned(Volume, account_id):
                if shift.may_go_on:
                    self._look_after(volume)
            return
        for environment in self.records.all_owned(Environment, account_id):
            if not shift.may_go_on:
                return
            if environment.deleted_at is None:
                self._thin(environment)
            else:
                self._expire_all(environment)

    def _look_after(self, volume: Volume) -> None:
        """What lies in the trash is left as it is, until it is emptied."""
        if volume.trashed_at is None:
            self.saves.run_if_due(volume)
        else:
            self.trash.run_if_due(volume)

    def _thin(self, environment: Environment) -> None:
        captures = list(self.records.all_owned(Snapshot, environment.id))
        points = points_of(captures, self._pinned(environment))
        for snapshot_id in sorted(expired_captures(points, self.records.now())):
            expire(self.records, snapshot_id)

    def _expire_all(self, environment: Environment) -> None:
        """Versions too. What another environment began as stays as long as that needs it."""
        for capture in self.records.all_owned(Snapshot, environment.id):
            if capture.state == SnapshotState.COMMITTED:
                expire(self.records, capture.id, is_kept_by_name=False)

    def _pinned(self, environment: Environment) -> set[str | None]:
        """Heads, and what operations restore."""
        pods = [
            pod
            for pod in self.records.all_owned(Pod, environment.account_id)
            if pod.environment_id == environment.id
        ]
        working = [pod.operation_id for pod in pods if pod.operation_id is not None]
        operations = [self.records.store.get(Operation, one) for one in working]
        return {
            environment.head,
            *(pod.environment_head for pod in pods),
            *(operation.environment_snapshot_id for operation in operations),
        }
