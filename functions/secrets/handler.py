"""Secrets of accounts; alone in writing and deleting them."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from podferry.bootstrap import application
from podferry.http.surfaces import secrets_front

logger = Logger()
front = secrets_front()


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    return front.answer(event, context, application())
