"""Workflow steps; the permissions are those that the steps of this function need."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from podferry.bootstrap import application
from podferry.steps import dispatch

logger = Logger()


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Run one step; its errors go to the workflow by class name."""
    logger.append_keys(step=event.get("step"), operation_id=event.get("operation_id"))
    reply = dispatch(application(), "steps_sharing", event)
    logger.info("step done")
    return reply
