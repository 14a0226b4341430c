"""Keeps tokens and presigned URLs out of everything the agent logs or reports."""

import re

_RULES = (
    # Boot tokens, machine tokens and API keys all look like prefix_id_secret.
    (re.compile(r"\bpf[bm]?_[A-Za-z0-9_]+_[A-Za-z0-9_-]{16,}"), "<token>"),
    # A presigned URL is a key: what makes it one is its query.
    (re.compile(r"(https?://[^\s?\"'<>]+)\?[^\s\"'<>]+"), r"\1?<query>"),
    (re.compile(r"\bX-Amz-[A-Za-z-]+=[^&\s\"'<>]+"), "X-Amz-<query>"),
    # The pod's host key passes through here. What is cut off has no last line.
    (re.compile(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*-----|\Z)"), "<key>"),
)


def redact(text: str) -> str:
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
