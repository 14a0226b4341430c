"""Whose key opens the door: the account's keys, asked for when somebody knocks."""

import asyncio
import base64
import binascii
import logging
import time
from collections.abc import Callable, Iterable

_LOG = logging.getLogger(__name__)
# A client offers its keys one after the other; they are one question.
_FRESH_SECONDS = 3.0
# The control plane may be away. Then what was last known holds: it is the user's way to the data.
_ANSWER_SECONDS = 10.0


class AuthorizedKeys:
    """Asks through `ask`; the answer comes to `learn`, which also serves unasked.

    Nothing is asked while nobody knocks, so that an idle pod costs nothing, and yet a key that was
    added lets in, and one that was removed does not, with the next login.
    """

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._blobs: frozenset[bytes] = frozenset()
        self._learned_at: float | None = None
        self._question: asyncio.Future[None] | None = None

    def learn(self, lines: Iterable[str]) -> None:
        self._blobs = frozenset(filter(None, map(_blob, lines)))
        self.go_on()

    def go_on(self) -> None:
        """Without news: what is known holds."""
        self._learned_at = time.monotonic()
        if self._question is not None and not self._question.done():
            self._question.set_result(None)

    async def allows(self, blob: bytes) -> bool:
        if not self._is_fresh():
            await self._refresh()
        return blob in self._blobs

    def _is_fresh(self) -> bool:
        learned_at = self._learned_at
        return learned_at is not None and time.monotonic() - learned_at < _FRESH_SECONDS

    async def _refresh(self) -> None:
        """Everybody who knocks meanwhile waits for the one question."""
        if self._question is None or self._question.done():
            self._question = asyncio.get_running_loop().create_future()
            self._ask()
        try:
            await asyncio.wait_for(asyncio.shield(self._question), _ANSWER_SECONDS)
        except TimeoutError:
            _LOG.warning("ssh_keys_not_refreshed", extra={"known": len(self._blobs)})


def _blob(line: str) -> bytes | None:
    """The key itself in a line of an authorized_keys file; None if there is none."""
    words = line.split()
    if len(words) < 2:
        return None
    try:
        return base64.b64decode(words[1], validate=True)
    except binascii.Error:
        return None
