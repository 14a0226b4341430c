"""Keeps secrets out of what providers' answers leave behind in errors and logs (case X5)."""

import re

from pydantic import ValidationError

_LONGEST = 300
_RULES = (
    # A signed URL is a right to read; its path is harmless.
    (re.compile(r"(https?://[^\s\"'?]+)\?[^\s\"']+"), r"\1?[removed]"),
    (re.compile(r"\bpf[a-z]?_[A-Za-z0-9_.\-]{8,}"), "[removed]"),
    (re.compile(r"(?i)\b(bearer|x-api-key:?)\s+\S+"), r"\1 [removed]"),
    (re.compile(r"[A-Za-z0-9+/_\-]{32,}={0,2}"), "[removed]"),
)


def scrub(text: str, *secrets: str) -> str:
    """`text` on one line, cut short, without `secrets` and without what looks like one."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "[removed]")
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def wrong_places(error: ValidationError) -> str:
    """Where a text does not have its form, without what stands there: it may be a key."""
    places = {".".join(map(str, problem["loc"])) or "text" for problem in error.errors()}
    return ", ".join(sorted(places))
