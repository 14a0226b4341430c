"""Look at environments and at their frozen states; prove a frozen state of anything."""

from aws_lambda_powertools.event_handler import Response

from podferry.domain.account import Scope
from podferry.http.answers import OPERATION_ANSWERS, begun, found
from podferry.http.call import CallNow
from podferry.http.models.operation import OperationView
from podferry.http.models.page import PageView
from podferry.http.models.snapshot import EnvironmentView, SnapshotView, VerifyBody
from podferry.http.params import (
    DEFAULT_LIMIT,
    Cursor,
    EnvironmentId,
    Limit,
    Prefer,
    SnapshotId,
)
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("snapshots")

A_SAMPLE = VerifyBody()


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
    stored = call.use.read_storage.of_each(call.account_id)
    rows = tuple(EnvironmentView.of(one, stored.get(one.id, 0)) for one in page.items)
    return found(PageView[EnvironmentView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "GET",
    "/v1/environments/<environment_id>",
    needs=Scope.PODS_READ,
    answers={200: Answer(EnvironmentView, "The environment.", ("ETag",))},
)
def get_environment(call: CallNow, environment_id: EnvironmentId) -> Response[EnvironmentView]:
    """See an environment."""
    environment = call.use.browse.environment(call.account_id, environment_id)
    view = EnvironmentView.of(environment, call.use.read_storage.of_one(environment_id))
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
    "POST", "/v1/snapshots/<snapshot_id>/verify", needs=Scope.PODS_WRITE, answers=OPERATION_ANSWERS
)
def verify_snapshot(
    call: CallNow, snapshot_id: SnapshotId, body: VerifyBody = A_SAMPLE, prefer: Prefer = None
) -> Response[OperationView]:
    """Prove that a save or a capture can be restored.

    If an object is missing or damaged the operation fails as `snapshot_missing` or
    `snapshot_corrupt` and names it; else `last_proven_at` of the snapshot says when it was proven.
    """
    operation = call.use.ask_proof.ask(call.account_id, snapshot_id, body.mode)
    return begun(call, operation, prefer)
