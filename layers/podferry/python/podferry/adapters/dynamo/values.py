"""Typed values as DynamoDB attributes, driven by the type hints of the dataclasses."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from podferry.adapters.dynamo.attributes import (
    Attribute,
    UnstorableError,
    decode_json,
    decode_name,
    encode_json,
    encode_map,
    encode_number,
    encode_text,
)


@dataclass(frozen=True, slots=True)
class Codec:
    """How values of one type are written and read."""

    encode: Callable[[Any], Attribute]
    decode: Callable[[Attribute], Any]


def codec_of(hint: Any) -> Codec:
    """The codec for a type hint; raises `TypeError` for hints that no stored class may use."""
    return _build(hint)


@cache
def _build(hint: Any) -> Codec:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return _optional(hint)
    if origin in {tuple, list}:
        return _sequence(hint, origin)
    if origin is dict and get_args(hint)[0] is str:
        return _mapping(codec_of(get_args(hint)[1]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint)
    raise TypeError(f"no way to store {hint}; add it to {__name__} together with a test")


def _plain(kind: type, encode: Callable[[Any], Attribute]) -> Codec:
    # A bool is an int to Python but not to a reader of the row, so the class has to be exact.
    def checked(value: Any) -> Attribute:
        if type(value) is not kind:
            raise UnstorableError(f"{value!r} is not {kind.__name__}")
        return encode(value)

    def read(attribute: Attribute) -> Any:
        value = decode_json(attribute)
        if type(value) is not kind:
            raise UnstorableError(f"{value!r} is stored where {kind.__name__} is expected")
        return value

    return Codec(checked, read)


def _encode_text(value: Any) -> Attribute:
    if not isinstance(value, str):
        raise UnstorableError(f"{value!r} is not text")
    return encode_text(value)


def _decode_text(attribute: Attribute) -> str:
    value = decode_json(attribute)
    if not isinstance(value, str):
        raise UnstorableError(f"{value!r} is stored where text is expected")
    return value


def _encode_number(value: Any) -> Attribute:
    """A field of type float may hold an int, which comes back as an int."""
    if type(value) is not int and type(value) is not float:
        raise UnstorableError(f"{value!r} is not a number")
    return encode_number(value)


def _decode_number(attribute: Attribute) -> float:
    value = decode_json(attribute)
    if type(value) is int or type(value) is float:
        return value
    raise UnstorableError(f"{value!r} is stored where a number is expected")


def _encode_time(value: Any) -> Attribute:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise UnstorableError(f"{value!r} is not a time with a time zone")
    return {"S": value.astimezone(UTC).isoformat(timespec="microseconds")}


def _decode_time(attribute: Attribute) -> datetime:
    text = _decode_text(attribute)
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise UnstorableError(f"{text!r} is stored where a time is expected") from error


_PLAIN: dict[Any, Codec] = {
    Any: Codec(encode_json, decode_json),
    str: Codec(_encode_text, _decode_text),
    float: Codec(_encode_number, _decode_number),
    datetime: Codec(_encode_time, _decode_time),
    int: _plain(int, encode_number),
    bool: _plain(bool, lambda value: {"BOOL": value}),
}


def _optional(hint: Any) -> Codec:
    inner = [codec_of(kind) for kind in get_args(hint) if kind is not NoneType]
    if len(inner) != 1:
        raise TypeError(f"no way to store {hint}: only `X | None` can be told apart when read")
    codec = inner[0]
    return Codec(
        lambda value: {"NULL": True} if value is None else codec.encode(value),
        lambda attribute: None if "NULL" in attribute else codec.decode(attribute),
    )


def _sequence(hint: Any, kind: type[tuple[Any, ...]] | type[list[Any]]) -> Codec:
    element, *rest = get_args(hint)
    if kind is tuple and rest != [...]:
        raise TypeError(f"no way to store {hint}: use a dataclass or `tuple[X, ...]`")
    codec = codec_of(element)

    def encode(value: Any) -> Attribute:
        if not isinstance(value, kind):
            raise UnstorableError(f"{value!r} is not a {kind.__name__}")
        return {"L": [codec.encode(element) for element in value]}

    def decode(attribute: Attribute) -> Any:
        if "L" not in attribute:
            raise UnstorableError("something else is stored where a list is expected")
        return kind(codec.decode(element) for element in attribute["L"])

    return Codec(encode, decode)


def _mapping(codec: Codec) -> Codec:
    def encode(value: Any) -> Attribute:
        if not isinstance(value, dict):
            raise UnstorableError(f"{value!r} is not a dict")
        return encode_map(value, codec.encode)

    def decode(attribute: Attribute) -> dict[str, Any]:
        entries = _entries(attribute)
        return {decode_name(name): codec.decode(element) for name, element in entries.items()}

    return Codec(encode, decode)


def _enum(kind: type[Enum]) -> Codec:
    def encode(value: Any) -> Attribute:
        if not isinstance(value, kind):
            raise UnstorableError(f"{value!r} is not a {kind.__name__}")
        return encode_json(value.value)

    def decode(attribute: Attribute) -> Enum:
        value = decode_json(attribute)
        try:
            return kind(value)
        except ValueError as error:
            raise UnstorableError(f"{value!r} is no {kind.__name__} that we know") from error

    return Codec(encode, decode)


def _record(kind: type[Any]) -> Codec:
    members = tuple(_members(kind))

    def encode(value: Any) -> Attribute:
        if type(value) is not kind:
            raise UnstorableError(f"{value!r} is not a {kind.__name__}")
        return {"M": {m.name: m.encode(getattr(value, m.name)) for m in members}}

    def decode(attribute: Attribute) -> Any:
        # Entries that we do not know come from a newer version and are left alone.
        entries = _entries(attribute)
        present = (m for m in members if m.name in entries or m.is_required)
        return kind(**{m.name: m.decode(entries) for m in present})

    return Codec(encode, decode)


@dataclass(frozen=True, slots=True)
class _Member:
    """One field of a dataclass, with its name in every complaint."""

    name: str
    codec: Codec
    is_required: bool

    def encode(self, value: Any) -> Attribute:
        try:
            return self.codec.encode(value)
        except UnstorableError as error:
            raise error.under(self.name) from error

    def decode(self, entries: dict[str, Attribute]) -> Any:
        if self.name not in entries:
            raise UnstorableError("is missing", (self.name,))
        try:
            return self.codec.decode(entries[self.name])
        except UnstorableError as error:
            raise error.under(self.name) from error


def _members(kind: type[Any]) -> list[_Member]:
    hints = get_type_hints(kind)
    return [
        _Member(
            name=each.name,
            codec=codec_of(hints[each.name]),
            is_required=each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(kind)
    ]


def _entries(attribute: Attribute) -> dict[str, Attribute]:
    if "M" not in attribute:
        raise UnstorableError("something else is stored where a map is expected")
    entries: dict[str, Attribute] = attribute["M"]
    return entries
