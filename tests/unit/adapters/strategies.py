"""Any value of any stored class, made from its type hints."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

import podferry.domain
import podferry.services
from podferry.domain.entity import Entity

TEXT = st.text(max_size=20)
# Names of files that are not UTF-8 arrive as lone surrogates.
SURROGATES = st.text(st.characters(categories=["Cs", "Ll"]), min_size=1, max_size=4)
NUMBERS = st.integers(-(10**45), 10**45) | st.floats(allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT | SURROGATES | st.sampled_from(["$float", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXT | st.sampled_from(["$float", "$text", "$", ""]), inner, max_size=3)
    ),
    max_leaves=8,
)
TIMES = st.datetimes(
    datetime(1970, 1, 2),  # noqa: DTZ001 - Hypothesis adds the zone
    datetime(9998, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    Any: JSON,
    str: TEXT | SURROGATES,
    int: st.integers(-(10**45), 10**45),
    bool: st.booleans(),
    float: NUMBERS,
    datetime: TIMES,
}


def stored_classes() -> list[type[Entity]]:
    """Every class of rows that we know."""
    for package in (podferry.domain, podferry.services):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    # A dataclass with slots is made twice; the first one is in no module.
    classes = [
        kind
        for kind in Entity.__subclasses__()
        if getattr(sys.modules[kind.__module__], kind.__name__, None) is kind
    ]
    return sorted(classes, key=lambda kind: kind.PREFIX)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values that a field of this type may hold."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is dict:
        names = TEXT | st.sampled_from(["$float", "$", ""])
        return st.dictionaries(names, values_of(arguments[1]), max_size=2)
    if NoneType in arguments:
        return st.none() | values_of(next(kind for kind in arguments if kind is not NoneType))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    assert is_dataclass(hint), hint
    return _records(hint)


def _records(kind: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{each.name: values_of(hints[each.name]) for each in fields(kind)})


def entities(kind: type[Entity]) -> st.SearchStrategy[Entity]:
    """Any row of the class."""
    hints = get_type_hints(kind)
    members = {each.name: values_of(hints[each.name]) for each in fields(kind)}
    identity = st.text("abcdefgh0123456789_", min_size=1, max_size=30)
    # What keys of the table are made of.
    keys = {name for name in members if name in {"id", "day"} or name.endswith("_id")}
    members |= dict.fromkeys(keys, identity)
    members["revision"] = st.integers(0, 10**9)
    return st.builds(kind, **members)
