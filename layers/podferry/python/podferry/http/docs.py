"""`/docs`: Swagger UI, built once for each function instance; `/openapi.json`; `/` leads there.

The page is one file with script and style inside (from the Powertools package), so that nothing
is loaded from elsewhere.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from aws_lambda_powertools.event_handler.openapi.swagger_ui.html import generate_swagger_html

from podferry.http.methods import refusal_for
from podferry.http.openapi import rendered
from podferry.http.problem import problem_response

PAGES = {"/": ("GET",), "/docs": ("GET",), "/openapi.json": ("GET",)}
_UI = "aws_lambda_powertools.event_handler.openapi.swagger_ui"
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'"
)


def serve(event: dict[str, Any]) -> dict[str, Any]:
    """Answer an HTTP API event (payload format 2.0)."""
    path = event.get("rawPath") or "/"
    http = event["requestContext"]["http"]
    if http["method"] not in PAGES.get(path, ()):
        refusal = refusal_for(PAGES, http["method"], path)
        response = problem_response(refusal, event["requestContext"].get("requestId", ""))
        return _answer(response.status_code, response.body or "", response.headers)
    match path:
        case "/docs":
            headers = {"Content-Type": "text/html; charset=utf-8"}
            return _answer(200, page(), {**headers, "Content-Security-Policy": _POLICY})
        case "/openapi.json":
            return _answer(200, description(), {"Content-Type": "application/json"})
        case _:
            return _answer(302, "", {"Location": "/docs"})


@cache
def description() -> str:
    """The API's description, made from the routes of this very version."""
    return rendered()


@cache
def page() -> str:
    """The whole page."""
    assets = files(_UI)
    compact = json.dumps(json.loads(description()), separators=(",", ":"))
    return generate_swagger_html(
        spec=compact.replace("</", "<\\/"),
        swagger_js=assets.joinpath("swagger-ui-bundle.min.js").read_text(encoding="utf-8"),
        swagger_css=assets.joinpath("swagger-ui.min.css").read_text(encoding="utf-8"),
        swagger_base_url="",
        oauth2_config=None,
    )


def _answer(status: int, body: str, headers: dict[str, Any]) -> dict[str, Any]:
    return {"statusCode": status, "headers": headers, "body": body, "isBase64Encoded": False}
