"""An agent has learned that its machine is about to go."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from podferry.domain.machine import Machine, Notice, NoticeKind
from podferry.domain.pod import Pod
from podferry.domain.principal import Principal
from podferry.ports.store import Change, Update
from podferry.services.agent.membership import current_place
from podferry.services.records import Records
from podferry.services.saves.begin import BeginSave, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What the agent says, or the machine's provider."""

    kind: NoticeKind
    source: str
    deadline_seconds: float | None = None
    """How long the machine still has, if that was said."""


@dataclass(frozen=True, slots=True)
class TakeNotice:
    """Note it first, then hand out the save that the last seconds are for."""

    records: Records
    begin: BeginSave

    def take(self, principal: Principal, said: Announcement) -> Turn:
        """The save to make; none if the pod is not running, or is only to be moved.

        Saying it again is the same notice, and one more save if none is under way.

        Raises:
            EpochStaleError: the machine must end itself.
        """
        machine, pod = current_place(self.records, principal)
        return self.give(machine.id, pod.id, said)

    def give(self, machine_id: str, pod_id: str, said: Announcement) -> Turn:
        """The same for a machine whose provider told us: its agent is given the save."""
        self.records.apply(lambda: self._noted(machine_id, said))
        if said.kind == NoticeKind.MAINTENANCE:
            return Turn(None, 0.0)
        return self.begin.at_once(pod_id)

    def _noted(self, machine_id: str, said: Announcement) -> Sequence[Change]:
        machine = self.records.store.get(Machine, machine_id)
        if not _says_more(said, machine.notice):
            return []
        now, left = self.records.now(), said.deadline_seconds
        notice = Notice(
            kind=said.kind,
            source=said.source,
            at=now,
            deadline_at=None if left is None else now + timedelta(seconds=left),
        )
        event = self.records.background_event(
            self.records.store.get(Pod, machine.pod_id),
            "machine.notice",
            machine_id=machine.id,
            kind=said.kind,
            source=said.source,
            deadline_seconds=left,
        )
        return [Update(replace(machine, notice=notice)), event]


def _says_more(said: Announcement, known: Notice | None) -> bool:
    """The first word counts, until one comes that is worse or more exact."""
    if known is None:
        return True
    if (known.kind == NoticeKind.MAINTENANCE) != (said.kind == NoticeKind.MAINTENANCE):
        return known.kind == NoticeKind.MAINTENANCE
    return known.deadline_at is None and said.deadline_seconds is not None
