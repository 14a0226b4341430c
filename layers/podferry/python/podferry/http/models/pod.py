"""Pods, as users make, change and see them."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, model_validator

from podferry.domain.activity import IdlePolicy
from podferry.domain.event import Event
from podferry.domain.machine import Pulse
from podferry.domain.pod import (
    SAVE_INTERVAL_SECONDS,
    Desired,
    Failure,
    OnReclaim,
    PodState,
    RecoveredFrom,
)
from podferry.domain.saving import SaveKind, SaveState
from podferry.domain.snapshot import Snapshot
from podferry.domain.state_word import StateWord
from podferry.domain.volume import Environment, Volume
from podferry.http.models.base_image import BaseView
from podferry.http.models.environment import VersionRefBody
from podferry.http.models.fields import Flag, Input, Integer, Name, Output, left_alone
from podferry.http.models.idle import IdleBody, IdleStatusView, IdleView
from podferry.http.models.machine import MachineView
from podferry.http.models.operation import OperationView
from podferry.http.models.spec import (
    CaptureRules,
    RequirementsBody,
    RequirementsPatch,
    RequirementsView,
    SpecBody,
    SpecPatch,
    SpecView,
)
from podferry.http.models.ssh import SshView
from podferry.http.models.volume import AttachmentBody, VolumePart, to_attachment
from podferry.services.agent.heartbeat import RESTING_HEARTBEAT_SECONDS
from podferry.services.browse import RunningPart, WholePod
from podferry.services.pods import NewPod, Unchanged

SaveInterval = Annotated[
    Integer,
    Field(ge=60, le=3600, description="Seconds between background saves of the volume."),
]

WhenReclaimed = Annotated[
    OnReclaim,
    Field(
        description="When its machine is lost: start it again from its newest saves, or stop it."
    ),
]


class NewPodBody(Input):
    """A pod to make."""

    name: Name
    spec: SpecBody = SpecBody()
    environment: VersionRefBody | None = Field(
        default=None,
        description="A version to begin as. It has the image, so `spec.image` is left out.",
    )
    requirements: RequirementsBody = RequirementsBody()
    volume: AttachmentBody | None = Field(
        default=None,
        description="A volume that exists; left out, the pod gets a new, empty one.",
    )
    capture_rules: CaptureRules = ()
    save_interval_seconds: SaveInterval = SAVE_INTERVAL_SECONDS
    on_reclaim: WhenReclaimed = OnReclaim.RESTART
    idle: IdleBody | None = Field(
        default=None, description="Left out, the pod is never stopped for being idle."
    )
    start: Flag = Field(default=True, description="Whether to launch it at once.")

    @model_validator(mode="after")
    def _one_base(self) -> "NewPodBody":
        if (self.spec.image is None) == (self.environment is None):
            raise ValueError("give either spec.image or environment: what the pod begins as")
        return self

    def to_new_pod(self) -> NewPod:
        return NewPod(
            name=self.name,
            version=None if self.environment is None else self.environment.to_ref(),
            spec=self.spec.to_spec(),
            requirements=self.requirements.to_requirements(),
            volume=to_attachment(self.volume),
            capture_rules=self.capture_rules,
            save_interval_seconds=self.save_interval_seconds,
            on_reclaim=self.on_reclaim,
            idle=None if self.idle is None else self.idle.to_policy(),
            start=self.start,
        )


class PodPatch(Input):
    """Changes to a pod, in force from its next start on; what is left out stays.

    The interval of its saves, `on_reclaim` and `idle` hold at once. Only a stopped pod can get
    another volume.
    """

    name: Name = left_alone()
    volume: AttachmentBody = left_alone()
    spec: SpecPatch = left_alone(SpecPatch())
    requirements: RequirementsPatch = left_alone(RequirementsPatch())
    capture_rules: CaptureRules = left_alone()
    save_interval_seconds: SaveInterval = left_alone()
    on_reclaim: WhenReclaimed = left_alone()
    idle: IdleBody | None = left_alone()

    def idle_change(self) -> IdlePolicy | Unchanged | None:
        """`null` takes the policy away."""
        if "idle" not in self.model_fields_set:
            return Unchanged.UNCHANGED
        return None if self.idle is None else self.idle.to_policy()


class StartBody(Input):
    """How to start."""

    requirements: RequirementsBody | None = Field(
        default=None, description="Of this start only; left out, the pod's own hold."
    )
    volume: AttachmentBody | None = Field(
        default=None, description="The volume to have from now on; left out, the one it has."
    )


class StopBody(Input):
    """How to stop."""

    accept_loss: Flag = Field(
        default=False,
        description="Stop even if capturing fails. The operation then lists what is lost.",
    )


class SaveBody(Input):
    """What to call the save."""

    label: Name | None = Field(default=None, description="A save with a label is kept.")


class MoveBody(Input):
    """Where to move."""

    requirements: RequirementsBody | None = Field(
        default=None, description="Of the new machine; left out, the pod's own hold."
    )


class FailureView(Output):
    """The last thing that went wrong, kept until the next success."""

    code: str
    detail: str
    at: datetime

    @classmethod
    def of(cls, failure: Failure | None) -> "FailureView | None":
        if failure is None:
            return None
        return cls(code=failure.code, detail=failure.detail, at=failure.at)


class EnvironmentPart(Output):
    """Everything outside /workspace."""

    id: str
    head: str | None = Field(description="The capture that the next start restores.")
    captured_at: datetime | None
    size_bytes: int

    @classmethod
    def of(cls, environment: Environment, head: str | None) -> "EnvironmentPart":
        return cls(
            id=environment.id,
            head=head,
            captured_at=environment.captured_at,
            size_bytes=environment.size_bytes,
        )


class LastSaveView(Output):
    """The newest state of the volume; a start after a lost machine restores it."""

    snapshot_id: str
    kind: SaveKind
    at: datetime = Field(description="It has everything that was written before.")
    age_seconds: float
    bytes: int
    files: int
    stored_bytes: int = Field(description="What it added to the store.")
    torn: tuple[str, ...] = Field(
        description="Files that changed while they were read, three times over; up to 100."
    )
    is_partial: bool = Field(
        description="Its machine went before it had everything: `at` is that of the last whole one."
    )

    @classmethod
    def of(cls, save: Snapshot | None, volume: Volume, now: datetime) -> "LastSaveView | None":
        if save is None:
            return None
        at = volume.saved_at or save.created_at
        counts = {name: int(save.summary.get(name, 0)) for name in _COUNTS}
        return cls(
            snapshot_id=save.id,
            kind=save.save_kind,
            at=at,
            age_seconds=(now - at).total_seconds(),
            torn=tuple(save.summary.get("torn", ())),
            is_partial=save.is_partial,
            **counts,
        )


_COUNTS = ("bytes", "files", "stored_bytes")


class RecoveredFromView(Output):
    """What the pod came back with after its machine was lost."""

    snapshot_id: str | None = Field(description="`null` if it had never been saved.")
    age_seconds: float | None = Field(
        description="Between that save and the last word of the machine: what may be missing, "
        "together with what it did after that word. While it is well it speaks at least every "
        f"{RESTING_HEARTBEAT_SECONDS:.0f} seconds."
    )
    lost_at: datetime = Field(description="When the machine was last heard from.")
    torn: tuple[str, ...] = Field(description="Files that may be half written in that save.")
    is_partial: bool = Field(description="It was sealed before it had everything.")
    unreached: tuple[str, ...] = Field(
        description="For that, files that are older in it, or not in it; up to 100."
    )

    @classmethod
    def of(cls, left: RecoveredFrom | None) -> "RecoveredFromView | None":
        if left is None:
            return None
        return cls(**{name: getattr(left, name) for name in cls.model_fields})


class PodSummary(Output):
    """A pod in a list."""

    id: str
    name: str
    state: StateWord
    desired: Desired
    image: str
    environment_id: str
    volume_id: str
    machine: MachineView | None
    operation_id: str | None
    last_error: FailureView | None
    created_at: datetime
    revision: int

    @classmethod
    def of(cls, part: RunningPart, now: datetime) -> "PodSummary":
        pod = part.pod
        return cls(
            id=pod.id,
            name=pod.name,
            state=part.word(now),
            desired=pod.desired,
            image=pod.spec.image,
            environment_id=pod.environment_id,
            volume_id=pod.volume_id,
            machine=MachineView.of(part.machine, part.pulse, now),
            operation_id=pod.operation_id,
            last_error=FailureView.of(pod.last_error),
            created_at=pod.created_at,
            revision=pod.revision,
        )


class PodView(Output):
    """A pod with everything it is made of."""

    id: str
    name: str
    state: StateWord
    desired: Desired
    requirements: RequirementsView
    spec: SpecView
    capture_rules: tuple[str, ...]
    base: BaseView | None = Field(description="`null` before the first launch.")
    environment: EnvironmentPart
    volume: VolumePart
    on_reclaim: OnReclaim
    idle: IdleView | None = Field(description="`null`: never stopped for being idle.")
    idle_status: IdleStatusView | None = Field(
        description="Of a pod that runs and has such a policy."
    )
    recovered_from: RecoveredFromView | None = Field(
        description="Until the next stop, if its machine was lost since the last one."
    )
    save_interval_seconds: int
    save_state: SaveState = Field(
        description="`failing` if the last save failed or none has come for two intervals."
    )
    save_error: FailureView | None = Field(description="Why the last save failed, if it did.")
    last_save: LastSaveView | None
    machine: MachineView | None
    ssh: SshView | None = Field(description="`null` before its first machine is up.")
    operation: OperationView | None = Field(description="At work on the pod.")
    last_error: FailureView | None
    created_at: datetime
    started_at: datetime | None
    revision: int

    @classmethod
    def of(cls, whole: WholePod, now: datetime) -> "PodView":
        part, pod = whole.running, whole.running.pod
        operation = part.operation
        return cls(
            id=pod.id,
            name=pod.name,
            state=part.word(now),
            desired=pod.desired,
            requirements=RequirementsView.of(pod.requirements),
            spec=SpecView.of(pod.spec),
            capture_rules=pod.capture_rules,
            base=BaseView.of(pod.base),
            environment=EnvironmentPart.of(whole.environment, pod.environment_head),
            volume=VolumePart.of(whole.volume, pod, now),
            on_reclaim=pod.on_reclaim,
            idle=IdleView.of(pod.idle),
            idle_status=_idle_status(whole, now),
            recovered_from=RecoveredFromView.of(pod.recovered_from),
            save_interval_seconds=pod.save_interval_seconds,
            save_state=whole.save_state,
            save_error=FailureView.of(whole.saving.error),
            last_save=LastSaveView.of(whole.last_save, whole.volume, now),
            machine=MachineView.of(part.machine, part.pulse, now),
            ssh=SshView.of(whole.host_key, part.machine),
            operation=None if operation is None else OperationView.of(operation, whole.progress),
            last_error=FailureView.of(pod.last_error),
            created_at=pod.created_at,
            started_at=pod.started_at,
            revision=pod.revision,
        )


def _idle_status(whole: WholePod, now: datetime) -> IdleStatusView | None:
    pod, pulse = whole.running.pod, whole.running.pulse
    if pod.idle is None or pod.state != PodState.RUNNING:
        return None
    activity = None if pulse is None else pulse.activity
    return IdleStatusView.of(whole.idle_watch, activity, now)


class EventView(Output):
    """One change of state, and why."""

    id: str
    at: datetime
    type: str
    cause: str
    operation_id: str | None
    evidence: dict[str, Any]

    @classmethod
    def of(cls, event: Event) -> "EventView":
        return cls(
            id=event.id,
            at=event.created_at,
            type=event.type,
            cause=event.cause,
            operation_id=event.operation_id,
            evidence=event.evidence,
        )


class MetricsView(Output):
    """What the machine's agent last measured."""

    measured_at: datetime | None = Field(description="`null` if no machine runs the pod.")
    metrics: dict[str, Any]
    workload: dict[str, Any]

    @classmethod
    def of(cls, pulse: Pulse | None) -> "MetricsView":
        if pulse is None:
            return cls(measured_at=None, metrics={}, workload={})
        return cls(measured_at=pulse.heard_at, metrics=pulse.metrics, workload=pulse.workload)
