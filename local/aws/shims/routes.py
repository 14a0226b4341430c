"""Routes of HTTP APIs whose path variables hold a line break.

MiniStack matches `{name}` with a pattern in which a dot is any character but a line break, so a
request for `/v1/pods/a%0Ab` met no route and never reached the function that has to answer it.
"""

from typing import Any

from ministack.services import apigateway

from local.aws.shims import guard

_STAND_IN = "\ue00a"
"""A private-use character that no path of ours holds."""


def apply() -> None:
    """Matches with a stand-in for each line break."""
    original = guard.take(apigateway, "_extract_path_params")

    def extract(route_path: str, request_path: str) -> Any:
        found = original(route_path, request_path.replace("\n", _STAND_IN))
        if found is None:
            return None
        return {name: value.replace(_STAND_IN, "\n") for name, value in found.items()}

    guard.replace(apigateway, "_extract_path_params", extract)
