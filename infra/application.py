"""Puts the app together: stacks and reviews."""

from pathlib import Path

from aws_cdk import App

from infra.context import Context, target_of
from infra.control_stack import ControlStack
from infra.review import add_reviews
from infra.sources import Sources
from infra.state_stack import StateStack

STATE_STACK = "PodferryState"
CONTROL_STACK = "PodferryControl"


def make_app(sources: Sources, outdir: Path | None, context: Context) -> App:
    """The app, ready to `synth()`; the sources are prepared.

    `outdir` is `None` under the CDK CLI, which names a directory of its own.

    Raises:
        ContextInvalidError: an unknown target.
    """
    app = App(
        outdir=None if outdir is None else str(outdir),
        context=dict(context),
        analytics_reporting=False,
    )
    state = StateStack(app, STATE_STACK)
    control = ControlStack(
        app, CONTROL_STACK, state=state.names, sources=sources, target=target_of(context)
    )
    control.add_stack_dependency(state, "imports its exports")
    add_reviews(app)
    return app
