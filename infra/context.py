"""What a synth is told: `cdk.json`, the CDK CLI and `-c key=value`, the last word winning."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.errors import ContextInvalidError
from infra.sources import Target

# The CDK CLI hands its own context over in this variable.
FROM_CLI = "CDK_CONTEXT_JSON"

Context = Mapping[str, Any]


def read_context(cdk_json: Path, environment: Mapping[str, str], pairs: Sequence[str]) -> Context:
    """The context that the CDK CLI would pass, also when it is not there.

    Raises:
        ContextInvalidError: a pair that is not `key=value`.
    """
    written = json.loads(cdk_json.read_text()).get("context", {})
    from_cli = json.loads(environment.get(FROM_CLI, "{}"))
    return {**written, **from_cli, **_parsed(pairs)}


def target_of(context: Context) -> Target:
    """What the third-party layer is for.

    Raises:
        ContextInvalidError: an unknown target.
    """
    given = context.get("target", Target.LAMBDA)
    try:
        return Target(given)
    except ValueError as error:
        known = ", ".join(Target)
        raise ContextInvalidError(f"context target={given!r} is none of: {known}") from error


def _parsed(pairs: Sequence[str]) -> dict[str, str]:
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise ContextInvalidError(f"context has the form key=value, not {wrong[0]!r}")
    return dict(pair.split("=", 1) for pair in pairs)
