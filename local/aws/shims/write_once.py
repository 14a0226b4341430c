"""The condition key `s3:if-none-match` of bucket policies.

Our buckets deny writes that could overwrite (`Null: {"s3:if-none-match": true}`). MiniStack does
not know the key, so such a policy would refuse every write.
"""

from typing import Any

from ministack.core import iam_actions

from local.aws.shims import guard


def apply() -> None:
    """Adds the key to the context of a write."""
    original = guard.take(iam_actions, "_s3_object_context")

    def context(
        action: str, query: dict[str, Any], path: str, headers: dict[str, str]
    ) -> dict[str, Any]:
        keys: dict[str, Any] = original(action, query, path, headers)
        if action == "s3:PutObject" and headers.get("if-none-match"):
            keys["s3:if-none-match"] = headers["if-none-match"]
        return keys

    guard.replace(iam_actions, "_s3_object_context", context)
