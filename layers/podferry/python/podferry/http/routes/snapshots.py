"""Look at environments and volumes and at their frozen states."""

from aws_lambda_powertools.event_handler import Response

from podferry.domain.account import Scope
from podferry.http.answers import found
from podferry.http.call import CallNow
from podferry.http.models.page import PageView
from podferry.http.models.snapshot import EnvironmentView, SnapshotView, VolumeView
from podferry.http.params import DEFAULT_LIMIT, Cursor, EnvironmentId, Limit, VolumeId
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("snapshots")


@routes.operation(
    "GET",
    "/v1/environments",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[EnvironmentView], "Newest first.")},
)
def list_environments(
    call: CallNow, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[EnvironmentView]]:
    """List the account's environments."""
    page = call.use.browse.environments(call.account_id, limit=limit, cursor=cursor)
    rows = tuple(EnvironmentView.of(environment) for environment in page.items)
    return found(PageView[EnvironmentView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "GET",
    "/v1/environments/<environment_id>",
    needs=Scope.PODS_READ,
    answers={200: Answer(EnvironmentView, "The environment.", ("ETag",))},
)
def get_environment(call: CallNow, environment_id: EnvironmentId) -> Response[EnvironmentView]:
    """See an environment."""
    view = EnvironmentView.of(call.use.browse.environment(call.account_id, environment_id))
    return found(view, view.revision)


@routes.operation(
    "GET",
    "/v1/environments/<environment_id>/captures",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[SnapshotView], "Newest first.")},
)
def list_captures(
    call: CallNow,
    environment_id: EnvironmentId,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response[PageView[SnapshotView]]:
    """List the committed captures of an environment."""
    page = call.use.browse.captures(call.account_id, environment_id, limit=limit, cursor=cursor)
    rows = tuple(SnapshotView.of(snapshot) for snapshot in page.items)
    return found(PageView[SnapshotView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "GET",
    "/v1/volumes",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[VolumeView], "Newest first.")},
)
def list_volumes(
    call: CallNow, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[VolumeView]]:
    """List the account's volumes."""
    page = call.use.browse.volumes(call.account_id, limit=limit, cursor=cursor)
    rows = tuple(VolumeView.of(volume, call.now) for volume in page.items)
    return found(PageView[VolumeView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "GET",
    "/v1/volumes/<volume_id>",
    needs=Scope.PODS_READ,
    answers={200: Answer(VolumeView, "The volume.", ("ETag",))},
)
def get_volume(call: CallNow, volume_id: VolumeId) -> Response[VolumeView]:
    """See a volume."""
    view = VolumeView.of(call.use.browse.volume(call.account_id, volume_id), call.now)
    return found(view, view.revision)


@routes.operation(
    "GET",
    "/v1/volumes/<volume_id>/saves",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[SnapshotView], "Newest first.")},
)
def list_saves(
    call: CallNow, volume_id: VolumeId, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[SnapshotView]]:
    """List the committed saves of a volume."""
    page = call.use.browse.saves(call.account_id, volume_id, limit=limit, cursor=cursor)
    rows = tuple(SnapshotView.of(snapshot) for snapshot in page.items)
    return found(PageView[SnapshotView](data=rows, next_cursor=page.cursor))
