"""Values as DynamoDB attributes, exactly: what goes in comes out, or the write is refused.

DynamoDB keeps less than Python does: numbers have 38 digits and no difference between 1 and 1.0,
text has to be valid Unicode, names of map entries must not be empty. What does not fit is kept
under a one-entry map whose name starts with `$`; names of our own that start so are escaped.
"""

from collections.abc import Callable, Mapping
from typing import Any

Attribute = dict[str, Any]
"""One value in DynamoDB's form, for example `{"S": "text"}`."""

FLOAT = "$float"
INTEGER = "$integer"
TEXT = "$text"
_ESCAPE = "$"
_LARGEST = 10**38 - 1


class UnstorableError(ValueError):
    """A value that cannot be stored, or an attribute that cannot be read as what it should be."""

    def __init__(self, problem: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path

    def under(self, name: str) -> "UnstorableError":
        """The same problem, seen from the value that contains it."""
        return UnstorableError(self.problem, (name, *self.path))


def encode_text(value: str) -> Attribute:
    try:
        value.encode()
    except UnicodeEncodeError:
        # Names of files that are not UTF-8 reach us as lone surrogates.
        return {"M": {TEXT: {"B": value.encode(errors="surrogatepass")}}}
    return {"S": str(value)}


def encode_number(value: int | float) -> Attribute:  # noqa: PYI041 - they are kept apart
    if isinstance(value, float):
        return {"M": {FLOAT: {"S": repr(value)}}}
    if abs(value) > _LARGEST:
        return {"M": {INTEGER: {"S": str(value)}}}
    return {"N": str(value)}


def encode_name(name: str) -> str:
    return f"{_ESCAPE}{name}" if not name or name.startswith(_ESCAPE) else str(name)


def decode_name(name: str) -> str:
    return name.removeprefix(_ESCAPE)


def encode_json(value: Any) -> Attribute:
    """A JSON value; tuples count as lists and enums of strings as strings."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return encode_text(value)
        case int() | float():
            return encode_number(value)
        case list() | tuple():
            return {"L": [encode_json(element) for element in value]}
        case dict():
            return encode_map(value, encode_json)
    raise UnstorableError(f"a {type(value).__name__} is not a JSON value")


def encode_map(value: Mapping[str, Any], encode: Callable[[Any], Attribute]) -> Attribute:
    entries = {}
    for name, element in value.items():
        if "S" not in encode_text(_text(name)):
            raise UnstorableError(f"the name {name!r} is not valid Unicode")
        try:
            entries[encode_name(name)] = encode(element)
        except UnstorableError as error:
            raise error.under(name) from error
    return {"M": entries}


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise UnstorableError(f"names have to be text, {name!r} is not")
    return name


def decode_json(attribute: Attribute) -> Any:
    """The opposite of every `encode_*` above."""
    ((form, content),) = attribute.items()
    match form:
        case "NULL":
            return None
        case "BOOL" | "S":
            return content
        case "N":
            return int(content)
        case "L":
            return [decode_json(element) for element in content]
        case "M":
            return _decode_map(content)
    raise UnstorableError(f"attributes of form {form} are never written by us")


def _decode_map(entries: dict[str, Attribute]) -> Any:
    if len(entries) == 1:
        ((name, attribute),) = entries.items()
        if name in _READERS:
            return _READERS[name](attribute)
    return {decode_name(name): decode_json(element) for name, element in entries.items()}


_READERS: dict[str, Callable[[Attribute], Any]] = {
    FLOAT: lambda attribute: float(attribute["S"]),
    INTEGER: lambda attribute: int(attribute["S"]),
    TEXT: lambda attribute: bytes(attribute["B"]).decode(errors="surrogatepass"),
}


def size_bytes(attribute: Attribute) -> int:
    """What the attribute counts towards DynamoDB's limit of a row, never less than it does."""
    ((form, content),) = attribute.items()
    match form:
        case "S":
            return len(content.encode())
        case "N" | "B":
            return len(content)
        case "L":
            return 3 + sum(1 + size_bytes(element) for element in content)
        case "M":
            return 3 + sum(
                1 + len(name.encode()) + size_bytes(element) for name, element in content.items()
            )
    return 1


def depth(attribute: Attribute) -> int:
    """How deep maps and lists are nested in it; DynamoDB takes 32 levels."""
    ((form, content),) = attribute.items()
    if form not in {"L", "M"}:
        return 0
    children = content if form == "L" else content.values()
    return 1 + max((depth(child) for child in children), default=0)
