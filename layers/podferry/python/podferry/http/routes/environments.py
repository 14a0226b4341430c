"""Versions of environments, going back to one, names and deletion."""

from aws_lambda_powertools.event_handler import Response

from podferry.domain.account import Scope
from podferry.http.answers import GONE, found, gone
from podferry.http.call import CallNow
from podferry.http.models.environment import EnvironmentPatch, RollbackBody, VersionView
from podferry.http.models.page import PageView
from podferry.http.models.pod import PodView
from podferry.http.models.snapshot import EnvironmentView
from podferry.http.params import (
    DEFAULT_LIMIT,
    Cursor,
    EnvironmentId,
    IfMatch,
    Limit,
    PodId,
    VersionNo,
)
from podferry.http.revision import matching, require_match
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("snapshots")


@routes.operation(
    "GET",
    "/v1/environments/<environment_id>/versions",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[VersionView], "Newest first.")},
)
def list_versions(
    call: CallNow,
    environment_id: EnvironmentId,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response[PageView[VersionView]]:
    """List the versions of an environment."""
    page = call.use.browse.versions(call.account_id, environment_id, limit=limit, cursor=cursor)
    rows = tuple(VersionView.of(version) for version in page.items)
    return found(PageView[VersionView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "GET",
    "/v1/environments/<environment_id>/versions/<number>",
    needs=Scope.PODS_READ,
    answers={200: Answer(VersionView, "The version.")},
)
def get_version(
    call: CallNow, environment_id: EnvironmentId, number: VersionNo
) -> Response[VersionView]:
    """See one version of an environment."""
    version = call.use.browse.version(call.account_id, environment_id, int(number))
    return found(VersionView.of(version))


@routes.operation(
    "PATCH",
    "/v1/environments/<environment_id>",
    needs=Scope.PODS_WRITE,
    answers={200: Answer(EnvironmentView, "The changed environment.", ("ETag",))},
    refusals=(409, 412),
)
def change_environment(
    call: CallNow, environment_id: EnvironmentId, body: EnvironmentPatch, if_match: IfMatch = None
) -> Response[EnvironmentView]:
    """Give an environment another name."""
    environment = call.use.browse.environment(call.account_id, environment_id)
    require_match(if_match, environment.revision)
    name = body.name or environment.name
    with matching(if_match):
        changed = call.use.change_environment.rename(
            call.account_id, environment_id, name, environment.revision
        )
    stored = call.use.read_storage.of_one(environment_id)
    return found(EnvironmentView.of(changed, stored), changed.revision)


@routes.operation(
    "DELETE",
    "/v1/environments/<environment_id>",
    needs=Scope.PODS_WRITE,
    answers=GONE,
    refusals=(409,),
)
def delete_environment(call: CallNow, environment_id: EnvironmentId) -> Response[None]:
    """Delete an environment with all its versions; refused while a pod has it.

    Its data is freed within days, but for what pods need that were launched from its versions.
    """
    call.use.change_environment.delete(call.account_id, environment_id)
    return gone()


@routes.operation(
    "POST",
    "/v1/pods/<pod_id>/rollback",
    needs=Scope.PODS_WRITE,
    answers={200: Answer(PodView, "Its next start restores that state.", ("Idempotent-Replayed",))},
)
def roll_back(call: CallNow, pod_id: PodId, body: RollbackBody) -> Response[PodView]:
    """Take the environment of a stopped pod back to a version or to an earlier capture.

    The state before it is kept as a version, unless it is one. The volume stays as it is.
    """
    call.use.roll_back.to(call.account_id, pod_id, body.to_target())
    return found(PodView.of(call.use.browse.whole_pod(call.account_id, pod_id), call.now))
