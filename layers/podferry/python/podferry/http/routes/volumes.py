"""Volumes: their history, going back in it, forks, and the trash."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from podferry.domain.account import Scope
from podferry.domain.errors import ConflictError
from podferry.http.answers import GONE, JSON, found, gone
from podferry.http.call import Call, CallNow
from podferry.http.models.page import PageView
from podferry.http.models.pod import EventView
from podferry.http.models.snapshot import SaveView
from podferry.http.models.volume import ForkBody, RestoreBody, VolumePatch, VolumeView
from podferry.http.params import DEFAULT_LIMIT, Cursor, IfMatch, Limit, VolumeId
from podferry.http.refusals import PreconditionFailedError
from podferry.http.revision import etag_of, require_match
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("volumes")

A_FORK = ForkBody()
NOTHING_YET = 0
"""A fork stores nothing before its first save."""
THE_VOLUME = {200: Answer(VolumeView, "The volume.", ("ETag",))}
THE_VOLUME_ONCE = {200: Answer(VolumeView, "The volume.", ("ETag", "Idempotent-Replayed"))}

InTrash = Annotated[bool, Query(description="List those that were deleted instead.")]


@routes.operation(
    "GET",
    "/v1/volumes",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[VolumeView], "Newest first.")},
)
def list_volumes(
    call: CallNow,
    *,
    deleted: InTrash = False,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response[PageView[VolumeView]]:
    """List the account's volumes."""
    page = call.use.browse.volumes(call.account_id, is_in_trash=deleted, limit=limit, cursor=cursor)
    stored = call.use.read_storage.of_each(call.account_id)
    rows = tuple(VolumeView.of(one, call.now, stored.get(one.id, 0)) for one in page.items)
    return found(PageView[VolumeView](data=rows, next_cursor=page.cursor))


@routes.operation("GET", "/v1/volumes/<volume_id>", needs=Scope.PODS_READ, answers=THE_VOLUME)
def get_volume(call: CallNow, volume_id: VolumeId) -> Response[VolumeView]:
    """See a volume, also one in the trash."""
    return _shown(call, volume_id)


@routes.operation(
    "GET",
    "/v1/volumes/<volume_id>/saves",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[SaveView], "Newest first.")},
)
def list_saves(
    call: CallNow, volume_id: VolumeId, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[SaveView]]:
    """List the saves of a volume.

    All of a day are kept, then the newest of each hour for 7 days, of each day for 30 days. Saves
    with a label, the head and the newest save of a stop are kept for longer. What a restore left
    counts as made then.
    """
    page = call.use.browse.saves(call.account_id, volume_id, limit=limit, cursor=cursor)
    rows = tuple(SaveView.of(snapshot) for snapshot in page.items)
    return found(PageView[SaveView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "GET",
    "/v1/volumes/<volume_id>/events",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[EventView], "What happened, newest first.")},
)
def list_volume_events(
    call: CallNow, volume_id: VolumeId, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[EventView]]:
    """List what was done to a volume itself; what its pods did is in their events."""
    page = call.use.browse.volume_events(call.account_id, volume_id, limit=limit, cursor=cursor)
    rows = tuple(EventView.of(event) for event in page.items)
    return found(PageView[EventView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "PATCH",
    "/v1/volumes/<volume_id>",
    needs=Scope.PODS_WRITE,
    answers=THE_VOLUME,
    refusals=(409, 412),
)
def change_volume(
    call: CallNow, volume_id: VolumeId, body: VolumePatch, if_match: IfMatch = None
) -> Response[VolumeView]:
    """Give a volume another name."""
    volume = call.use.browse.volume(call.account_id, volume_id)
    require_match(if_match, volume.revision)
    based_on = None if if_match is None else volume.revision
    try:
        call.use.keep_volume.rename(call.account_id, volume_id, body.name, based_on)
    except ConflictError as error:
        if if_match is not None and type(error) is ConflictError:
            raise PreconditionFailedError(error.detail) from error
        raise
    return _shown(call, volume_id)


@routes.operation(
    "POST",
    "/v1/volumes/<volume_id>/restore",
    needs=Scope.PODS_WRITE,
    answers=THE_VOLUME_ONCE,
)
def restore_volume(call: CallNow, volume_id: VolumeId, body: RestoreBody) -> Response[VolumeView]:
    """Go back (or forward) to a save: the next start restores that one.

    Only while no pod has the volume. What it was before stays in the list of its saves, so that
    going back can itself be taken back.
    """
    call.use.restore_volume.restore(call.account_id, volume_id, body.snapshot_id)
    return _shown(call, volume_id)


@routes.operation(
    "POST",
    "/v1/volumes/<volume_id>/fork",
    needs=Scope.PODS_WRITE,
    answers={
        201: Answer(VolumeView, "The new volume.", ("Location", "ETag", "Idempotent-Replayed"))
    },
)
def fork_volume(
    call: CallNow, volume_id: VolumeId, body: ForkBody = A_FORK
) -> Response[VolumeView]:
    """Make a volume that begins with a save of this one. Nothing is copied.

    Also while a pod writes the volume: a save never changes.
    """
    fork = call.use.fork_volume.fork(call.account_id, volume_id, body.snapshot_id, body.name)
    headers = {"Location": f"/v1/volumes/{fork.id}", "ETag": etag_of(fork.revision)}
    return Response(201, JSON, VolumeView.of(fork, call.now, NOTHING_YET), headers)


@routes.operation(
    "DELETE",
    "/v1/volumes/<volume_id>",
    needs=Scope.PODS_WRITE,
    answers=GONE,
    refusals=(409,),
)
def delete_volume(call: CallNow, volume_id: VolumeId) -> Response[None]:
    """Put a volume that no pod has into the trash; for 7 days it can be taken back."""
    call.use.keep_volume.trash(call.account_id, volume_id)
    return gone()


@routes.operation(
    "POST",
    "/v1/volumes/<volume_id>/undelete",
    needs=Scope.PODS_WRITE,
    answers=THE_VOLUME_ONCE,
)
def undelete_volume(call: CallNow, volume_id: VolumeId) -> Response[VolumeView]:
    """Take a volume out of the trash, with all its saves."""
    call.use.keep_volume.take_back(call.account_id, volume_id)
    return _shown(call, volume_id)


def _shown(call: Call, volume_id: str) -> Response[VolumeView]:
    volume = call.use.browse.volume(call.account_id, volume_id)
    view = VolumeView.of(volume, call.now, call.use.read_storage.of_one(volume_id))
    return found(view, view.revision)
