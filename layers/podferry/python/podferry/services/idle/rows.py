"""The rows that an idle policy is evaluated from."""

from dataclasses import dataclass

from podferry.domain.activity import IdlePolicy
from podferry.domain.command import Command, CommandKind
from podferry.domain.idle import Evidence, IdleWatch, begun
from podferry.domain.machine import Pulse, last_heard
from podferry.domain.pod import Pod, PodState
from podferry.ports.store import Change, Create, Update
from podferry.services.records import Records
from podferry.services.saves.rows import Place, place_of


@dataclass(frozen=True, slots=True)
class WatchedPlace:
    """A running pod with a policy, its machine, and what has been seen of it."""

    place: Place
    policy: IdlePolicy
    stored: IdleWatch | None
    """May be of another policy."""

    @property
    def is_new(self) -> bool:
        """Whether nothing has been written under this policy."""
        return self.stored is None or self.stored.policy != self.policy

    def write(self, watch: IdleWatch) -> Change:
        return Create(watch) if self.stored is None else Update(watch)


def watched_pods(records: Records) -> list[Pod]:
    """Running pods whose users want them to be stopped when they are idle."""
    pods = records.store.list_active(Pod)
    return [p for p in pods if p.state == PodState.RUNNING and p.idle is not None]


def watched_place(records: Records, pod_id: str) -> WatchedPlace | None:
    """`None` if the pod does not run any more, or has no policy."""
    place = place_of(records, pod_id)
    if place is None or place.pod.idle is None:
        return None
    stored = records.store.find(IdleWatch, place.machine.id)
    return WatchedPlace(place, place.pod.idle, stored)


def watch_of(records: Records, seen: WatchedPlace) -> IdleWatch:
    """What has been seen under this policy: nothing, if it is new."""
    machine, now = seen.place.machine, records.now()
    if seen.stored is not None:
        return begun(seen.stored, seen.policy, now) if seen.is_new else seen.stored
    return IdleWatch(
        id=machine.id,
        account_id=machine.account_id,
        created_at=now,
        policy=seen.policy,
        begun_at=now,
        looked_at=now,
    )


def evidence_of(records: Records, place: Place, pulse: Pulse | None, *, is_busy: bool) -> Evidence:
    """What is known at this moment. `is_busy`: an operation is at work on the pod."""
    machine = place.machine
    is_asked = place.pod.operation_id is not None or place.saving.asked_by is not None
    rents_gpu = machine.offer.gpu_count > 0
    return Evidence(
        ready_at=machine.serves_since,
        is_busy=is_busy or is_asked or _has_work(records, machine.id),
        heard_at=last_heard(machine, pulse),
        activity=None if pulse is None else pulse.activity,
        has_hidden_gpu=rents_gpu and not (pulse and pulse.metrics.get("gpus")),
    )


def _has_work(records: Records, machine_id: str) -> bool:
    """Whether somebody waits for a command; nobody does for a background save."""
    return any(
        command.kind == CommandKind.EXEC or command.operation_id is not None
        for command in records.all_owned(Command, machine_id)
    )
