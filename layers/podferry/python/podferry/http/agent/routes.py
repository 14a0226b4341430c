"""The routes of machines' agents."""

from collections.abc import Callable
from typing import Any, TypeVar

from aws_lambda_powertools.event_handler import Response
from pydantic import BaseModel

from podferry.domain.principal import PrincipalKind
from podferry.http.agent.beat import HeartbeatBody, HeartbeatReply, SaveBody, SaveReply
from podferry.http.agent.notice import NoticeBody, NoticeReply
from podferry.http.agent.objects import (
    CommitBody,
    CommitReply,
    Download,
    DownloadsBody,
    DownloadsReply,
    OutputBody,
    Taken,
    Upload,
    UploadsBody,
    UploadsReply,
)
from podferry.http.agent.reach import HostKeyBody, HostKeyReply, LoginKeysBody, LoginKeysReply
from podferry.http.agent.registration import RegisterBody, RegisterReply
from podferry.http.agent.secrets import SecretsBody, SecretsReply
from podferry.http.answers import found
from podferry.http.call import CallNow
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("agent")

F = TypeVar("F", bound=Callable[..., Any])


def _post(
    path: str, reply: type[BaseModel], told: str, refusals: tuple[int, ...] = (409,)
) -> Callable[[F], F]:
    """A route for a machine's token; 409 asks it to try again, because rows moved."""
    return routes.operation(
        "POST",
        f"/agent/v1/{path}",
        needs=PrincipalKind.MACHINE,
        answers={200: Answer(reply, told)},
        refusals=refusals,
    )


@routes.operation(
    "POST",
    "/agent/v1/register",
    needs=PrincipalKind.BOOT,
    answers={200: Answer(RegisterReply, "Registered.")},
    refusals=(409,),
)
def register(call: CallNow, body: RegisterBody) -> Response[RegisterReply]:
    """Say who is there, with the boot token; the same digest again gets the same answer."""
    registration = call.use.register_agent.register(call.principal, body.to_request())
    return found(RegisterReply.of(registration))


@_post("heartbeat", HeartbeatReply, "What to do next.")
def heartbeat(call: CallNow, body: HeartbeatBody) -> Response[HeartbeatReply]:
    """Report health and commands; get commands."""
    return found(HeartbeatReply.of(call.use.heartbeat.beat(call.principal, body.to_beat())))


@_post("snapshots", SaveReply, "The save to make, or when the next one is due.")
def ask_save(call: CallNow, body: SaveBody) -> Response[SaveReply]:  # noqa: ARG001 - no fields yet
    """Begin the save that is due; asking again while it is under way is the same save."""
    return found(SaveReply.of(call.use.ask_save.ask(call.principal)))


@_post("notice", NoticeReply, "The save to make.")
def take_notice(call: CallNow, body: NoticeBody) -> Response[NoticeReply]:
    """Say that the machine will go; the same again is the same notice."""
    turn = call.use.take_notice.take(call.principal, body.to_announcement())
    return found(NoticeReply.of(turn))


@_post("uploads", UploadsReply, "Where to store them.")
def sign_uploads(call: CallNow, body: UploadsBody) -> Response[UploadsReply]:
    """Ask for the right to store objects of one's own open snapshot."""
    wanted = body.to_objects()
    signed = call.use.sign_uploads.sign(call.principal, body.snapshot_id, wanted)
    uploads = tuple(
        Upload(name=one.name, url=right.url, headers=right.headers)
        for one, right in zip(wanted, signed, strict=True)
    )
    return found(UploadsReply(uploads=uploads))


@_post("downloads", DownloadsReply, "Where to read them.")
def sign_downloads(call: CallNow, body: DownloadsBody) -> Response[DownloadsReply]:
    """Ask for the right to read objects that a snapshot of one's own pod needs."""
    wanted = body.to_wanted()
    urls = call.use.sign_downloads.sign(call.principal, body.snapshot_id, wanted)
    downloads = tuple(
        Download(snapshot_id=one.snapshot_id, name=one.name, url=url)
        for one, url in zip(wanted, urls, strict=True)
    )
    return found(DownloadsReply(downloads=downloads))


@_post("commit", CommitReply, "Noted; it is verified before it counts.")
def commit_capture(call: CallNow, body: CommitBody) -> Response[CommitReply]:
    """Hand in a finished capture; that of a save again and again until it is verified."""
    root, summary = body.root.to_object(), body.summary.model_dump(mode="json")
    is_settled = call.use.record_capture.commit(call.principal, body.snapshot_id, root, summary)
    return found(CommitReply(is_settled=is_settled))


@_post("host-key", HostKeyReply, "The pod's host key, if it has one.")
def keep_host_key(call: CallNow, body: HostKeyBody) -> Response[HostKeyReply]:
    """Ask for the pod's SSH host key, and offer one if it has none; the first offer is kept."""
    key = call.use.keep_host_key.keep(call.principal, body.private_key)
    return found(HostKeyReply(private_key=key))


@_post("ssh-keys", LoginKeysReply, "Who may log in.", refusals=())
def list_logins(call: CallNow, body: LoginKeysBody) -> Response[LoginKeysReply]:  # noqa: ARG001 - no fields yet
    """Ask whose key opens the pod at this moment."""
    keys = call.use.list_logins.list(call.principal)
    return found(LoginKeysReply(authorized_keys=tuple(keys)))


@_post("secrets", SecretsReply, "For the environment of the pod's programs.", refusals=())
def give_secrets(call: CallNow, body: SecretsBody) -> Response[SecretsReply]:  # noqa: ARG001 - no fields yet
    """Ask for the texts of the secrets that the pod's environment names."""
    return found(SecretsReply.of(call.use.give_secrets.give(call.principal)))


@_post("output", Taken, "Stored.", refusals=())
def append_output(call: CallNow, body: OutputBody) -> Response[Taken]:
    """Hand in what a command wrote; a chunk that comes twice is stored once."""
    chunks = [chunk.to_chunk() for chunk in body.chunks]
    call.use.append_output.append(call.principal, body.command_id, chunks)
    return found(Taken())
