"""The rows that uses of environments read and write, each with its rule."""

from podferry.domain.errors import NotFoundError
from podferry.domain.snapshot import Snapshot
from podferry.domain.version import Frozen, Version, version_id
from podferry.domain.volume import Environment
from podferry.ports.store import Change, Create, Store, Update
from podferry.services.records import Records


def own_environment(records: Records, account_id: str, environment_id: str) -> Environment:
    """The environment, unless it is deleted.

    Raises:
        NotFoundError: no such environment in the account.
    """
    return present(records.get_own(Environment, account_id, environment_id))


def present(environment: Environment) -> Environment:
    """The environment itself.

    Raises:
        NotFoundError: it is deleted.
    """
    if environment.deleted_at is not None:
        raise NotFoundError(f"no environment {environment.id} in this account: it was deleted")
    return environment


def version_of(store: Store, environment: Environment, number: int) -> Version:
    """One of the environment's versions.

    Raises:
        NotFoundError: it has no such number.
    """
    version = store.find(Version, version_id(environment.id, number))
    if version is None:
        raise NotFoundError(
            f"environment {environment.id} has no version {number}; its newest one is "
            f"{environment.versions or 'not made yet'}"
        )
    return version


def capture_of(records: Records, environment: Environment, snapshot_id: str) -> Snapshot:
    """A committed capture of the environment that nothing has taken out of use.

    Raises:
        NotFoundError: no such capture.
    """
    snapshot = records.store.find(Snapshot, snapshot_id)
    if snapshot is None or snapshot.subject_id != environment.id or not snapshot.is_usable:
        raise NotFoundError(
            f"environment {environment.id} has no capture {snapshot_id}: it was never committed, "
            "or it has expired"
        )
    return snapshot


def changes_of(frozen: Frozen) -> list[Change]:
    """What freezing writes besides the environment itself.

    The capture's row moves with it: a collector that looked at it before cannot take it any more.
    """
    return [Create(frozen.version), Update(frozen.snapshot)]
