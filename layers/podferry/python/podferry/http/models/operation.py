"""Operations and their progress, as users see them."""

from datetime import datetime
from typing import Any

from pydantic import Field

from podferry.domain.command import Progress
from podferry.domain.operation import Cause, Operation, OperationKind, OperationState, WaitingFor
from podferry.http.models.fields import Output
from podferry.http.models.offer import NearMissView
from podferry.http.models.spec import RequirementsView


class ProgressView(Output):
    """How far a step is."""

    phase: str
    bytes_done: int
    bytes_total: int | None
    files_done: int
    files_total: int | None
    eta_seconds: float | None

    @classmethod
    def of(cls, progress: Progress) -> "ProgressView":
        return cls(**{name: getattr(progress, name) for name in cls.model_fields})


class MilestoneView(Output):
    """When a phase was reached."""

    phase: str
    at: datetime


class ErrorView(Output):
    """Why something failed."""

    code: str
    detail: str

    @classmethod
    def of(cls, error: dict[str, Any] | None) -> "ErrorView | None":
        if error is None:
            return None
        return cls(code=str(error.get("code")), detail=str(error.get("detail")))


class WaitingForView(Output):
    """What was for rent at the last look, when nothing met the requirements."""

    listed_at: datetime
    ruled_out: dict[str, int] = Field(
        description="How many offers each requirement ruled out: what to loosen."
    )
    nearest: tuple[NearMissView, ...]
    silent_providers: dict[str, str] = Field(description="Those that did not answer, and why.")

    @classmethod
    def of(cls, waiting: WaitingFor) -> "WaitingForView":
        return cls(
            listed_at=waiting.listed_at,
            ruled_out=waiting.ruled_out,
            nearest=tuple(NearMissView.of(miss) for miss in waiting.nearest),
            silent_providers=waiting.silent,
        )


class OperationView(Output):
    """One launch, start, stop, move, save, recovery or verification."""

    id: str
    pod_id: str
    kind: OperationKind
    state: OperationState
    cause: Cause
    is_cancel_asked: bool
    accept_loss: bool
    requirements: RequirementsView | None = Field(
        description="Given for this operation only; `null` means the pod's own."
    )
    machine_id: str | None
    parent_id: str | None = Field(description="The move that this is a half of.")
    halves: tuple[str, ...] = Field(description="Of a move: its stop and its start.")
    label: str | None = Field(
        description="Of a save; of a stop those of the labelled saves that it came before."
    )
    progress: dict[str, ProgressView] = Field(description="By step.")
    milestones: tuple[MilestoneView, ...]
    waiting_for: WaitingForView | None = Field(
        description="While nothing that fits is for rent: what would fit."
    )
    result: dict[str, Any] | None = Field(description="The receipt, once it has succeeded.")
    lost: tuple[str, ...] = Field(description="What was given up, when a loss was accepted.")
    error: ErrorView | None
    created_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, operation: Operation, progress: dict[str, Progress]) -> "OperationView":
        made = {"requirements", "progress", "milestones", "waiting_for", "error"}
        waiting = operation.waiting_for
        wanted = operation.requirements
        return cls(
            **{name: getattr(operation, name) for name in cls.model_fields.keys() - made},
            requirements=None if wanted is None else RequirementsView.of(wanted),
            progress={step: ProgressView.of(each) for step, each in progress.items()},
            milestones=tuple(MilestoneView(phase=m.phase, at=m.at) for m in operation.milestones),
            waiting_for=None if waiting is None else WaitingForView.of(waiting),
            error=ErrorView.of(operation.error),
        )
