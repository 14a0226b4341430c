"""Puts the app together: context, stacks, reviews."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App

from infra.build_layers import stage_podferry_layer
from infra.catalog import FUNCTIONS, WORKFLOWS
from infra.control_stack import ControlStack
from infra.errors import ContextInvalidError
from infra.review import add_reviews
from infra.sources import Sources, Target
from infra.state_stack import StateStack

STATE_STACK = "PodferryState"
CONTROL_STACK = "PodferryControl"


def make_app(sources: Sources, outdir: Path | None, context: Mapping[str, Any]) -> App:
    """The app, ready to `synth()`. `outdir` is `None` under the CDK CLI, which names its own.

    Raises:
        SourcesIncompleteError: something is not written or not built.
        ContextInvalidError: an unknown `target`.
    """
    app = App(
        outdir=None if outdir is None else str(outdir),
        context=dict(context),
        analytics_reporting=False,
    )
    target = _target_of(app)
    sources.require_written(
        tuple(spec.name for spec in FUNCTIONS), tuple(spec.name for spec in WORKFLOWS)
    )
    stage_podferry_layer(sources)
    sources.require_built(target)
    state = StateStack(app, STATE_STACK)
    control = ControlStack(app, CONTROL_STACK, state=state.names, sources=sources, target=target)
    control.add_stack_dependency(state, "imports its exports")
    add_reviews(app)
    return app


def context_of(cdk_json: Path) -> dict[str, Any]:
    """The context of `cdk.json`, which the CDK CLI would pass; without it, synth would differ."""
    return dict(json.loads(cdk_json.read_text()).get("context", {}))


def parse_context(pairs: list[str]) -> dict[str, str]:
    """`["target=local"]` as a mapping.

    Raises:
        ContextInvalidError: a pair without `=`.
    """
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise ContextInvalidError(f"context has the form key=value, not {wrong[0]!r}")
    return dict(pair.split("=", 1) for pair in pairs)


def _target_of(app: App) -> Target:
    given = app.node.try_get_context("target") or Target.LAMBDA
    try:
        return Target(given)
    except ValueError as error:
        known = ", ".join(Target)
        raise ContextInvalidError(f"context target={given!r} is none of: {known}") from error
