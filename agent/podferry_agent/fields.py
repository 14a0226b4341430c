"""Reads fields out of JSON with errors that say what is wrong where."""

import base64
import binascii

from podferry_agent.errors import WireError


class Fields:
    """One JSON object of a message. Unknown fields are ignored: the other side may be newer."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise WireError(f"{where} must be an object, not {_kind(value)}")
        self._values: dict[str, object] = value
        self._where = where

    def text(self, name: str) -> str:
        value = self._values.get(name)
        if not isinstance(value, str) or not value:
            raise self._wrong(name, "a non-empty string")
        return value

    def optional_text(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "a string or null")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        value = self._values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, "an integer")
        return value

    def optional_integer(self, name: str) -> int | None:
        return None if self._values.get(name) is None else self.integer(name)

    def number(self, name: str) -> float:
        value = self._values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, "a number")
        return float(value)

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._values.get(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self._values.get(name)
        if not isinstance(value, str) or value not in allowed:
            raise self._wrong(name, f"one of {', '.join(allowed)}")
        return value

    def binary(self, name: str) -> bytes:
        try:
            return base64.b64decode(self.text(name), validate=True)
        except binascii.Error as error:
            raise self._wrong(name, "base64") from error

    def optional_binary(self, name: str) -> bytes | None:
        return self.binary(name) if self._values.get(name) else None

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._values.get(name) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, "a list of strings")
        return tuple(value)

    def text_map(self, name: str) -> dict[str, str]:
        value = self._values.get(name) or {}
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise self._wrong(name, "an object of strings")
        return value

    def objects(self, name: str) -> list["Fields"]:
        value = self._values.get(name) or []
        if not isinstance(value, list):
            raise self._wrong(name, "a list of objects")
        return [Fields(item, f"{self._where}.{name}[{i}]") for i, item in enumerate(value)]

    def optional_object(self, name: str) -> "Fields | None":
        value = self._values.get(name)
        return None if value is None else Fields(value, f"{self._where}.{name}")

    def mapping(self, name: str) -> dict[str, object]:
        value = self._values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return dict(value or {})

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def _wrong(self, name: str, expected: str) -> WireError:
        found = _kind(self._values.get(name)) if name in self._values else "missing"
        return WireError(f"{self._where}.{name} must be {expected}, but is {found}")


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
