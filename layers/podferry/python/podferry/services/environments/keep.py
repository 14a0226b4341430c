"""Freeze a captured state of a pod's environment as its next version."""

from collections.abc import Sequence
from dataclasses import dataclass

from podferry.domain.errors import NotFoundError, WrongStateError
from podferry.domain.pod import Pod, PodState
from podferry.domain.snapshot import Snapshot
from podferry.domain.version import Version, freeze
from podferry.domain.volume import Environment
from podferry.ports.store import Change, Update
from podferry.services.environments.rows import (
    capture_of,
    changes_of,
    own_environment,
    version_of,
)
from podferry.services.records import Records
from podferry.services.verification import VerifySnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The version that stands for the state; it may have stood for it before."""

    version: Version
    is_new: bool


@dataclass(frozen=True, slots=True)
class KeepPod:
    """A version is made of what was captured and verified, never of what runs.

    So a pod that runs is refused: its environment has moved on since the last capture, and to
    freeze that one would keep something else than what its user sees. A stop captures it.
    """

    records: Records
    verify: VerifySnapshot

    def keep(
        self, account_id: str, pod_id: str, note: str | None, snapshot_id: str | None = None
    ) -> Kept:
        """Keep the stopped pod's environment, or any capture of it, whatever the pod does.

        A capture that is a version already, or has the content of the newest one, is not kept
        twice.

        Raises:
            NotFoundError: no such pod, or no such capture of its environment.
            WrongStateError: the pod is not stopped, or nothing of it was ever captured.
            SnapshotError: the root of a capture cannot be read, so they cannot be compared.
            ConflictError: the rows kept moving.
        """
        made: list[Kept] = []

        def plan() -> Sequence[Change]:
            pod = self.records.get_own(Pod, account_id, pod_id)
            environment = own_environment(self.records, account_id, pod.environment_id)
            capture = self._capture(pod, environment, snapshot_id)
            same = self._same(environment, capture)
            if same is not None:
                made.append(Kept(version=same, is_new=False))
                return []
            # A stopped pod may have been given another script since: nothing has run with the old.
            setup = pod.spec.setup if snapshot_id is None else None
            frozen = freeze(environment, capture, note, self.records.now(), setup)
            made.append(Kept(version=frozen.version, is_new=True))
            event = self.records.pod_event(
                pod, "environment.kept", version=frozen.version.number, snapshot_id=capture.id
            )
            return [Update(frozen.environment), *changes_of(frozen), event]

        self.records.apply(plan)
        return made[-1]

    def _capture(self, pod: Pod, environment: Environment, snapshot_id: str | None) -> Snapshot:
        if snapshot_id is not None:
            return capture_of(self.records, environment, snapshot_id)
        if pod.state != PodState.STOPPED:
            raise WrongStateError(
                f"pod {pod.id} is {pod.state}, and what it runs is not captured. Stop it, which "
                "captures it, then keep it; or name an earlier capture as snapshot_id"
            )
        if pod.environment_head is None:
            raise WrongStateError(
                f"the environment of pod {pod.id} was never captured: start the pod and stop it, "
                "then keep it"
            )
        return self._own_capture(environment, pod.environment_head)

    def _own_capture(self, environment: Environment, snapshot_id: str) -> Snapshot:
        try:
            return capture_of(self.records, environment, snapshot_id)
        except NotFoundError as error:
            # It was launched from a version, and that is another environment's.
            raise WrongStateError(
                f"environment {environment.id} is still as the version that it was launched from; "
                "it has nothing of its own to keep before its first stop"
            ) from error

    def _same(self, environment: Environment, capture: Snapshot) -> Version | None:
        if capture.version is not None:
            return version_of(self.records.store, environment, capture.version)
        if environment.versions == 0:
            return None
        newest = version_of(self.records.store, environment, environment.versions)
        kept = self.records.store.get(Snapshot, newest.snapshot_id)
        contents = [self.verify.read_root(one).content for one in (kept, capture)]
        return newest if contents[0] == contents[1] else None
