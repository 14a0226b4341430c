"""From errors to HTTP: the only table from class to status, and the shape of an answer."""

from http import HTTPStatus

from podferry.domain import errors as e
from podferry.http import refusals as r
from podferry.services import idempotency as i

STATUS: dict[type[e.PodferryError], HTTPStatus] = {
    e.PodferryError: HTTPStatus.INTERNAL_SERVER_ERROR,
    e.InternalError: HTTPStatus.INTERNAL_SERVER_ERROR,
    e.InvalidRequestError: HTTPStatus.BAD_REQUEST,
    r.BodyTooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    r.MediaTypeError: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    r.MethodNotAllowedError: HTTPStatus.METHOD_NOT_ALLOWED,
    e.PayloadMismatchError: HTTPStatus.UNPROCESSABLE_ENTITY,
    e.TokenInvalidError: HTTPStatus.UNAUTHORIZED,
    e.ForbiddenError: HTTPStatus.FORBIDDEN,
    e.EpochStaleError: HTTPStatus.FORBIDDEN,
    e.NotFoundError: HTTPStatus.NOT_FOUND,
    r.RouteNotFoundError: HTTPStatus.NOT_FOUND,
    e.ConflictError: HTTPStatus.CONFLICT,
    e.WrongStateError: HTTPStatus.CONFLICT,
    e.VolumeBusyError: HTTPStatus.CONFLICT,
    e.SecretMissingError: HTTPStatus.CONFLICT,
    e.AlreadyRegisteredError: HTTPStatus.CONFLICT,
    e.OperationCancelledError: HTTPStatus.CONFLICT,
    e.HalfFailedError: HTTPStatus.CONFLICT,
    i.RequestInProgressError: HTTPStatus.CONFLICT,
    i.ReplyLostError: HTTPStatus.CONFLICT,
    r.PreconditionFailedError: HTTPStatus.PRECONDITION_FAILED,
    e.SnapshotError: HTTPStatus.CONFLICT,
    e.SnapshotMissingError: HTTPStatus.CONFLICT,
    e.SnapshotCorruptError: HTTPStatus.CONFLICT,
    e.SnapshotUnverifiedError: HTTPStatus.CONFLICT,
    e.MachineError: HTTPStatus.CONFLICT,
    e.MachineLostError: HTTPStatus.CONFLICT,
    e.BootFailedError: HTTPStatus.CONFLICT,
    e.UnreachableError: HTTPStatus.CONFLICT,
    e.LoginRefusedError: HTTPStatus.CONFLICT,
    e.HostChangedError: HTTPStatus.CONFLICT,
    e.AgentFailedError: HTTPStatus.CONFLICT,
    e.CloudError: HTTPStatus.BAD_GATEWAY,
    e.ProviderRefusedError: HTTPStatus.BAD_GATEWAY,
    e.KeyRefusedError: HTTPStatus.BAD_GATEWAY,
    e.OutcomeUnknownError: HTTPStatus.BAD_GATEWAY,
    e.NoCapacityError: HTTPStatus.SERVICE_UNAVAILABLE,
    e.OfferGoneError: HTTPStatus.SERVICE_UNAVAILABLE,
    e.PriceRaisedError: HTTPStatus.SERVICE_UNAVAILABLE,
    e.QuotaExceededError: HTTPStatus.SERVICE_UNAVAILABLE,
    e.ProviderBusyError: HTTPStatus.SERVICE_UNAVAILABLE,
    e.NotGoneYetError: HTTPStatus.SERVICE_UNAVAILABLE,
}

_OURS_TO_MEND = "something broke on our side; the request id finds it in the logs"


def status_of(error: e.PodferryError) -> HTTPStatus:
    """The status of the error's class; a class without a row counts as its nearest parent."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def detail_of(error: e.PodferryError) -> str:
    """What the caller reads. Broken invariants may name rows and tables: those stay in the logs."""
    is_ours = status_of(error) == HTTPStatus.INTERNAL_SERVER_ERROR
    return _OURS_TO_MEND if is_ours else error.detail


def headers_of(error: e.PodferryError) -> dict[str, str]:
    """Headers that the status asks for."""
    if isinstance(error, e.TokenInvalidError):
        return {"WWW-Authenticate": 'Bearer realm="podferry"'}
    if isinstance(error, r.MethodNotAllowedError):
        return {"Allow": ", ".join(error.allowed)}
    if isinstance(error, e.ProviderBusyError):
        return {"Retry-After": str(max(1, round(error.retry_after_seconds)))}
    if error.is_retryable:
        return {"Retry-After": "1"}
    return {}
