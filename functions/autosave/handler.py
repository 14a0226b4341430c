"""Scheduled while anything runs: begin the saves that are due, tell of those that do not come."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from podferry.bootstrap import application

logger = Logger()


@logger.inject_lambda_context(clear_state=True)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, int]:
    """One round."""
    outcome = application().autosave.run()
    logger.info("saves looked after", extra=outcome)
    return outcome
