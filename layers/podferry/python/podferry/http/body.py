"""Bodies are checked before anything else looks at them: size, type, encoding, JSON, depth."""

import base64
import binascii
import json
from typing import Any, NoReturn

from podferry.domain.errors import FieldProblem, InvalidRequestError
from podferry.http.refusals import BodyTooLargeError, MediaTypeError

DEPTH_LIMIT = 20
METHODS_WITH_BODY = frozenset({"POST", "PATCH", "PUT"})

Event = dict[str, Any]


def with_checked_body(event: Event, limit_bytes: int) -> Event:
    """The event with its body as plain text that holds one JSON object; `{}` if it had none.

    Bodies of methods that take none mean nothing (RFC 9110) and are left out.

    Raises:
        BodyTooLargeError, MediaTypeError, InvalidRequestError.
    """
    takes_body = event["requestContext"]["http"]["method"] in METHODS_WITH_BODY
    raw = _bytes(event, limit_bytes) if takes_body else b""
    if not raw:
        return {**event, "body": "{}", "isBase64Encoded": False}
    _check_media_type(event)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _invalid(f"byte {error.start} is not UTF-8") from error
    _check_depth(_parse(text))
    return {**event, "body": text, "isBase64Encoded": False}


def read_json(text: str | bytes) -> Any:
    """JSON as JSON Schema sees it: `29.0` is the integer 29."""
    return json.loads(text, parse_float=_number)


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _bytes(event: Event, limit_bytes: int) -> bytes:
    text = event.get("body") or ""
    if len(text) > 2 * limit_bytes:
        raise _too_large(limit_bytes)
    if event.get("isBase64Encoded"):
        try:
            raw = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise _invalid("the body did not arrive whole") from error
    else:
        raw = text.encode("utf-8", "surrogatepass")
    if len(raw) > limit_bytes:
        raise _too_large(limit_bytes)
    return raw


def _check_media_type(event: Event) -> None:
    headers = event.get("headers") or {}
    declared = next((v for k, v in headers.items() if k.lower() == "content-type"), "")
    media_type, *parameters = (part.strip().lower() for part in declared.split(";"))
    charsets = {p.partition("=")[2].strip('"') for p in parameters if p.startswith("charset=")}
    if media_type != "application/json" or not charsets <= {"utf-8", "utf8"}:
        raise MediaTypeError("send the body as JSON in UTF-8, with Content-Type: application/json")


def _parse(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise _invalid(f"not JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        # Python refuses to read integers of thousands of digits.
        raise _invalid("a number has too many digits") from error
    if not isinstance(value, dict):
        raise _invalid("the body has to be a JSON object: {...}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Which of two equal names counts differs between parsers, so neither does."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _invalid("a name stands twice in the same object")
    return value


def _no_constant(name: str) -> NoReturn:
    raise _invalid(f"{name} is not JSON")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
    raise _too_deep()


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _too_large(limit_bytes: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"the body has more than {limit_bytes} bytes")


def _too_deep() -> InvalidRequestError:
    return _invalid(f"objects and lists are nested deeper than {DEPTH_LIMIT} levels")


def _invalid(problem: str) -> InvalidRequestError:
    return InvalidRequestError("the body cannot be read", fields=(FieldProblem("body", problem),))
