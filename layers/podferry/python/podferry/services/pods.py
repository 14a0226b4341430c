"""Make, change and delete pods."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from podferry.domain.activity import IdlePolicy
from podferry.domain.errors import ConflictError, InvalidRequestError, WrongStateError
from podferry.domain.host_key import HostKey
from podferry.domain.offer import Requirements
from podferry.domain.operation import Cause, Operation, OperationKind
from podferry.domain.pod import (
    SAVE_INTERVAL_SECONDS,
    Desired,
    OnReclaim,
    Pod,
    PodState,
    RunSpec,
)
from podferry.domain.use_of_volume import Attachment
from podferry.domain.version import Version, begun_as, spec_from
from podferry.domain.volume import Environment, VersionRef, Volume
from podferry.ports.store import Change, Check, Create, Delete, Update
from podferry.services.environments.rows import own_environment, version_of
from podferry.services.operations import require_idle
from podferry.services.records import Records
from podferry.services.secrets import require_secrets
from podferry.services.start_pod import StartPod
from podferry.services.volumes.attach import attached
from podferry.services.volumes.rules import usable


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPod:
    """What a user gives to make a pod."""

    name: str
    spec: RunSpec
    requirements: Requirements
    volume: Attachment | None = None
    """An existing volume; `None` makes a new, empty one."""
    version: VersionRef | None = None
    """What its environment begins as; `None` begins with the image alone."""
    capture_rules: tuple[str, ...] = ()
    save_interval_seconds: int = SAVE_INTERVAL_SECONDS
    on_reclaim: OnReclaim = OnReclaim.RESTART
    idle: IdlePolicy | None = None
    start: bool = True


class Unchanged(Enum):
    """Stands for what is left as it is, where `None` means something."""

    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodChange:
    """What to change; `None` leaves it.

    It takes effect at the next start; the interval, `on_reclaim` and `idle` do at once.
    """

    name: str | None = None
    spec: RunSpec | None = None
    requirements: Requirements | None = None
    capture_rules: tuple[str, ...] | None = None
    save_interval_seconds: int | None = None
    on_reclaim: OnReclaim | None = None
    idle: IdlePolicy | Unchanged | None = Unchanged.UNCHANGED
    """`None` takes the policy away."""
    volume: Attachment | None = None
    """Only of a stopped pod."""


@dataclass(frozen=True, slots=True)
class CreatePod:
    """A new pod with an environment of its own, and a new volume unless one is named."""

    records: Records
    start_pod: StartPod

    def create(self, account_id: str, new: NewPod) -> tuple[Pod, Operation | None]:
        """Store the pod and, if asked, launch it.

        Raises:
            NotFoundError: the named volume or version is not in the account.
            WrongStateError: the volume is in the trash, or never saved and only to be read.
            VolumeBusyError: another pod's machine holds the named volume.
            ConflictError: the version's environment moved at the same moment.
            SecretMissingError: its environment names a secret that there is not.
        """
        environment, version, made_from = self._environment(account_id, new)
        spec = new.spec if version is None else spec_from(version, new.spec)
        require_secrets(self.records, account_id, spec)
        volume = self._volume(account_id, new)
        pod = Pod(
            id=self.records.new_id(Pod),
            account_id=account_id,
            created_at=self.records.now(),
            name=new.name,
            state=PodState.STOPPED,
            desired=Desired.STOPPED,
            spec=spec,
            base=None if version is None else version.base,
            requirements=new.requirements,
            environment_id=environment.id,
            environment_head=environment.head,
            volume_id=volume.id,
            is_reader=new.volume is not None and new.volume.is_reader,
            capture_rules=new.capture_rules,
            save_interval_seconds=new.save_interval_seconds,
            on_reclaim=new.on_reclaim,
            idle=new.idle,
        )
        created = self.records.pod_event(pod, "pod.created")
        rows: list[Change] = [Create(environment), created, *made_from]
        write_volume = Create if new.volume is None else Update
        if not new.start:
            if new.volume is None:
                rows.append(Create(volume))
            self.records.store.commit(*rows, Create(pod))
            return pod, None
        operation = self.start_pod.new_operation(pod, OperationKind.LAUNCH, Cause.USER)
        start = self.start_pod.plan(pod, volume, operation)
        self.start_pod.operations.store_and_launch(
            operation,
            *rows,
            Create(start.pod),
            write_volume(start.volume),
            Create(start.operation),
            start.event,
        )
        return start.pod, operation

    def _environment(
        self, account_id: str, new: NewPod
    ) -> tuple[Environment, Version | None, list[Check]]:
        """The new environment, what it begins as, and what must not move before it is stored.

        The environment of the version is checked: deleted at the same moment, its captures would
        not be kept for anybody else.
        """
        fresh = Environment(
            id=self.records.new_id(Environment),
            account_id=account_id,
            created_at=self.records.now(),
            name=new.name,
            image=new.spec.image,
        )
        if new.version is None:
            return fresh, None, []
        source = own_environment(self.records, account_id, new.version.environment_id)
        version = version_of(self.records.store, source, new.version.number)
        return begun_as(fresh, version), version, [Check(source)]

    def _volume(self, account_id: str, new: NewPod) -> Volume:
        if new.volume is not None:
            return usable(self.records, account_id, new.volume.volume_id)
        return Volume(
            id=self.records.new_id(Volume),
            account_id=account_id,
            created_at=self.records.now(),
            name=new.name,
        )


@dataclass(frozen=True, slots=True)
class ChangePod:
    """Change how a pod runs, from its next start on."""

    records: Records

    def change(self, account_id: str, pod_id: str, change: PodChange, revision: int | None) -> Pod:
        """Store the change.

        Raises:
            NotFoundError: no such pod.
            ConflictError: `revision` is given and is not the present one.
            InvalidRequestError: the image of a pod with an environment cannot change.
            SecretMissingError: the new environment names a secret that there is not.
            WrongStateError: it is to have another volume and is not stopped, or that volume is in
                the trash.
        """
        pod = self.records.get_own(Pod, account_id, pod_id)
        if revision is not None and pod.revision != revision:
            raise ConflictError(f"pod {pod_id} has revision {pod.revision}, not {revision}")
        if change.spec is not None:
            require_secrets(self.records, account_id, change.spec)
        if change.volume is not None:
            pod = attached(self.records, pod, change.volume)
        has_environment = pod.environment_head is not None or pod.is_active
        if change.spec and change.spec.image != pod.spec.image and has_environment:
            raise InvalidRequestError(
                "image: this pod has an environment of its own, made from "
                f"{pod.spec.image}; make a new pod to use another image"
            )
        changed = replace(
            pod,
            name=pod.name if change.name is None else change.name,
            spec=change.spec or pod.spec,
            requirements=change.requirements or pod.requirements,
            capture_rules=(
                pod.capture_rules if change.capture_rules is None else change.capture_rules
            ),
            save_interval_seconds=change.save_interval_seconds or pod.save_interval_seconds,
            on_reclaim=change.on_reclaim or pod.on_reclaim,
            idle=pod.idle if isinstance(change.idle, Unchanged) else change.idle,
        )
        self.records.store.commit(
            Update(changed),
            *self._new_image(changed),
            self.records.pod_event(pod, "pod.changed"),
        )
        return self.records.store.get(Pod, pod_id)

    def _new_image(self, pod: Pod) -> list[Change]:
        """The image of its environment: versions are launched on that."""
        environment = self.records.store.get(Environment, pod.environment_id)
        if environment.image == pod.spec.image:
            return []
        return [Update(replace(environment, image=pod.spec.image))]


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a stopped pod and its host key; its volume and its captures stay."""

    records: Records

    def delete(self, account_id: str, pod_id: str) -> None:
        """Mark the pod deleted; doing it twice is one deletion.

        Raises:
            NotFoundError: no such pod.
            WrongStateError: the pod is not stopped; says to stop it first.
        """

        def plan() -> Sequence[Change]:
            pod = self.records.get_own(Pod, account_id, pod_id)
            if pod.state == PodState.DELETED:
                return []
            require_idle(pod)
            if pod.state != PodState.STOPPED:
                raise WrongStateError(f"pod {pod.id} is {pod.state}; stop it first, then delete it")
            gone = replace(pod, state=PodState.DELETED, desired=Desired.DELETED)
            key = self.records.store.find(HostKey, pod.id)
            keys = [] if key is None else [Delete(key)]
            return [Update(gone), self.records.pod_event(pod, "pod.deleted"), *keys]

        self.records.apply(plan)
