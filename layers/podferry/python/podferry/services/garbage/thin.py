"""Once a day, whether pods run or not: what need not be kept for its age expires."""

from collections.abc import Sequence
from dataclasses import dataclass

from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.domain.retention import Point, expired_captures
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState
from podferry.domain.volume import Environment, Volume
from podferry.services.garbage.shift import Shift
from podferry.services.records import Records
from podferry.services.saves.thin import ThinSaves, expire

_UNFINISHED = frozenset({SnapshotState.OPEN, SnapshotState.CAPTURED})


@dataclass(frozen=True, slots=True)
class ThinOut:
    """Saves also expire while their pods run (`Autosave`); captures of environments only here."""

    records: Records
    saves: ThinSaves

    def run(self, shift: Shift, account_id: str, kind: SnapshotKind) -> None:
        """Look through one kind of one account, as long as the shift may go on."""
        if kind == SnapshotKind.VOLUME:
            for volume in self.records.all_owned(Volume, account_id):
                if shift.may_go_on:
                    self.saves.run_if_due(volume)
            return
        for environment in self.records.all_owned(Environment, account_id):
            if shift.may_go_on:
                self._thin(environment)

    def _thin(self, environment: Environment) -> None:
        captures = list(self.records.all_owned(Snapshot, environment.id))
        pinned = self._pinned(environment, captures)
        points = [
            Point(one.id, one.committed_at or one.created_at, is_pinned=one.id in pinned)
            for one in captures
            if one.state == SnapshotState.COMMITTED
        ]
        for snapshot_id in sorted(expired_captures(points, self.records.now())):
            expire(self.records, snapshot_id)

    def _pinned(self, environment: Environment, captures: Sequence[Snapshot]) -> set[str | None]:
        """Heads, what has a label, what is being built on, and what operations restore."""
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
            *(one.id for one in captures if one.label is not None),
            *(one.parent_id for one in captures if one.state in _UNFINISHED),
        }
