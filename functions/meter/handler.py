"""Scheduled while anything runs or is not metered to its end: charge what machines cost."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from podferry.bootstrap import application

logger = Logger()


@logger.inject_lambda_context(clear_state=True)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, int]:
    """One round."""
    outcome = application().run_meters.run()
    logger.info("metered", extra=outcome)
    return outcome
