"""Once a day: delete what no snapshot needs any more, as far as the time of one call goes."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from podferry.bootstrap import application

logger = Logger()

NOTE_MILLISECONDS = 60_000
"""Enough to end the page that is at work and to note how far it went."""


@logger.inject_lambda_context(clear_state=True)
def handler(_event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """One run of the collector; the next one goes on where it ends."""
    outcome = application().collect_garbage.run(
        lambda: context.get_remaining_time_in_millis() > NOTE_MILLISECONDS
    )
    logger.info("garbage collected", extra=outcome)
    return outcome
