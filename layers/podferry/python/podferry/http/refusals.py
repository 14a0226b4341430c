"""Errors that only HTTP knows: the request never reached a use case."""

from podferry.domain.errors import ConflictError, InvalidRequestError, NotFoundError


class BodyTooLargeError(InvalidRequestError):
    """The body has more bytes than this API takes."""

    code = "body_too_large"


class MediaTypeError(InvalidRequestError):
    """The body is not declared as JSON in UTF-8."""

    code = "unsupported_media_type"


class RouteNotFoundError(NotFoundError):
    """No route has this path."""

    code = "route_not_found"


class MethodNotAllowedError(InvalidRequestError):
    """The path exists, but not with this method."""

    code = "method_not_allowed"

    def __init__(self, detail: str, *, allowed: tuple[str, ...]) -> None:
        super().__init__(detail)
        self.allowed = allowed


class PreconditionFailedError(ConflictError):
    """The thing changed since the caller read it: its ETag is not the one in If-Match."""

    code = "precondition_failed"
