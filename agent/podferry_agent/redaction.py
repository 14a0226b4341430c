"""Keeps tokens, presigned URLs and the pod's secrets out of all that the agent logs or reports."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_RULES = (
    # Boot tokens, machine tokens and API keys all look like prefix_id_secret.
    (re.compile(r"\bpf[bm]?_[A-Za-z0-9_]+_[A-Za-z0-9_-]{16,}"), "<token>"),
    # A presigned URL is a key: what makes it one is its query.
    (re.compile(r"(https?://[^\s?\"'<>]+)\?[^\s\"'<>]+"), r"\1?<query>"),
    (re.compile(r"\bX-Amz-[A-Za-z-]+=[^&\s\"'<>]+"), "X-Amz-<query>"),
    # The pod's host key passes through here. What is cut off has no last line.
    (re.compile(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*-----|\Z)"), "<key>"),
)
_SHORTEST = 8
"""Characters: a line of a secret that is shorter, such as a brace, says nothing."""
LONGEST_SECRET = 16_384
_MARK = "<secret>"


class _Hidden:
    """The texts that were learnt; they only become more, because old output may come late."""

    def __init__(self) -> None:
        self.texts: tuple[bytes, ...] = ()
        self.pattern: re.Pattern[bytes] | None = None

    def add(self, texts: Iterable[str]) -> None:
        known = {*self.texts, *(text.encode() for text in texts)}
        # The longest first, or a secret that begins with another would be taken out in part.
        self.texts = tuple(sorted(known, key=len, reverse=True))
        self.pattern = re.compile(b"|".join(map(re.escape, self.texts))) if known else None


_hidden = _Hidden()


def hide(secrets: Iterable[str]) -> None:
    """From here on these texts, and each of their lines, are taken out as well."""
    lines = (line for secret in secrets for line in (secret, *secret.splitlines()))
    _hidden.add(line for line in lines if len(line) >= _SHORTEST)


def redact(text: str) -> str:
    if _hidden.pattern is not None:
        raw = text.encode(errors="surrogateescape")
        text = _hidden.pattern.sub(_MARK.encode(), raw).decode(errors="surrogateescape")
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


@dataclass(slots=True)
class SecretFilter:
    """Takes secrets out of a program's output, which comes in pieces that may cut one in two."""

    _held: bytes = field(default=b"", repr=False)

    def feed(self, data: bytes) -> bytes:
        """What can go out; an end that may be the beginning of a secret is held back."""
        if _hidden.pattern is None:
            return data
        data, self._held = self._held + data, b""
        out, done = bytearray(), 0
        safe = len(data) - _longest_beginning(data)
        for found in _hidden.pattern.finditer(data):
            if found.start() >= safe:
                break
            out += data[done : found.start()] + _MARK.encode()
            done = found.end()
        safe = max(safe, done)
        self._held = data[safe:]
        return bytes(out + data[done:safe])

    def end(self) -> bytes:
        """What was held back, when nothing more can come."""
        held, self._held = self._held, b""
        return held if _hidden.pattern is None else _hidden.pattern.sub(_MARK.encode(), held)


def _longest_beginning(data: bytes) -> int:
    """How many bytes at the end may go on to be a secret."""
    return max((_overlap(data, text) for text in _hidden.texts), default=0)


def _overlap(data: bytes, text: bytes) -> int:
    at = data.find(text[:1], max(0, len(data) - len(text) + 1))
    while at >= 0:
        if text.startswith(data[at:]):
            return len(data) - at
        at = data.find(text[:1], at + 1)
    return 0
