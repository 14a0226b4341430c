"""Every minute while anything runs, and daily: idle pods, lost machines, ghosts, maintenance."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from podferry.bootstrap import application
from podferry.steps.rounds import sweep

logger = Logger()


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, int]:
    """One round."""
    outcome = sweep(application(), event)
    logger.info("swept", extra=outcome)
    return outcome
