"""Turns a rule's pattern into a regular expression over the bytes of a path."""

import os
import re

from podferry_agent.snapshot.errors import InvalidRuleError


def pattern_to_regex(pattern: str) -> bytes:
    """Regex for `re.match` on a path; directories are given to it with a trailing slash.

    As in gitignore: a pattern without an inner slash matches a name at any depth, `*` and `?` stay
    within a name, `**` crosses slashes, a trailing slash asks for a directory, and what matches a
    directory matches everything in it.
    """
    raw = os.fsencode(pattern)
    if not raw or raw == b"/":
        raise InvalidRuleError(f"the pattern {pattern!r} names nothing; give a path such as /data")
    anchored = b"/" in raw.rstrip(b"/")
    head = b"/" if anchored else b"/(?:.*/)?"
    body = raw.lstrip(b"/")
    if body.endswith(b"/**"):
        return head + _translate(body[:-3], pattern) + b"/."
    if body.endswith(b"/"):
        return head + _translate(body.rstrip(b"/"), pattern) + b"/"
    return head + _translate(body, pattern) + rb"(?:/|\Z)"


def literal_prefix(pattern: str) -> bytes | None:
    """The directory part of a pattern before its first wildcard; None if it matches anywhere."""
    raw = os.fsencode(pattern)
    if b"/" not in raw.rstrip(b"/"):
        return None
    path = b"/" + raw.strip(b"/")
    literal = re.split(rb"[*?\[\\]", path, maxsplit=1)[0]
    return literal if literal == path else literal.rpartition(b"/")[0]


_STAR = re.compile(rb"\*\*/|\*+|\?|\[[!^]?\]?[^\]]*\]|\\.|.", re.DOTALL)


def _translate(body: bytes, pattern: str) -> bytes:
    return b"".join(_token(match.group(), pattern) for match in _STAR.finditer(body))


def _token(token: bytes, pattern: str) -> bytes:
    simple = {b"**/": b"(?:.*/)?", b"*": b"[^/]*", b"?": b"[^/]"}
    if token in simple:
        return simple[token]
    if token.startswith(b"**"):
        return b".*"
    if token.startswith(b"["):
        return _character_class(token, pattern)
    if token == b"\\":
        raise InvalidRuleError(f"the pattern {pattern!r} ends in a backslash; write \\\\ for one")
    return re.escape(token[1:] if token.startswith(b"\\") else token)


def _character_class(token: bytes, pattern: str) -> bytes:
    if token == b"[":
        raise InvalidRuleError(f"the pattern {pattern!r} has [ without ]; write \\[ for a bracket")
    inner = token[1:-1]
    negated = inner[:1] in (b"!", b"^")
    inner = inner[1:] if negated else inner
    safe = inner.replace(b"\\", b"\\\\").replace(b"[", b"\\[").replace(b"]", b"\\]")
    compiled = b"[^/" + safe + b"]" if negated else b"(?!/)[" + safe + b"]"
    try:
        re.compile(compiled)
    except re.error as error:
        raise InvalidRuleError(f"the pattern {pattern!r} has a bad class: {error}") from error
    return compiled
