"""Say who a request's token belongs to; the functions behind it refuse for themselves."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from podferry.bootstrap import application
from podferry.http.identity import authorize

logger = Logger()


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Answer the gateway's question about one request."""
    return authorize(event, application().identify)
