"""What takes reading snapshots. A function of its own: of those for users it alone may."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from podferry.domain.account import Scope
from podferry.http.answers import found, made
from podferry.http.call import CallNow
from podferry.http.models.environment import KeepBody, VersionView
from podferry.http.models.page import PageView
from podferry.http.models.share import NewShareView, ShareBody
from podferry.http.models.tree import (
    ContentView,
    PackageChangesView,
    TreeChangeView,
    TreeEntryView,
)
from podferry.http.params import DEFAULT_LIMIT, SNAPSHOT_ID_PATTERN, Limit, PodId, SnapshotId
from podferry.http.paths import KeyCursor, PathInTree, cursor_of, key_in, path_in
from podferry.http.routes.sharing import SHARE_ANSWERS, shared
from podferry.http.routing import Answer, ApiRouter
from podferry.services.trees.look import LARGEST_PIECE

routes = ApiRouter("snapshots")

THE_NEWEST = KeepBody()

Since = Annotated[
    str, Query(pattern=SNAPSHOT_ID_PATTERN, description="The earlier snapshot, of the same kind.")
]
Offset = Annotated[int, Query(ge=0, le=2**63 - 1, description="The first byte.")]
Length = Annotated[int, Query(ge=1, le=LARGEST_PIECE, description="How many bytes, at most.")]


@routes.operation(
    "POST",
    "/v1/pods/<pod_id>/keep",
    needs=Scope.PODS_WRITE,
    answers={
        201: Answer(VersionView, "The new version.", ("Location", "Idempotent-Replayed")),
        200: Answer(VersionView, "The version that has this state.", ("Idempotent-Replayed",)),
    },
)
def keep_pod(call: CallNow, pod_id: PodId, body: KeepBody = THE_NEWEST) -> Response[VersionView]:
    """Freeze the captured environment of a stopped pod as its next version.

    What a running pod has is not captured: stop it first, or name an earlier capture. If nothing
    changed since the newest version, or the capture is a version, that one is the answer.
    """
    kept = call.use.keep_pod.keep(call.account_id, pod_id, body.note, body.snapshot_id)
    view = VersionView.of(kept.version)
    if not kept.is_new:
        return found(view)
    return made(view, f"/v1/environments/{view.environment_id}/versions/{view.number}")


@routes.operation("POST", "/v1/pods/<pod_id>/share", needs=Scope.PODS_WRITE, answers=SHARE_ANSWERS)
def share_pod(call: CallNow, pod_id: PodId, body: ShareBody) -> Response[NewShareView]:
    """Keep the environment of a stopped pod as a version, then share that version."""
    version = call.use.keep_pod.keep(call.account_id, pod_id, None).version
    return shared(call, version.environment_id, version.number, body)


@routes.operation(
    "GET",
    "/v1/snapshots/<snapshot_id>/entries",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[TreeEntryView], "In the order of their bytes.")},
    refusals=(409,),
)
def list_entries(
    call: CallNow,
    snapshot_id: SnapshotId,
    path: PathInTree = "",
    limit: Limit = DEFAULT_LIMIT,
    cursor: KeyCursor = None,
) -> Response[PageView[TreeEntryView]]:
    """List a directory of a save or a capture.

    Only what is right in it. A page may have fewer than `limit` and still not be the last one.
    """
    listed = call.use.look.directory(
        call.account_id, snapshot_id, path_in(path), limit=limit, after=key_in(cursor)
    )
    rows = tuple(TreeEntryView.of(entry) for entry in listed.entries)
    return found(PageView[TreeEntryView](data=rows, next_cursor=cursor_of(listed.behind)))


@routes.operation(
    "GET",
    "/v1/snapshots/<snapshot_id>/content",
    needs=Scope.PODS_READ,
    answers={200: Answer(ContentView, "The piece, and where the next one begins.")},
    refusals=(409,),
)
def read_content(
    call: CallNow,
    snapshot_id: SnapshotId,
    path: PathInTree,
    offset: Offset = 0,
    length: Length = LARGEST_PIECE,
) -> Response[ContentView]:
    """Read a file of a save or a capture, up to 3 MiB at a time.

    Each piece is compared with its hash before it is answered. Holes are zeros.
    """
    entry, data = call.use.look.file(
        call.account_id, snapshot_id, path_in(path), offset=offset, length=length
    )
    return found(ContentView.of(entry, offset, data))


@routes.operation(
    "GET",
    "/v1/snapshots/<snapshot_id>/changes",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[TreeChangeView], "In the order of their paths.")},
    refusals=(409,),
)
def list_changes(
    call: CallNow,
    snapshot_id: SnapshotId,
    since: Since,
    limit: Limit = DEFAULT_LIMIT,
    cursor: KeyCursor = None,
) -> Response[PageView[TreeChangeView]]:
    """List what was added, changed and removed between two snapshots of the account.

    Two saves, two captures, those of two versions. A page may have fewer than `limit`, or none,
    and still not be the last one: as long as there is a `next_cursor`, go on.
    """
    page = call.use.look.changes(
        call.account_id, since, snapshot_id, limit=limit, after=key_in(cursor)
    )
    rows = tuple(TreeChangeView.of(change) for change in page.changes)
    return found(PageView[TreeChangeView](data=rows, next_cursor=cursor_of(page.behind)))


@routes.operation(
    "GET",
    "/v1/snapshots/<snapshot_id>/package-changes",
    needs=Scope.PODS_READ,
    answers={200: Answer(PackageChangesView, "All of them.")},
    refusals=(409,),
)
def list_package_changes(
    call: CallNow, snapshot_id: SnapshotId, since: Since
) -> Response[PackageChangesView]:
    """List the packages that differ between two snapshots: those of dpkg and of pip.

    Of dpkg what its status file says, of pip the `.dist-info` directories that have METADATA.
    Refused if more than 200 pages of names differ.
    """
    changes = call.use.look.package_changes(call.account_id, since, snapshot_id)
    return found(PackageChangesView.of(changes))
