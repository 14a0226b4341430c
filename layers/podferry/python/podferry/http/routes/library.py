"""What takes reading snapshots. A function of its own: of those for users it alone may."""

from aws_lambda_powertools.event_handler import Response

from podferry.domain.account import Scope
from podferry.http.answers import found, made
from podferry.http.call import CallNow
from podferry.http.models.environment import KeepBody, VersionView
from podferry.http.models.share import NewShareView, ShareBody
from podferry.http.params import PodId
from podferry.http.routes.sharing import SHARE_ANSWERS, shared
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("snapshots")

THE_NEWEST = KeepBody()


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
