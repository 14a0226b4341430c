"""Call a volume by another name; delete it and take it back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from podferry.domain.errors import ConflictError
from podferry.domain.use_of_volume import require_free, require_unread
from podferry.domain.volume import Volume
from podferry.ports.store import Change, Update
from podferry.services.records import Records
from podferry.services.volumes.rules import existing, require_present


@dataclass(frozen=True, slots=True)
class KeepVolume:
    """A deleted volume lies in the trash for a week; then the garbage collector lets go of it."""

    records: Records

    def rename(self, account_id: str, volume_id: str, name: str, revision: int | None) -> Volume:
        """Give it another name.

        Raises:
            NotFoundError: no such volume.
            WrongStateError: it is in the trash.
            ConflictError: `revision` is given and is not the present one, or the row kept moving.
        """

        def renamed(volume: Volume) -> Sequence[Change]:
            if revision is not None and volume.revision != revision:
                raise ConflictError(
                    f"volume {volume_id} has revision {volume.revision}, not {revision}"
                )
            require_present(volume)
            event = self.records.volume_event(
                volume, "volume.renamed", "user", name=name, before=volume.name
            )
            return [Update(replace(volume, name=name)), event]

        return self._changed(account_id, volume_id, renamed)

    def trash(self, account_id: str, volume_id: str) -> Volume:
        """Delete it; doing it twice is one deletion.

        Raises:
            NotFoundError: no such volume.
            VolumeBusyError: a pod uses it; names the pod.
            ConflictError: the row kept moving.
        """

        def trashed(volume: Volume) -> Sequence[Change]:
            if volume.trashed_at is not None:
                return []
            require_free(volume)
            require_unread(volume)
            event = self.records.volume_event(volume, "volume.deleted", "user")
            return [Update(replace(volume, trashed_at=self.records.now())), event]

        return self._changed(account_id, volume_id, trashed)

    def take_back(self, account_id: str, volume_id: str) -> Volume:
        """Take a deleted volume out of the trash, with all its history.

        Raises:
            NotFoundError: no such volume, or the trash is emptied.
            ConflictError: the row kept moving.
        """

        def taken_back(volume: Volume) -> Sequence[Change]:
            if volume.trashed_at is None:
                return []
            event = self.records.volume_event(volume, "volume.undeleted", "user")
            return [Update(replace(volume, trashed_at=None)), event]

        return self._changed(account_id, volume_id, taken_back)

    def _changed(
        self, account_id: str, volume_id: str, change: Callable[[Volume], Sequence[Change]]
    ) -> Volume:
        self.records.apply(lambda: change(existing(self.records, account_id, volume_id)))
        return self.records.store.get(Volume, volume_id)
