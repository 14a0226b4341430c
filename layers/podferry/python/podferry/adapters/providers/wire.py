"""HTTP to a provider: time limits, and what a failure of the call itself means.

Two kinds of call. A *safe* one may be repeated, so every passing fault is `ProviderBusyError`. The
*create* call may not: once a byte may have left, no answer means `OutcomeUnknownError`.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, TypeVar

import httpx
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from podferry.adapters.providers.scrub import scrub
from podferry.domain.errors import (
    CloudError,
    KeyRefusedError,
    OutcomeUnknownError,
    ProviderBusyError,
    ProviderRefusedError,
)

_LOGGER = logging.getLogger(__name__)

CREATE_TIMEOUT_SECONDS = 60.0
SAFE_TIMEOUT_SECONDS = 20.0
_BUSY_SECONDS = 5.0
_PASSING = frozenset({408, 425, 429})
_HEADER_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")
_BAD_ADDRESS = (httpx.UnsupportedProtocol, httpx.InvalidURL)
_NOTHING_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class WireModel(BaseModel):
    """Base of what providers send: unknown fields are fine, numbers keep their decimals."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        coerce_numbers_to_str=True,
        # Bodies hold tokens, and errors are logged.
        hide_input_in_errors=True,
    )


M = TypeVar("M", bound=WireModel)


class ProviderHTTP:
    """One provider's API with one key."""

    def __init__(
        self,
        provider: str,
        base_url: str,
        headers: Mapping[str, str] | Callable[[], Mapping[str, str]],
        client: httpx.Client | None = None,
    ) -> None:
        """`headers` carry the key; a function is asked for each call, because tokens expire."""
        self._provider = provider
        self._base_url = base_url.rstrip("/")
        self._headers = headers if callable(headers) else lambda: headers
        self._client = client

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        own: frozenset[int] = frozenset(),
    ) -> httpx.Response:
        """A call that may be repeated; returns a 2xx, or a 4xx that is the provider's own.

        `own` are statuses that may say something else here than that the key is bad.

        Raises:
            ProviderBusyError, ProviderRefusedError.
        """
        with safe_call(self._provider):
            answer = self._request(method, path, SAFE_TIMEOUT_SECONDS, params=params, body=body)
        if answer.status_code >= 500 or answer.status_code in _PASSING:
            raise self._busy(answer)
        if answer.status_code not in own:
            self._check_access(answer)
        return answer

    def send_create(
        self, method: str, path: str, *, body: Any, own: frozenset[int] = frozenset()
    ) -> httpx.Response:
        """The call that costs money if it is made twice; returns a 2xx or a provider's own 4xx.

        `own` are statuses that say something else here than that the key is bad.

        Raises:
            ProviderBusyError, ProviderRefusedError: nothing was made.
            OutcomeUnknownError: a machine may exist.
        """
        with create_call(self._provider):
            answer = self._request(method, path, CREATE_TIMEOUT_SECONDS, body=body)
        if answer.status_code == 429:
            raise self._busy(answer)
        if answer.status_code >= 500 or answer.status_code == 408:
            detail = f"{self._provider} answered {answer.status_code} to the create call"
            raise OutcomeUnknownError(f"{detail}; a machine may exist")
        if answer.status_code not in own:
            self._check_access(answer)
        return answer

    def read(self, answer: httpx.Response, model: type[M]) -> M:
        """The body of an answer to a safe call.

        Raises:
            ProviderBusyError: not the shape it has to be (a proxy's page, a cut body).
        """
        try:
            return model.model_validate_json(answer.content)
        except ValidationError as error:
            raise ProviderBusyError(
                f"{self._provider} sent an answer that cannot be read as {model.__name__}"
            ) from error

    def read_made(self, answer: httpx.Response, model: type[M]) -> M:
        """The body of the create call's success, which names what was made.

        Raises:
            OutcomeUnknownError: it names nothing.
        """
        made = parsed(answer, model)
        if made is None:
            raise OutcomeUnknownError(f"{self._provider} took the launch but named no machine")
        return made

    def read_offer(self, item: object, model: type[M]) -> M | None:
        """One of a list of offers; one that cannot be read is left out, for the others' sake."""
        try:
            return model.model_validate(item)
        except ValidationError as error:
            self.left_out(str(error))
            return None

    def left_out(self, why: str) -> None:
        """Say that an offer cannot be shown."""
        _LOGGER.warning("offer left out", extra={"provider": self._provider, "why": why})

    def refusal(
        self, answer: httpx.Response, words: str, kind: type[CloudError] | None
    ) -> CloudError:
        """The provider's own no to a launch; `None` if its meaning is not known, which is told."""
        said = self.scrubbed(words) or "no reason"
        if kind is not None:
            return kind(f"{self._provider} answered {answer.status_code}: {said}")
        keys = {"provider": self._provider, "status": answer.status_code, "said": said}
        _LOGGER.warning("refusal with unknown words", extra=keys)
        return self.refused(answer, words)

    def refused(self, answer: httpx.Response, words: str) -> ProviderRefusedError:
        """The provider's own no, in its own words."""
        said = self.scrubbed(words) or "no reason"
        return ProviderRefusedError(f"{self._provider} answered {answer.status_code}: {said}")

    def scrubbed(self, words: str) -> str:
        """`words` fit for errors and logs."""
        return scrub(words, *(value.removeprefix("Bearer ") for value in self._headers().values()))

    def _request(
        self,
        method: str,
        path: str,
        timeout: float,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> httpx.Response:
        if self._client is None:
            # A Lambda may sleep for minutes between two calls. A kept connection is then often
            # half closed, and a create call that dies on one would count as "outcome unknown".
            self._client = httpx.Client(limits=httpx.Limits(max_keepalive_connections=0))
        return self._client.request(
            method,
            f"{self._base_url}{path}",
            params=params,
            json=body,
            headers=self._sendable_headers(),
            timeout=timeout,
        )

    def _sendable_headers(self) -> Mapping[str, str]:
        headers = self._headers()
        if not all(_HEADER_VALUE.fullmatch(value) for value in headers.values()):
            # A header with such a value cannot be sent, today or later.
            raise KeyRefusedError(
                f"the key of {self._provider} has line breaks or letters that cannot be sent; "
                "copy it again"
            )
        return headers

    def _busy(self, answer: httpx.Response) -> ProviderBusyError:
        return ProviderBusyError(
            f"{self._provider} answered {answer.status_code}; try again",
            retry_after_seconds=retry_after_seconds(answer) or _BUSY_SECONDS,
        )

    def _check_access(self, answer: httpx.Response) -> None:
        if answer.status_code in {401, 403}:
            raise KeyRefusedError(
                f"{self._provider} answered {answer.status_code}: the key is wrong, expired or "
                f"lacks a right; renew the {self._provider} entry of the provider keys"
            )
        if 300 <= answer.status_code < 400:
            raise ProviderRefusedError(
                f"{self._provider} answered {answer.status_code}, a redirect; check its base_url"
            )


@contextmanager
def safe_call(provider: str) -> Iterator[None]:
    """Translate httpx's errors of a call that may be repeated."""
    try:
        yield
    except _BAD_ADDRESS as error:
        raise _bad_address(provider) from error
    except httpx.RequestError as error:
        kind = type(error).__name__
        raise ProviderBusyError(f"{provider} did not answer ({kind})") from error


@contextmanager
def create_call(provider: str) -> Iterator[None]:
    """Translate httpx's errors of the create call."""
    try:
        yield
    except _BAD_ADDRESS as error:
        raise _bad_address(provider) from error
    except _NOTHING_SENT as error:
        kind = type(error).__name__
        raise ProviderBusyError(
            f"{provider} cannot be reached ({kind}); nothing was rented"
        ) from error
    except httpx.RequestError as error:
        kind = type(error).__name__
        raise OutcomeUnknownError(f"the create call to {provider} was cut off ({kind})") from error


def parsed(answer: httpx.Response, model: type[M]) -> M | None:
    """The body, if it has that shape: a proxy's page has not."""
    try:
        return model.model_validate_json(answer.content)
    except ValidationError:
        return None


def pages(
    provider: str, ask: Callable[[str | None], M], next_of: Callable[[M], str | None]
) -> Iterator[M]:
    """All pages of a list: `ask` gets the token of one, `None` for the first.

    Raises:
        ProviderBusyError: a page comes twice, so the list cannot be called complete.
    """
    token: str | None = None
    seen: set[str] = set()
    while True:
        page = ask(token)
        yield page
        token = next_of(page)
        if not token:
            return
        if token in seen:
            raise ProviderBusyError(f"{provider} repeats a page; the list cannot be completed")
        seen.add(token)


def kind_of(
    words: str, refusals: Iterable[tuple[str, type[CloudError]]]
) -> type[CloudError] | None:
    """What the first pattern that is found in the words stands for."""
    return next(
        (kind for pattern, kind in refusals if re.search(pattern, words, re.IGNORECASE)), None
    )


def retry_after_seconds(answer: httpx.Response) -> float | None:
    """What `Retry-After` asks for: seconds or a date."""
    text = answer.headers.get("Retry-After", "").strip()
    if not text:
        return None
    if text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except ValueError:
        return None


def _bad_address(provider: str) -> ProviderRefusedError:
    return ProviderRefusedError(f"the base_url of {provider} is not an http(s) URL")


def _decimal_or_none(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        return None
    return number if number.is_finite() else None


LenientDecimal = Annotated[Decimal | None, BeforeValidator(_decimal_or_none)]
"""A figure that is nice to have: a machine must not vanish from a list because it is odd."""
