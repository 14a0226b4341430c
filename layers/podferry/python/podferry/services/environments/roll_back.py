"""Take the environment of a stopped pod back to an earlier state of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podferry.domain.errors import WrongStateError
from podferry.domain.pod import Pod, PodState, Setup
from podferry.domain.snapshot import Snapshot
from podferry.domain.version import Frozen, Version, freeze, version_id
from podferry.domain.volume import Environment
from podferry.ports.store import Change, Update
from podferry.services.environments.rows import (
    capture_of,
    changes_of,
    own_environment,
    version_of,
)
from podferry.services.operations import require_idle
from podferry.services.records import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to go back to: a version, or a capture of the environment's history."""

    version: int | None = None
    snapshot_id: str | None = None


@dataclass(frozen=True, slots=True)
class RollBack:
    """Nothing is lost by it: the state before it becomes a version, unless it is one already.

    As a mere capture it would be thinned out with time, and nobody thinks of keeping it before it
    is needed.
    """

    records: Records

    def to(self, account_id: str, pod_id: str, target: Target) -> Pod:
        """Set the head; the next start restores the target, and the volume as it is.

        Twice is once.

        Raises:
            NotFoundError: no such pod, or its environment has no such version or capture.
            WrongStateError: the pod is not stopped.
            ConflictError: the rows kept moving.
        """

        def plan() -> Sequence[Change]:
            pod = self.records.get_own(Pod, account_id, pod_id)
            _require_stopped(pod)
            environment = own_environment(self.records, account_id, pod.environment_id)
            goal = self._goal(environment, target)
            return [] if goal.id == pod.environment_head else self._moved(pod, environment, goal)

        self.records.apply(plan)
        return self.records.store.get(Pod, pod_id)

    def _goal(self, environment: Environment, target: Target) -> Snapshot:
        if target.version is None:
            return capture_of(self.records, environment, target.snapshot_id or "")
        version = version_of(self.records.store, environment, target.version)
        return self.records.store.get(Snapshot, version.snapshot_id)

    def _moved(self, pod: Pod, environment: Environment, goal: Snapshot) -> list[Change]:
        frozen = self._kept(pod, environment)
        row = replace(
            environment if frozen is None else frozen.environment,
            head=goal.id,
            captured_at=goal.committed_at,
            size_bytes=goal.size_bytes,
        )
        event = self.records.pod_event(
            pod,
            "environment.rolled_back",
            from_snapshot_id=pod.environment_head,
            to_snapshot_id=goal.id,
            kept_as_version=None if frozen is None else frozen.version.number,
        )
        return [
            Update(
                replace(pod, environment_head=goal.id, spec=pod.spec.with_setup(self._setup(goal)))
            ),
            Update(row),
            # Its row moves as well, so that a collector that looked before cannot take it.
            Update(replace(goal, mark=None)),
            *([] if frozen is None else changes_of(frozen)),
            event,
        ]

    def _kept(self, pod: Pod, environment: Environment) -> Frozen | None:
        """The present head as a version, if it is a capture of this environment and not one yet."""
        if pod.environment_head is None:
            return None
        head = self.records.store.get(Snapshot, pod.environment_head)
        if head.version is not None:
            return None
        return freeze(environment, head, "before going back", self.records.now(), pod.spec.setup)

    def _setup(self, goal: Snapshot) -> Setup | None:
        """The version's, if it is one: it may have been kept with another than it was captured."""
        if goal.version is None:
            return goal.setup
        row = self.records.store.get(Version, version_id(goal.subject_id, goal.version))
        return row.setup


def _require_stopped(pod: Pod) -> None:
    require_idle(pod)
    if pod.state != PodState.STOPPED:
        raise WrongStateError(
            f"pod {pod.id} is {pod.state}; stop it first, then take its environment back"
        )
