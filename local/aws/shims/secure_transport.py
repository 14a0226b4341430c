"""Loopback counts as a secure connection.

Buckets deny requests without TLS (`aws:SecureTransport`). MiniStack serves plain HTTP here, so
under AUTH every such bucket would refuse everything.
"""

from typing import Any

from ministack.core import iam_evaluator

from local.aws.shims import guard


def apply() -> None:
    """Answers `true` for `aws:SecureTransport`."""
    original = guard.take(iam_evaluator, "_resolve_condition_key")

    def resolve(key: str, context: Any) -> Any:
        return "true" if key.lower() == "aws:securetransport" else original(key, context)

    guard.replace(iam_evaluator, "_resolve_condition_key", resolve)
