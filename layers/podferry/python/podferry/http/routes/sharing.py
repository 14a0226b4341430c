"""Share a version of an environment, decide on what was found, revoke, accept."""

from aws_lambda_powertools.event_handler import Response

from podferry.domain.account import Scope
from podferry.http.answers import GONE, JSON, OPERATION_ANSWERS, POLL_SECONDS, begun, found, gone
from podferry.http.call import Call, CallNow
from podferry.http.models.operation import OperationView
from podferry.http.models.page import PageView
from podferry.http.models.share import (
    AcceptBody,
    DecideBody,
    FindingView,
    NewShareView,
    ShareBody,
    ShareView,
)
from podferry.http.params import (
    DEFAULT_LIMIT,
    Cursor,
    EnvironmentId,
    Limit,
    Prefer,
    ShareId,
    VersionNo,
)
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("sharing")

SHARE_ANSWERS = {
    202: Answer(
        NewShareView,
        "The scan has begun; nothing leaves before it is done and decided.",
        ("Location", "Retry-After", "Idempotent-Replayed"),
    )
}
BY_NAME = AcceptBody()


def shared(call: Call, environment_id: str, number: int, body: ShareBody) -> Response[NewShareView]:
    """Begin a share, and tell where to look for it."""
    share, token = call.use.shares.share(call.account_id, environment_id, number, body.to_share())
    view = NewShareView(share=ShareView.of(share), token=token)
    headers = {"Location": f"/v1/shares/{share.id}", "Retry-After": POLL_SECONDS}
    return Response(202, JSON, view, headers)


@routes.operation(
    "POST",
    "/v1/environments/<environment_id>/versions/<number>/share",
    needs=Scope.PODS_WRITE,
    answers=SHARE_ANSWERS,
)
def share_version(
    call: CallNow, environment_id: EnvironmentId, number: VersionNo, body: ShareBody
) -> Response[NewShareView]:
    """Share a version with named accounts, by a link, or both.

    Files of keys, credentials and history stay behind in any case. Everything else is scanned
    first; the share waits until every finding is excluded or accepted.
    """
    return shared(call, environment_id, int(number), body)


@routes.operation(
    "GET",
    "/v1/shares",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[ShareView], "Newest first.")},
)
def list_shares(
    call: CallNow, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[ShareView]]:
    """List what the account shares."""
    page = call.use.shares.list(call.account_id, limit=limit, cursor=cursor)
    rows = tuple(ShareView.of(share) for share in page.items)
    return found(PageView[ShareView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "GET",
    "/v1/shares/<share_id>",
    needs=Scope.PODS_READ,
    answers={200: Answer(ShareView, "The share, with its receipt once it is sealed.")},
)
def get_share(call: CallNow, share_id: ShareId) -> Response[ShareView]:
    """See a share of the account."""
    return found(ShareView.of(call.use.shares.get(call.account_id, share_id)))


@routes.operation(
    "GET",
    "/v1/shares/<share_id>/findings",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[FindingView], "In no order that says anything.")},
)
def list_findings(
    call: CallNow, share_id: ShareId, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[FindingView]]:
    """List the files of a share that look as if they held secrets."""
    page = call.use.shares.findings(call.account_id, share_id, limit=limit, cursor=cursor)
    rows = tuple(FindingView.of(finding) for finding in page.items)
    return found(PageView[FindingView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "POST",
    "/v1/shares/<share_id>/decisions",
    needs=Scope.PODS_WRITE,
    answers={200: Answer(ShareView, "The share.", ("Idempotent-Replayed",))},
)
def decide_findings(call: CallNow, share_id: ShareId, body: DecideBody) -> Response[ShareView]:
    """Exclude or accept findings; with the last of them decided the share is sealed."""
    decisions = [one.to_decision() for one in body.decisions]
    share = call.use.shares.decide(call.account_id, share_id, decisions)
    return found(ShareView.of(share))


@routes.operation(
    "DELETE", "/v1/shares/<share_id>", needs=Scope.PODS_WRITE, answers=GONE, refusals=(409,)
)
def revoke_share(call: CallNow, share_id: ShareId) -> Response[None]:
    """Revoke a share: nobody can accept it any more. What was accepted stays with who has it."""
    call.use.shares.revoke(call.account_id, share_id)
    return gone()


@routes.operation(
    "POST",
    "/v1/shares/<share_id>/accept",
    needs=Scope.PODS_WRITE,
    answers=OPERATION_ANSWERS,
)
def accept_share(
    call: CallNow, share_id: ShareId, body: AcceptBody = BY_NAME, prefer: Prefer = None
) -> Response[OperationView]:
    """Copy what is shared into a new environment of the account, as its version 1.

    The operation's result names it. Launch pods from it as from any version; each gets a volume of
    its own.
    """
    operation = call.use.shares.accept(call.account_id, share_id, body.token, body.name)
    return begun(call, operation, prefer)
