"""CORS of HTTP APIs that a template made.

MiniStack stores `CorsConfiguration` as the template spells it (`AllowOrigins`) but reads
`allowOrigins`, so every preflight request got 403.
"""

from typing import Any

from ministack.services import apigateway

from local.aws.shims import guard


def apply() -> None:
    """Lets both spellings count."""
    for name in ("_cors_response_headers", "_cors_preflight_response"):
        guard.replace(apigateway, name, _with_lower_keys(guard.take(apigateway, name)))


def _with_lower_keys(original: Any) -> Any:
    def respond(configuration: dict[str, Any] | None, origin: str) -> Any:
        lower = {key[:1].lower() + key[1:]: value for key, value in (configuration or {}).items()}
        return original(lower, origin)

    return respond
