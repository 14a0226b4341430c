"""The routes of machines' agents."""

from aws_lambda_powertools.event_handler import Response

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
from podferry.http.answers import found
from podferry.http.call import CallNow
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("agent")


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


@routes.operation(
    "POST",
    "/agent/v1/heartbeat",
    needs=PrincipalKind.MACHINE,
    answers={200: Answer(HeartbeatReply, "What to do next.")},
    refusals=(409,),
)
def heartbeat(call: CallNow, body: HeartbeatBody) -> Response[HeartbeatReply]:
    """Report health and commands; get commands."""
    return found(HeartbeatReply.of(call.use.heartbeat.beat(call.principal, body.to_beat())))


@routes.operation(
    "POST",
    "/agent/v1/snapshots",
    needs=PrincipalKind.MACHINE,
    answers={200: Answer(SaveReply, "The save to make, or when the next one is due.")},
    refusals=(409,),
)
def ask_save(call: CallNow, body: SaveBody) -> Response[SaveReply]:  # noqa: ARG001 - no fields yet
    """Begin the save that is due; asking again while it is under way is the same save."""
    return found(SaveReply.of(call.use.ask_save.ask(call.principal)))


@routes.operation(
    "POST",
    "/agent/v1/notice",
    needs=PrincipalKind.MACHINE,
    answers={200: Answer(NoticeReply, "The save to make.")},
    refusals=(409,),
)
def take_notice(call: CallNow, body: NoticeBody) -> Response[NoticeReply]:
    """Say that the machine will go; the same again is the same notice."""
    turn = call.use.take_notice.take(call.principal, body.to_announcement())
    return found(NoticeReply.of(turn))


@routes.operation(
    "POST",
    "/agent/v1/uploads",
    needs=PrincipalKind.MACHINE,
    answers={200: Answer(UploadsReply, "Where to store them.")},
    refusals=(409,),
)
def sign_uploads(call: CallNow, body: UploadsBody) -> Response[UploadsReply]:
    """Ask for the right to store objects of one's own open snapshot."""
    wanted = body.to_objects()
    signed = call.use.sign_uploads.sign(call.principal, body.snapshot_id, wanted)
    uploads = tuple(
        Upload(name=one.name, url=right.url, headers=right.headers)
        for one, right in zip(wanted, signed, strict=True)
    )
    return found(UploadsReply(uploads=uploads))


@routes.operation(
    "POST",
    "/agent/v1/downloads",
    needs=PrincipalKind.MACHINE,
    answers={200: Answer(DownloadsReply, "Where to read them.")},
    refusals=(409,),
)
def sign_downloads(call: CallNow, body: DownloadsBody) -> Response[DownloadsReply]:
    """Ask for the right to read objects that a snapshot of one's own pod needs."""
    wanted = body.to_wanted()
    urls = call.use.sign_downloads.sign(call.principal, body.snapshot_id, wanted)
    downloads = tuple(
        Download(snapshot_id=one.snapshot_id, name=one.name, url=url)
        for one, url in zip(wanted, urls, strict=True)
    )
    return found(DownloadsReply(downloads=downloads))


@routes.operation(
    "POST",
    "/agent/v1/commit",
    needs=PrincipalKind.MACHINE,
    answers={200: Answer(CommitReply, "Noted; it is verified before it counts.")},
    refusals=(409,),
)
def commit_capture(call: CallNow, body: CommitBody) -> Response[CommitReply]:
    """Hand in a finished capture; that of a save again and again until it is verified."""
    root, summary = body.root.to_object(), body.summary.model_dump(mode="json")
    is_settled = call.use.record_capture.commit(call.principal, body.snapshot_id, root, summary)
    return found(CommitReply(is_settled=is_settled))


@routes.operation(
    "POST",
    "/agent/v1/host-key",
    needs=PrincipalKind.MACHINE,
    answers={200: Answer(HostKeyReply, "The pod's host key, if it has one.")},
    refusals=(409,),
)
def keep_host_key(call: CallNow, body: HostKeyBody) -> Response[HostKeyReply]:
    """Ask for the pod's SSH host key, and offer one if it has none; the first offer is kept."""
    key = call.use.keep_host_key.keep(call.principal, body.private_key)
    return found(HostKeyReply(private_key=key))


@routes.operation(
    "POST",
    "/agent/v1/ssh-keys",
    needs=PrincipalKind.MACHINE,
    answers={200: Answer(LoginKeysReply, "Who may log in.")},
)
def list_logins(call: CallNow, body: LoginKeysBody) -> Response[LoginKeysReply]:  # noqa: ARG001 - no fields yet
    """Ask whose key opens the pod at this moment."""
    keys = call.use.list_logins.list(call.principal)
    return found(LoginKeysReply(authorized_keys=tuple(keys)))


@routes.operation(
    "POST",
    "/agent/v1/output",
    needs=PrincipalKind.MACHINE,
    answers={200: Answer(Taken, "Stored.")},
)
def append_output(call: CallNow, body: OutputBody) -> Response[Taken]:
    """Hand in what a command wrote; a chunk that comes twice is stored once."""
    chunks = [chunk.to_chunk() for chunk in body.chunks]
    call.use.append_output.append(call.principal, body.command_id, chunks)
    return found(Taken())
