"""Which function serves which step, and how a step is called."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from podferry.domain.errors import InternalError
from podferry.domain.operation import OperationKind
from podferry.domain.snapshot import SnapshotKind
from podferry.services.launch.await_agent import AwaitAgent
from podferry.services.launch.begin import BeginStart, CheckSnapshots
from podferry.services.launch.choose import ChooseOffer
from podferry.services.launch.finish import FinishStart
from podferry.services.launch.give_back import AwaitReturned, FailStart, ReturnMachine
from podferry.services.launch.install import InstallAgent
from podferry.services.launch.rent import Rent
from podferry.services.launch.restore import AwaitReady, RestoreSnapshot
from podferry.services.move.steps import CheckTarget, FailMove, FinishMove, RunHalf
from podferry.services.operations import Operations
from podferry.services.proof.prove import FailProof, ProveSnapshot
from podferry.services.sharing.fail import FailShare
from podferry.services.stop.capture import BeginStop, CaptureSnapshot, Quiesce
from podferry.services.stop.commit import CommitHeads, VerifyCaptures
from podferry.services.stop.give_up import AwaitGone, FinishStop, GiveUpMachine
from podferry.services.stop.turn_back import AssessStop, FailStop, ResumeMachine
from podferry.services.verification import Cursor
from podferry.services.workflow_error import WorkflowError, from_catch

if TYPE_CHECKING:
    # The engine is loaded by the one function that serves these steps.
    from podferry.services.sharing.run import RunShare

Event = Mapping[str, Any]
Reply = dict[str, Any]


class UseCases(Protocol):
    """The use cases that steps call; `podferry.bootstrap.Application` builds them."""

    @property
    def operations(self) -> Operations: ...
    @property
    def begin_start(self) -> BeginStart: ...
    @property
    def check_snapshots(self) -> CheckSnapshots: ...
    @property
    def choose_offer(self) -> ChooseOffer: ...
    @property
    def rent(self) -> Rent: ...
    @property
    def install_agent(self) -> InstallAgent: ...
    @property
    def await_agent(self) -> AwaitAgent: ...
    def restore_snapshot(self, kind: SnapshotKind) -> RestoreSnapshot: ...
    @property
    def await_ready(self) -> AwaitReady: ...
    @property
    def finish_start(self) -> FinishStart: ...
    @property
    def return_machine(self) -> ReturnMachine: ...
    @property
    def await_returned(self) -> AwaitReturned: ...
    @property
    def fail_start(self) -> FailStart: ...
    @property
    def begin_stop(self) -> BeginStop: ...
    @property
    def quiesce(self) -> Quiesce: ...
    def capture_snapshot(self, kind: SnapshotKind) -> CaptureSnapshot: ...
    @property
    def verify_captures(self) -> VerifyCaptures: ...
    @property
    def commit_heads(self) -> CommitHeads: ...
    @property
    def give_up_machine(self) -> GiveUpMachine: ...
    @property
    def await_gone(self) -> AwaitGone: ...
    @property
    def finish_stop(self) -> FinishStop: ...
    @property
    def assess_stop(self) -> AssessStop: ...
    @property
    def resume_machine(self) -> ResumeMachine: ...
    @property
    def fail_stop(self) -> FailStop: ...
    @property
    def check_target(self) -> CheckTarget: ...
    def run_half(self, kind: OperationKind) -> RunHalf: ...
    @property
    def finish_move(self) -> FinishMove: ...
    @property
    def fail_move(self) -> FailMove: ...
    @property
    def prove_snapshot(self) -> ProveSnapshot: ...
    @property
    def fail_proof(self) -> FailProof: ...
    @property
    def run_share(self) -> "RunShare": ...
    @property
    def fail_share(self) -> FailShare: ...


Step = Callable[[UseCases, Event], Reply | None]


def _id(event: Event) -> str:
    return str(event["operation_id"])


def _token(event: Event) -> str:
    return str(event["task_token"])


def _error(event: Event) -> WorkflowError:
    return from_catch(event.get("error"))


def _cursor(event: Event) -> Cursor | None:
    raw = event.get("cursor")
    return None if raw is None else Cursor(int(raw["snapshot"]), int(raw["objects"]))


_POD_STEPS: dict[str, Step] = {
    "BeginStart": lambda app, event: app.begin_start.run(_id(event)),
    "RestoreEnvironment": lambda app, event: app.restore_snapshot(SnapshotKind.ENVIRONMENT).run(
        _id(event), _token(event)
    ),
    "RestoreVolume": lambda app, event: app.restore_snapshot(SnapshotKind.VOLUME).run(
        _id(event), _token(event)
    ),
    "AwaitReady": lambda app, event: app.await_ready.run(_id(event), _token(event)),
    "FinishStart": lambda app, event: app.finish_start.run(_id(event)),
    "FailStart": lambda app, event: app.fail_start.run(_id(event), _error(event)),
    "BeginStop": lambda app, event: app.begin_stop.run(_id(event)),
    "Quiesce": lambda app, event: app.quiesce.run(_id(event), _token(event)),
    "CaptureEnvironment": lambda app, event: app.capture_snapshot(SnapshotKind.ENVIRONMENT).run(
        _id(event), _token(event)
    ),
    "CaptureVolume": lambda app, event: app.capture_snapshot(SnapshotKind.VOLUME).run(
        _id(event), _token(event)
    ),
    "ResumeMachine": lambda app, event: app.resume_machine.run(_id(event), _token(event)),
    "FailStop": lambda app, event: app.fail_stop.run(_id(event), _error(event)),
    "FinishStop": lambda app, event: app.finish_stop.run(_id(event)),
    "StopHalf": lambda app, event: app.run_half(OperationKind.STOP).run(_id(event), _token(event)),
    "StartHalf": lambda app, event: app.run_half(OperationKind.START).run(
        _id(event), _token(event)
    ),
    "FinishMove": lambda app, event: app.finish_move.run(_id(event)),
    "FailMove": lambda app, event: app.fail_move.run(_id(event), _error(event)),
}

_MACHINE_STEPS: dict[str, Step] = {
    "ChooseOffer": lambda app, event: app.choose_offer.run(_id(event)),
    "Rent": lambda app, event: app.rent.run(_id(event)),
    "InstallAgent": lambda app, event: app.install_agent.run(_id(event)),
    "AwaitAgent": lambda app, event: app.await_agent.run(_id(event)),
    "ReturnMachine": lambda app, event: app.return_machine.run(_id(event), _error(event)),
    "AwaitReturned": lambda app, event: app.await_returned.run(_id(event), _error(event)),
    "AssessStop": lambda app, event: app.assess_stop.run(_id(event), _error(event)),
    "GiveUpMachine": lambda app, event: app.give_up_machine.run(_id(event)),
    "AwaitGone": lambda app, event: app.await_gone.run(_id(event)),
    "CheckTarget": lambda app, event: app.check_target.run(_id(event)),
}

_SNAPSHOT_STEPS: dict[str, Step] = {
    "CheckSnapshots": lambda app, event: app.check_snapshots.run(_id(event), _cursor(event)),
    "VerifyCaptures": lambda app, event: app.verify_captures.run(_id(event), _cursor(event)),
    "CommitHeads": lambda app, event: app.commit_heads.run(_id(event)),
    "ProveSnapshot": lambda app, event: app.prove_snapshot.run(_id(event), _cursor(event)),
    "FailProof": lambda app, event: app.fail_proof.run(_id(event), _error(event)),
}

_SHARING_STEPS: dict[str, Step] = {
    "RunShare": lambda app, event: app.run_share.run(_id(event), event.get("cursor")),
    "FailShare": lambda app, event: app.fail_share.run(_id(event), _error(event)),
}

STEPS: dict[str, dict[str, Step]] = {
    "steps_pods": _POD_STEPS,
    "steps_machines": _MACHINE_STEPS,
    "steps_snapshots": _SNAPSHOT_STEPS,
    "steps_sharing": _SHARING_STEPS,
}


def dispatch(app: UseCases, function: str, event: Event) -> Reply:
    """Run the step that the event names; while it runs on behalf of a move, the move is alive.

    Raises:
        InternalError: the function does not serve this step.
        PodferryError: the step's own errors; the workflow catches them by class name.
    """
    name = str(event.get("step"))
    step = STEPS[function].get(name)
    if step is None:
        raise InternalError(f"function {function} has no step {name!r}")
    app.operations.beat_waiter(app.operations.load(_id(event)))
    return step(app, event) or {}
