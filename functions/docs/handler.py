"""The API's description, for people and programs. Touches nothing, so it needs no permission."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from podferry.http.docs import serve


def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Answer one request."""
    return serve(event)
