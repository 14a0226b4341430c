"""Operations to disturb: how to get there, how to ask for them, where they can be met."""

from collections.abc import Callable

from invariants import check_at_rest, check_data
from world import World

from podferry.domain.command import CommandKind
from podferry.domain.offer import Requirements
from podferry.domain.operation import Cause, Operation
from podferry.domain.pod import Pod

DATA = {"work": "ten days"}

LAUNCH = (
    "BeginStart",
    "CheckSnapshots",
    "ChooseOffer",
    "Rent",
    "AwaitAgent",
    "RestoreEnvironment",
    "RestoreVolume",
    "AwaitReady",
    "FinishStart",
)
STOP = (
    "BeginStop",
    "Quiesce",
    "CaptureEnvironment",
    "CaptureVolume",
    "VerifyCaptures",
    "CommitHeads",
    "GiveUpMachine",
    "AwaitGone",
    "FinishStop",
)
MOVE = ("CheckTarget", "StopHalf", *STOP, "StartHalf", *LAUNCH, "FinishMove")
STEPS_OF = {"start": LAUNCH, "stop": STOP, "move": MOVE}
POINTS = [(kind, step) for kind, steps in STEPS_OF.items() for step in steps]
SIDES = ("before_step", "after_step")


def prepared(world: World, kind: str) -> Pod:
    """A pod with data, at the point where an operation of this kind can begin."""
    pod = world.launch()
    world.box.volume = dict(DATA)
    world.box.environment["/opt/tool"] = "installed"
    if kind == "start":
        world.stop(pod)
    return pod


def ask(world: World, pod: Pod, kind: str) -> Operation:
    app, account = world.app, world.account.id
    match kind:
        case "start":
            return app.start_pod.ask(account, pod.id, None, Cause.USER)
        case "stop":
            return app.stop_pod.ask(account, pod.id, accept_loss=False, cause=Cause.USER)
        case _:
            elsewhere = Requirements(gpu_count=1, providers=("beta",))
            return app.move_pod.ask(account, pod.id, elsewhere, Cause.USER)


def hanging_in_capture(world: World, pod: Pod) -> Operation:
    """A stop whose captures have begun and do not end."""
    world.box.hangs.add(CommandKind.CAPTURE)
    operation = ask(world, pod, "stop")
    world.run(until=lambda: "Capture" in world.visited(operation))
    return operation


def once_at(world: World, side: str, step: str, do: Callable[[str], None]) -> list[str]:
    """Do it the first time that the step runs, with the operation's id; tells if it happened."""
    happened: list[str] = []

    def hook(name: str, operation_id: str) -> None:
        if name == step and not happened:
            happened.append(operation_id)
            do(operation_id)

    setattr(world, side, hook)
    return happened


def cancel_after(world: World, step: str) -> None:
    """Its user cancels the operation as soon as the step has run."""

    def cancel(operation_id: str) -> None:
        world.app.cancel_operation.ask(world.account.id, operation_id)

    once_at(world, "after_step", step, cancel)


def check_kept(world: World, pod: Pod) -> None:
    check_at_rest(world, pod)
    check_data(world, pod, DATA, "installed")
    check_at_rest(world, pod)
