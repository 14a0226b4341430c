"""The request at hand: who asks, what may be used, how much time is left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from aws_lambda_powertools.event_handler import Depends

from podferry.domain.errors import ForbiddenError
from podferry.domain.principal import Principal
from podferry.http.use_cases import UseCases


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request."""

    use: UseCases
    principal: Principal
    request_id: str
    remaining_seconds: Callable[[], float]
    """Until the function is ended from outside."""
    pause: Callable[[float], None]

    @property
    def account_id(self) -> str:
        """The account that the request is about.

        Raises:
            ForbiddenError: the operator's key belongs to no account.
        """
        if self.principal.account_id is None:
            raise ForbiddenError(
                "the operator's key has no pods of its own; use a key of an account"
            )
        return self.principal.account_id

    @property
    def now(self) -> datetime:
        return self.use.clock.now()


_current: ContextVar[Call] = ContextVar("call")


def current_call() -> Call:
    """The request that is being answered."""
    return _current.get()


@contextmanager
def as_current(call: Call) -> Iterator[None]:
    """Make `call` the request at hand inside the block."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)


CallNow = Annotated[Call, Depends(current_call)]
