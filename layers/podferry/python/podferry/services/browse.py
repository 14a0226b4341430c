"""Everything a user may look at. Things of other accounts do not exist here (never 403)."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from podferry.domain.command import Command, Progress
from podferry.domain.entity import Entity
from podferry.domain.errors import NotFoundError
from podferry.domain.event import Event
from podferry.domain.host_key import HostKey
from podferry.domain.idle import IdleWatch
from podferry.domain.machine import Machine, Pulse
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod, PodState
from podferry.domain.saving import SaveState, Saving, save_state
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.domain.state_word import StateWord, state_word
from podferry.domain.version import Version
from podferry.domain.volume import Environment, Volume
from podferry.ports.store import Page, Store
from podferry.services.environments.rows import present, version_of

E = TypeVar("E", bound=Entity)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPart:
    """A pod with what is at work on it: what the state word is made of."""

    pod: Pod
    machine: Machine | None
    pulse: Pulse | None
    operation: Operation | None

    def word(self, now: datetime) -> StateWord:
        return state_word(self.pod, self.machine, self.pulse, self.operation, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholePod:
    """A pod with everything it is made of."""

    running: RunningPart
    environment: Environment
    volume: Volume
    last_save: Snapshot | None
    """What the next start restores: the head of the volume."""
    idle_watch: IdleWatch | None
    """Under the pod's present policy, by the machine that it runs on."""
    progress: dict[str, Progress]
    """Of the operation at work on it, by step."""
    host_key: HostKey | None = None
    """`None` before its first machine made one."""

    @property
    def saving(self) -> Saving:
        """How the saves by the machine that it runs on go."""
        machine, is_reader = self.running.machine, self.running.pod.is_reader
        if machine is None or is_reader:
            return Saving()
        return self.volume.saving_by(machine.epoch)

    @property
    def save_state(self) -> SaveState:
        is_running = self.running.pod.state == PodState.RUNNING
        return save_state(self.saving, self.volume.head, is_running=is_running)


@dataclass(frozen=True, slots=True)
class Browse:
    """Reads only; every id is looked up within one account."""

    store: Store

    def pods(self, account_id: str, *, limit: int, cursor: str | None) -> Page[RunningPart]:
        """Pods that are not deleted, newest first; a page may hold fewer than `limit`."""
        page = self.store.list_owned(Pod, account_id, limit=limit, cursor=cursor)
        present = [pod for pod in page.items if pod.state != PodState.DELETED]
        return Page([self.running_part(pod) for pod in present], page.cursor)

    def pod(self, account_id: str, pod_id: str) -> Pod:
        """The pod, a deleted one too.

        Raises:
            NotFoundError: no such pod in the account. So do all methods that take an id.
        """
        return self._own(Pod, account_id, pod_id)

    def whole_pod(self, account_id: str, pod_id: str) -> WholePod:
        pod = self.pod(account_id, pod_id)
        running = self.running_part(pod)
        volume = self.store.get(Volume, pod.volume_id)
        return WholePod(
            running=running,
            environment=self.store.get(Environment, pod.environment_id),
            volume=volume,
            last_save=None if volume.head is None else self.store.find(Snapshot, volume.head),
            idle_watch=self._idle_watch(running),
            progress={} if running.operation is None else self.progress(running.operation),
            host_key=self.store.find(HostKey, pod.id),
        )

    def running_part(self, pod: Pod) -> RunningPart:
        machine = self.store.find(Machine, pod.machine_id) if pod.machine_id else None
        return RunningPart(
            pod=pod,
            machine=machine,
            pulse=self.store.find(Pulse, machine.id) if machine else None,
            operation=self.store.find(Operation, pod.operation_id) if pod.operation_id else None,
        )

    def _idle_watch(self, running: RunningPart) -> IdleWatch | None:
        policy, machine = running.pod.idle, running.machine
        if policy is None or machine is None:
            return None
        watch = self.store.find(IdleWatch, machine.id)
        return watch if watch is not None and watch.policy == policy else None

    def pulse(self, account_id: str, pod_id: str) -> Pulse | None:
        """What the agent of the pod's machine last said."""
        return self.running_part(self.pod(account_id, pod_id)).pulse

    def operations(
        self, account_id: str, pod_id: str, *, limit: int, cursor: str | None
    ) -> Page[Operation]:
        self.pod(account_id, pod_id)
        return self.store.list_owned(Operation, pod_id, limit=limit, cursor=cursor)

    def operation(self, account_id: str, operation_id: str) -> Operation:
        return self._own(Operation, account_id, operation_id)

    def progress(self, operation: Operation) -> dict[str, Progress]:
        """How far each step is: the progress of its newest command; of a move, of both halves."""
        halves = (self.store.find(Operation, half) for half in operation.halves)
        ids = [*operation.commands, *(c for half in halves if half for c in half.commands)]
        commands = (self.store.find(Command, command_id) for command_id in ids)
        return {c.step: c.progress for c in commands if c and c.step and c.progress}

    def events(
        self, account_id: str, pod_id: str, *, limit: int, cursor: str | None
    ) -> Page[Event]:
        self.pod(account_id, pod_id)
        return self.store.list_owned(Event, pod_id, limit=limit, cursor=cursor)

    def environments(self, account_id: str, *, limit: int, cursor: str | None) -> Page[Environment]:
        """Those that are not deleted; a page may hold fewer than `limit`."""
        page = self.store.list_owned(Environment, account_id, limit=limit, cursor=cursor)
        return Page([one for one in page.items if one.deleted_at is None], page.cursor)

    def environment(self, account_id: str, environment_id: str) -> Environment:
        return present(self._own(Environment, account_id, environment_id))

    def versions(
        self, account_id: str, environment_id: str, *, limit: int, cursor: str | None
    ) -> Page[Version]:
        """Versions of an environment, newest first."""
        self.environment(account_id, environment_id)
        return self.store.list_owned(Version, environment_id, limit=limit, cursor=cursor)

    def captures(
        self, account_id: str, environment_id: str, *, limit: int, cursor: str | None
    ) -> Page[Snapshot]:
        """Committed captures of an environment; a page may hold fewer than `limit`."""
        self.environment(account_id, environment_id)
        return self._committed(environment_id, limit, cursor)

    def version(self, account_id: str, environment_id: str, number: int) -> Version:
        return version_of(self.store, self.environment(account_id, environment_id), number)

    def volumes(
        self, account_id: str, *, is_in_trash: bool, limit: int, cursor: str | None
    ) -> Page[Volume]:
        """Those that are there, or those in the trash; a page may hold fewer than `limit`."""
        page = self.store.list_owned(Volume, account_id, limit=limit, cursor=cursor)
        present = [one for one in page.items if one.purged_at is None]
        wanted = [one for one in present if (one.trashed_at is not None) == is_in_trash]
        return Page(wanted, page.cursor)

    def volume(self, account_id: str, volume_id: str) -> Volume:
        """The volume, also one in the trash."""
        volume = self._own(Volume, account_id, volume_id)
        if volume.purged_at is not None:
            raise NotFoundError(f"no volume {volume_id} in this account: it was deleted")
        return volume

    def volume_events(
        self, account_id: str, volume_id: str, *, limit: int, cursor: str | None
    ) -> Page[Event]:
        self.volume(account_id, volume_id)
        return self.store.list_owned(Event, volume_id, limit=limit, cursor=cursor)

    def saves(
        self, account_id: str, volume_id: str, *, limit: int, cursor: str | None
    ) -> Page[Snapshot]:
        """Committed saves that have not expired; a page may hold fewer than `limit`."""
        self.volume(account_id, volume_id)
        return self._committed(volume_id, limit, cursor)

    def _committed(self, subject_id: str, limit: int, cursor: str | None) -> Page[Snapshot]:
        page = self.store.list_owned(Snapshot, subject_id, limit=limit, cursor=cursor)
        committed = [s for s in page.items if s.state == SnapshotState.COMMITTED]
        return Page(committed, page.cursor)

    def _own(self, kind: type[E], account_id: str, entity_id: str) -> E:
        entity = self.store.find(kind, entity_id)
        if entity is None or entity.account_id != account_id:
            raise NotFoundError(f"no {kind.__name__.lower()} {entity_id} in this account")
        return entity
