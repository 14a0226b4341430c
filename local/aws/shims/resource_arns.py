"""The ARNs that permissions are checked against.

MiniStack checks a rule of the default event bus as `rule/default/NAME` (AWS: `rule/NAME`), and the
answer to a task token against `*` (AWS: the state machine that waits), so grants that are right on
AWS are refused.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

import json
from typing import Any

from ministack.core import iam_actions
from ministack.services import stepfunctions

from local.aws.shims import guard, task_tokens


def apply() -> None:
    """Corrects both."""
    original = guard.take(iam_actions, "extract_resource_arn")
    guard.take(stepfunctions, "_state_machines")

    def extract(
        service: str, method: str, path: str, headers: Any, body: Any, *args: Any, **kwargs: Any
    ) -> Any:
        arn = original(service, method, path, headers, body, *args, **kwargs)
        if service == "events" and isinstance(arn, str):
            return arn.replace(":rule/default/", ":rule/")
        if service == "states" and arn == "*":
            return _waiting_machine(body) or arn
        return arn

    guard.replace(iam_actions, "extract_resource_arn", extract)


def _waiting_machine(body: bytes) -> str | None:
    """A token that nobody waits for counts as any machine's: its holder gets the real error."""
    try:
        token = json.loads(body or b"{}").get("taskToken")
    except ValueError:
        return None
    if not token:
        return None
    return task_tokens.machine_of(token) or next(iter(stepfunctions._state_machines), None)
