"""Pods, as users make, change and see them."""

from datetime import datetime
from typing import Any

from pydantic import Field

from podferry.domain.event import Event
from podferry.domain.machine import Pulse
from podferry.domain.pod import Desired, Failure
from podferry.domain.state_word import StateWord
from podferry.domain.volume import Environment, Volume
from podferry.http.models.fields import Flag, Input, Name, Output, left_alone
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
from podferry.http.params import VOLUME_ID_PATTERN
from podferry.services.browse import RunningPart, WholePod
from podferry.services.pods import NewPod


class NewPodBody(Input):
    """A pod to make."""

    name: Name
    spec: SpecBody
    requirements: RequirementsBody = RequirementsBody()
    volume_id: str | None = Field(
        default=None,
        pattern=VOLUME_ID_PATTERN,
        description="A volume that exists; left out, the pod gets a new, empty one.",
    )
    capture_rules: CaptureRules = ()
    start: Flag = Field(default=True, description="Whether to launch it at once.")

    def to_new_pod(self) -> NewPod:
        return NewPod(
            name=self.name,
            spec=self.spec.to_spec(),
            requirements=self.requirements.to_requirements(),
            volume_id=self.volume_id,
            capture_rules=self.capture_rules,
            start=self.start,
        )


class PodPatch(Input):
    """Changes to a pod, in force from its next start on; what is left out stays."""

    name: Name = left_alone()
    spec: SpecPatch = left_alone(SpecPatch())
    requirements: RequirementsPatch = left_alone(RequirementsPatch())
    capture_rules: CaptureRules = left_alone()


class StartBody(Input):
    """How to start."""

    requirements: RequirementsBody | None = Field(
        default=None, description="Of this start only; left out, the pod's own hold."
    )


class StopBody(Input):
    """How to stop."""

    accept_loss: Flag = Field(
        default=False,
        description="Stop even if capturing fails. The operation then lists what is lost.",
    )


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


class VolumePart(Output):
    """The tree at /workspace."""

    id: str
    head: str | None = Field(description="The newest save.")
    saved_at: datetime | None
    age_seconds: float | None = Field(description="Of the newest save.")
    size_bytes: int

    @classmethod
    def of(cls, volume: Volume, now: datetime) -> "VolumePart":
        age = None if volume.saved_at is None else (now - volume.saved_at).total_seconds()
        return cls(
            id=volume.id,
            head=volume.head,
            saved_at=volume.saved_at,
            age_seconds=age,
            size_bytes=volume.size_bytes,
        )


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
    environment: EnvironmentPart
    volume: VolumePart
    machine: MachineView | None
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
            environment=EnvironmentPart.of(whole.environment, pod.environment_head),
            volume=VolumePart.of(whole.volume, now),
            machine=MachineView.of(part.machine, part.pulse, now),
            operation=None if operation is None else OperationView.of(operation, whole.progress),
            last_error=FailureView.of(pod.last_error),
            created_at=pod.created_at,
            started_at=pod.started_at,
            revision=pod.revision,
        )


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
