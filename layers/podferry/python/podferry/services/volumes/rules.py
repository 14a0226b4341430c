"""Which volumes somebody may use, and for what."""

from podferry.domain.errors import NotFoundError, WrongStateError
from podferry.domain.volume import Volume
from podferry.services.records import Records


def existing(records: Records, account_id: str, volume_id: str) -> Volume:
    """A volume of the account, also one in the trash.

    Raises:
        NotFoundError: no such volume, or it was deleted and the trash is emptied.
    """
    volume = records.get_own(Volume, account_id, volume_id)
    if volume.purged_at is not None:
        raise NotFoundError(f"no volume {volume_id} in this account: it was deleted")
    return volume


def usable(records: Records, account_id: str, volume_id: str) -> Volume:
    """A volume of the account that is not deleted.

    Raises:
        NotFoundError: see `existing`.
        WrongStateError: it is in the trash; says how to take it back.
    """
    volume = existing(records, account_id, volume_id)
    require_present(volume)
    return volume


def require_present(volume: Volume) -> None:
    """Raise `WrongStateError` if the volume was deleted."""
    if volume.purged_at is not None:
        raise WrongStateError(f"volume {volume.id} was deleted for good; use another one")
    if volume.trashed_at is not None:
        raise WrongStateError(
            f"volume {volume.id} was deleted; undelete it first (POST /v1/volumes/{volume.id}"
            "/undelete), or use another one"
        )
