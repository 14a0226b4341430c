"""Start, stop, move and save pods; run commands in them; follow operations."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from podferry.domain.account import Scope
from podferry.domain.command import ENDED, Command
from podferry.domain.offer import Requirements
from podferry.domain.operation import Cause
from podferry.http.answers import JSON, OPERATION_ANSWERS, begun, found, has_ended
from podferry.http.call import Call, CallNow
from podferry.http.models.command import CommandView, ExecBody
from podferry.http.models.operation import OperationView
from podferry.http.models.pod import MoveBody, SaveBody, StartBody, StopBody
from podferry.http.models.spec import RequirementsBody
from podferry.http.models.volume import to_attachment
from podferry.http.params import CommandId, OperationId, PodId, Prefer
from podferry.http.providers import with_known_providers
from podferry.http.routing import Answer, ApiRouter
from podferry.http.waiting import wait_for

routes = ApiRouter("running")

BEGINNING = -1
DEFAULT_CHUNKS = 20

AS_IT_IS = StartBody()
KEEPING_ALL = StopBody()
ANYWHERE = MoveBody()
WITHOUT_LABEL = SaveBody()

After = Annotated[
    int, Query(ge=-1, le=100_000_000, description="`next_after` of the answer before this one.")
]
Chunks = Annotated[
    int, Query(ge=1, le=50, description="Pieces of output in one answer, each up to 64 KiB.")
]


@routes.operation(
    "POST", "/v1/pods/<pod_id>/start", needs=Scope.PODS_WRITE, answers=OPERATION_ANSWERS
)
def start_pod(
    call: CallNow, pod_id: PodId, body: StartBody = AS_IT_IS, prefer: Prefer = None
) -> Response[OperationView]:
    """Start a stopped pod: rent a machine and restore the pod on it."""
    wanted = _wanted(call, body.requirements)
    operation = call.use.start_pod.ask(
        call.account_id, pod_id, wanted, Cause.USER, to_attachment(body.volume)
    )
    return begun(call, operation, prefer)


@routes.operation(
    "POST", "/v1/pods/<pod_id>/stop", needs=Scope.PODS_WRITE, answers=OPERATION_ANSWERS
)
def stop_pod(
    call: CallNow, pod_id: PodId, body: StopBody = KEEPING_ALL, prefer: Prefer = None
) -> Response[OperationView]:
    """Stop a running pod: capture it, verify the captures, give its machine up."""
    operation = call.use.stop_pod.ask(
        call.account_id, pod_id, accept_loss=body.accept_loss, cause=Cause.USER
    )
    return begun(call, operation, prefer)


@routes.operation(
    "POST", "/v1/pods/<pod_id>/move", needs=Scope.PODS_WRITE, answers=OPERATION_ANSWERS
)
def move_pod(
    call: CallNow, pod_id: PodId, body: MoveBody = ANYWHERE, prefer: Prefer = None
) -> Response[OperationView]:
    """Move a running pod to another machine; the new offer is looked for first."""
    wanted = _wanted(call, body.requirements)
    operation = call.use.move_pod.ask(call.account_id, pod_id, wanted, Cause.USER)
    return begun(call, operation, prefer)


@routes.operation(
    "POST", "/v1/pods/<pod_id>/save", needs=Scope.PODS_WRITE, answers=OPERATION_ANSWERS
)
def save_pod(
    call: CallNow, pod_id: PodId, body: SaveBody = WITHOUT_LABEL, prefer: Prefer = None
) -> Response[OperationView]:
    """Save a running pod's volume now; a save with a label is kept.

    Its programs go on. If another save is under way this one begins after it. If the pod is stopped
    before it is made, the stop's own capture takes its place and its label.
    """
    operation = call.use.save_pod.ask(call.account_id, pod_id, body.label)
    return begun(call, operation, prefer)


@routes.operation(
    "POST",
    "/v1/pods/<pod_id>/exec",
    needs=Scope.PODS_WRITE,
    answers={
        202: Answer(
            CommandView,
            "The command is on its way.",
            ("Location", "Retry-After", "Idempotent-Replayed"),
        ),
        200: Answer(
            CommandView,
            "The command has ended within the time of `Prefer: wait`.",
            ("Location", "Idempotent-Replayed"),
        ),
    },
)
def run_command(
    call: CallNow, pod_id: PodId, body: ExecBody, prefer: Prefer = None
) -> Response[CommandView]:
    """Run a command in a running pod."""
    command = call.use.run_command.ask(call.account_id, pod_id, body.to_request())
    seen = _await(call, command, prefer)
    headers = {"Location": f"/v1/pods/{pod_id}/exec/{seen.id}"}
    view = _with_output(call, seen, BEGINNING, DEFAULT_CHUNKS)
    if seen.state in ENDED:
        return Response(200, JSON, view, headers)
    return Response(202, JSON, view, {**headers, "Retry-After": "1"})


@routes.operation(
    "GET",
    "/v1/pods/<pod_id>/exec/<command_id>",
    needs=Scope.PODS_READ,
    answers={200: Answer(CommandView, "The command and its output from `after` on.")},
)
def get_command(
    call: CallNow,
    pod_id: PodId,
    command_id: CommandId,
    after: After = BEGINNING,
    limit: Chunks = DEFAULT_CHUNKS,
    prefer: Prefer = None,
) -> Response[CommandView]:
    """See how a command is doing and what it wrote; kept for a day."""
    command = call.use.run_command.get(call.account_id, pod_id, command_id)
    return found(_with_output(call, _await(call, command, prefer), after, limit))


@routes.operation(
    "GET",
    "/v1/operations/<operation_id>",
    needs=Scope.PODS_READ,
    answers={200: Answer(OperationView, "The operation.", ("ETag",))},
)
def get_operation(
    call: CallNow, operation_id: OperationId, prefer: Prefer = None
) -> Response[OperationView]:
    """Follow an operation."""
    browse = call.use.browse
    seen = wait_for(
        call, prefer, lambda: browse.operation(call.account_id, operation_id), has_ended
    )
    return found(OperationView.of(seen, browse.progress(seen)), seen.revision)


@routes.operation(
    "POST",
    "/v1/operations/<operation_id>/cancel",
    needs=Scope.PODS_WRITE,
    answers=OPERATION_ANSWERS,
)
def cancel_operation(
    call: CallNow, operation_id: OperationId, prefer: Prefer = None
) -> Response[OperationView]:
    """Withdraw an operation; what it rented is given back, what it stopped runs on."""
    operation = call.use.cancel_operation.ask(call.account_id, operation_id)
    return begun(call, operation, prefer)


def _await(call: Call, command: Command, prefer: str | None) -> Command:
    return wait_for(
        call,
        prefer,
        lambda: call.use.run_command.get(call.account_id, command.pod_id, command.id),
        lambda seen: seen.state in ENDED,
    )


def _with_output(call: Call, command: Command, after: int, limit: int) -> CommandView:
    page = call.use.run_command.output(
        call.account_id, command.pod_id, command.id, after=after, limit=limit
    )
    return CommandView.of(command, page.items, after, has_more=page.cursor is not None)


def _wanted(call: Call, requirements: RequirementsBody | None) -> Requirements | None:
    """What this start needs, if it differs from what the pod needs."""
    if requirements is None:
        return None
    return with_known_providers(call, requirements.to_requirements())
