"""Make, see, change and delete pods; what happened to them."""

from aws_lambda_powertools.event_handler import Response

from podferry.domain.account import Scope
from podferry.http.answers import GONE, JSON, POLL_SECONDS, found, gone, has_ended
from podferry.http.call import Call, CallNow
from podferry.http.models.operation import OperationView
from podferry.http.models.page import PageView
from podferry.http.models.pod import (
    EventView,
    MetricsView,
    NewPodBody,
    PodPatch,
    PodSummary,
    PodView,
)
from podferry.http.models.volume import to_attachment
from podferry.http.params import DEFAULT_LIMIT, Cursor, IfMatch, Limit, PodId, Prefer
from podferry.http.providers import with_known_providers
from podferry.http.revision import etag_of, matching, require_match
from podferry.http.routing import Answer, ApiRouter
from podferry.http.waiting import wait_for
from podferry.services.pods import PodChange

routes = ApiRouter("pods")


@routes.operation(
    "POST",
    "/v1/pods",
    needs=Scope.PODS_WRITE,
    answers={
        201: Answer(PodView, "The pod exists.", ("Location", "ETag", "Idempotent-Replayed")),
        202: Answer(
            PodView,
            "The pod exists and `operation` launches it; Location is the operation's.",
            ("Location", "ETag", "Retry-After", "Idempotent-Replayed"),
        ),
    },
)
def create_pod(call: CallNow, body: NewPodBody, prefer: Prefer = None) -> Response[PodView]:
    """Make a pod and launch it, unless `start` is false."""
    new = body.to_new_pod()
    with_known_providers(call, new.requirements)
    pod, operation = call.use.create_pod.create(call.account_id, new)
    if operation is None:
        view = _view(call, pod.id)
        headers = {"Location": f"/v1/pods/{pod.id}", "ETag": etag_of(view.revision)}
        return Response(201, JSON, view, headers)
    browse = call.use.browse
    wait_for(call, prefer, lambda: browse.operation(call.account_id, operation.id), has_ended)
    view = _view(call, pod.id)
    headers = {
        "Location": f"/v1/operations/{operation.id}",
        "ETag": etag_of(view.revision),
        "Retry-After": POLL_SECONDS,
    }
    return Response(202, JSON, view, headers)


@routes.operation(
    "GET",
    "/v1/pods",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[PodSummary], "Pods that are not deleted.")},
)
def list_pods(
    call: CallNow, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[PodSummary]]:
    """List the account's pods."""
    page = call.use.browse.pods(call.account_id, limit=limit, cursor=cursor)
    rows = tuple(PodSummary.of(part, call.now) for part in page.items)
    return found(PageView[PodSummary](data=rows, next_cursor=page.cursor))


@routes.operation(
    "GET",
    "/v1/pods/<pod_id>",
    needs=Scope.PODS_READ,
    answers={200: Answer(PodView, "The pod.", ("ETag",))},
)
def get_pod(call: CallNow, pod_id: PodId) -> Response[PodView]:
    """See a pod with everything it is made of."""
    view = _view(call, pod_id)
    return found(view, view.revision)


@routes.operation(
    "PATCH",
    "/v1/pods/<pod_id>",
    needs=Scope.PODS_WRITE,
    answers={200: Answer(PodView, "The changed pod.", ("ETag",))},
    refusals=(409, 412),
)
def change_pod(
    call: CallNow, pod_id: PodId, body: PodPatch, if_match: IfMatch = None
) -> Response[PodView]:
    """Change how a pod runs, from its next start on.

    `save_interval_seconds`, `on_reclaim` and `idle` hold at once.
    """
    pod = call.use.browse.pod(call.account_id, pod_id)
    require_match(if_match, pod.revision)
    change = PodChange(
        name=body.name,
        spec=body.spec.applied_to(pod.spec),
        requirements=with_known_providers(call, body.requirements.applied_to(pod.requirements)),
        capture_rules=body.capture_rules,
        save_interval_seconds=body.save_interval_seconds,
        on_reclaim=body.on_reclaim,
        idle=body.idle_change(),
        volume=to_attachment(body.volume),
    )
    with matching(if_match):
        changed = call.use.change_pod.change(call.account_id, pod_id, change, pod.revision)
    return found(_view(call, pod_id), changed.revision)


@routes.operation(
    "DELETE",
    "/v1/pods/<pod_id>",
    needs=Scope.PODS_WRITE,
    answers=GONE,
    refusals=(409,),
)
def delete_pod(call: CallNow, pod_id: PodId) -> Response[None]:
    """Delete a stopped pod; its volume and its captures stay."""
    call.use.delete_pod.delete(call.account_id, pod_id)
    return gone()


@routes.operation(
    "GET",
    "/v1/pods/<pod_id>/events",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[EventView], "What happened, newest first.")},
)
def list_events(
    call: CallNow, pod_id: PodId, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[EventView]]:
    """List every change of a pod's state, with its cause."""
    page = call.use.browse.events(call.account_id, pod_id, limit=limit, cursor=cursor)
    rows = tuple(EventView.of(event) for event in page.items)
    return found(PageView[EventView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "GET",
    "/v1/pods/<pod_id>/metrics",
    needs=Scope.PODS_READ,
    answers={200: Answer(MetricsView, "The last measurement.")},
)
def get_metrics(call: CallNow, pod_id: PodId) -> Response[MetricsView]:
    """See what the pod's machine last measured."""
    return found(MetricsView.of(call.use.browse.pulse(call.account_id, pod_id)))


@routes.operation(
    "GET",
    "/v1/pods/<pod_id>/operations",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[OperationView], "Newest first.")},
)
def list_operations(
    call: CallNow, pod_id: PodId, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[OperationView]]:
    """List a pod's operations; progress is shown when one of them is looked at alone."""
    page = call.use.browse.operations(call.account_id, pod_id, limit=limit, cursor=cursor)
    rows = tuple(OperationView.of(operation, {}) for operation in page.items)
    return found(PageView[OperationView](data=rows, next_cursor=page.cursor))


def _view(call: Call, pod_id: str) -> PodView:
    return PodView.of(call.use.browse.whole_pod(call.account_id, pod_id), call.now)
