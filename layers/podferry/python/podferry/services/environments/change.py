"""Rename and delete environments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podferry.domain.errors import ConflictError, WrongStateError
from podferry.domain.pod import Pod, PodState
from podferry.domain.volume import Environment
from podferry.ports.store import Change, Update
from podferry.services.environments.rows import own_environment
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class ChangeEnvironment:
    """What a user may do to an environment besides capturing it."""

    records: Records

    def rename(
        self, account_id: str, environment_id: str, name: str, revision: int | None
    ) -> Environment:
        """Give it another name.

        Raises:
            NotFoundError: no such environment.
            ConflictError: `revision` is given and is not the present one.
        """
        environment = own_environment(self.records, account_id, environment_id)
        if revision is not None and environment.revision != revision:
            raise ConflictError(
                f"environment {environment_id} has revision {environment.revision}, not {revision}"
            )
        self.records.store.commit(Update(replace(environment, name=name)))
        return self.records.store.get(Environment, environment_id)

    def delete(self, account_id: str, environment_id: str) -> None:
        """Take it out of use with all its versions; the garbage collector frees what it holds.

        Twice is once. Pods that were launched from one of its versions keep what they need.

        Raises:
            NotFoundError: no such environment.
            WrongStateError: a pod that is not deleted uses it; names it.
        """

        def plan() -> Sequence[Change]:
            environment = self.records.get_own(Environment, account_id, environment_id)
            if environment.deleted_at is not None:
                return []
            self._require_unused(environment)
            return [Update(replace(environment, head=None, deleted_at=self.records.now()))]

        self.records.apply(plan)

    def _require_unused(self, environment: Environment) -> None:
        """A pod has one environment from its beginning, so none can begin to use it meanwhile."""
        for pod in self.records.all_owned(Pod, environment.account_id):
            if pod.environment_id == environment.id and pod.state != PodState.DELETED:
                raise WrongStateError(
                    f"environment {environment.id} is that of pod {pod.id}; delete the pod first"
                )
