"""Rows of the table: exact, or refused."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podferry.adapters.dynamo.attributes import decode_json, encode_json, size_bytes
from podferry.adapters.dynamo.codec import ROW_LIMIT_BYTES, from_item, to_item
from podferry.adapters.dynamo.keys import Item
from podferry.adapters.dynamo.values import codec_of
from podferry.domain.entity import Entity
from podferry.domain.errors import InternalError
from podferry.domain.machine import Machine, PublicPort
from podferry.domain.pod import Pod
from podferry.domain.volume import Volume
from tests.contract.entities import a_machine, a_pod, a_volume
from tests.unit.adapters.strategies import JSON, entities, stored_classes

KINDS = pytest.mark.parametrize("kind", stored_classes(), ids=lambda kind: kind.__name__)


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same classes down to the last number."""
    return bool(one == other) and repr(one) == repr(other)


@KINDS
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_row_of_every_kind_comes_back_exactly(
    kind: type[Entity], data: st.DataObject
) -> None:
    entity = data.draw(entities(kind))

    found = from_item(kind, to_item(entity, entity.revision))

    assert found == entity


@given(value=JSON)
@settings(max_examples=200, deadline=None)
def test_json_comes_back_exactly(value: Any) -> None:
    assert same(decode_json(encode_json(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        1,
        1.0,
        -0.0,
        0.1,
        5e-324,
        1.7976931348623157e308,
        math.inf,
        True,
        10**38,
        10**38 - 1,
        -(10**100),
        "",
        "a\ud800b",
        "\x00",
        {"$float": {"S": "1"}},
        {"$float": "1"},
        {"$$": 1, "$": 2, "": 3},
        [[], {}, [None]],
    ],
)
def test_values_that_dynamodb_would_change_come_back_exactly(value: Any) -> None:
    assert same(decode_json(encode_json(value)), value)


def test_not_a_number_comes_back_as_such() -> None:
    assert math.isnan(decode_json(encode_json(math.nan)))


def test_tuples_and_words_in_json_become_what_json_makes_of_them() -> None:
    encoded = encode_json({"paths": ("a", "b"), "state": a_pod().state})

    assert decode_json(encoded) == {"paths": ["a", "b"], "state": "running"}


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, "facts.at: a datetime"),
        ({"deep": [{"x": {1, 2}}]}, "facts.deep.x: a set"),
        ({"volume": a_volume()}, "facts.volume: a Volume"),
        ({"body": b"x"}, "facts.body: a bytes"),
        ({7: "x"}, "facts: names have to be text"),
        ({"\ud800": 1}, "facts: the name"),
    ],
)
def test_what_is_not_json_is_refused_and_named(value: dict[str, Any], where: str) -> None:
    machine = a_machine(facts=value)

    with pytest.raises(InternalError, match=f"Machine {machine.id} cannot be stored: {where}"):
        to_item(machine, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"created_at": datetime(2026, 1, 1)},  # noqa: DTZ001 - that is what is wrong with it
        {"name": 7},
        {"epoch": True},
        {"epoch": 1.0},
        {"epoch": "1"},
        {"lease": {"pod_id": "pod_1", "machine_id": None}},
        {"lease": a_pod()},
    ],
)
def test_a_field_of_another_type_is_refused_and_named(changes: dict[str, Any]) -> None:
    (field,) = changes

    with pytest.raises(InternalError, match=f"cannot be stored: {field}: "):
        to_item(a_volume(**changes), 0)


def test_a_path_leads_to_what_cannot_be_stored() -> None:
    pod = a_pod()
    wrong: Any = {"A": 1}

    with pytest.raises(InternalError, match=r"spec\.environment\.A: 1 is not text"):
        to_item(replace(pod, spec=replace(pod.spec, environment=wrong)), 0)


def data_of(item: Item) -> dict[str, Any]:
    entries: dict[str, Any] = item["data"]["M"]
    return entries


def test_what_a_newer_version_added_is_left_alone() -> None:
    volume = a_volume()
    item = to_item(volume, 0)
    item["colour"] = {"S": "red"}
    data_of(item)["colour"] = {"S": "red"}
    data_of(item)["lease"]["M"]["colour"] = {"SS": ["red"]}

    assert from_item(Volume, item) == volume


def test_what_an_older_version_did_not_know_has_its_default() -> None:
    item = to_item(a_volume(), 0)
    del data_of(item)["size_bytes"]
    del data_of(item)["lease"]

    found = from_item(Volume, item)

    assert (found.size_bytes, found.lease) == (0, None)


@pytest.mark.parametrize("name", ["name", "created_at", "id"])
def test_a_row_that_lacks_what_is_required_is_an_error_that_names_it(name: str) -> None:
    item = to_item(a_volume(), 0)
    del data_of(item)[name]

    with pytest.raises(InternalError, match=f"cannot be read.*: {name}: is missing"):
        from_item(Volume, item)


def test_a_missing_value_inside_is_named_with_its_path() -> None:
    item = to_item(a_machine(), 0)
    del data_of(item)["offer"]["M"]["billing"]["M"]["increment_seconds"]

    with pytest.raises(InternalError, match=r"offer\.billing\.increment_seconds: is missing"):
        from_item(Machine, item)


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        ({"S": "flying"}, "'flying' is no PodState that we know"),
        ({"N": "1"}, "1 is no PodState that we know"),
        ({"SS": ["running"]}, "form SS"),
    ],
)
def test_a_word_that_this_version_does_not_know_is_an_error(
    attribute: dict[str, Any], problem: str
) -> None:
    item = to_item(a_pod(), 0)
    data_of(item)["state"] = attribute

    with pytest.raises(InternalError, match=f"state: .*{problem}"):
        from_item(Pod, item)


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("name", {"N": "1"}),
        ("created_at", {"S": "yesterday"}),
        ("spec", {"S": "x"}),
        ("capture_rules", {"M": {}}),
        ("environment_head", {"BOOL": True}),
    ],
)
def test_a_stored_value_of_another_type_is_an_error(name: str, attribute: dict[str, Any]) -> None:
    item = to_item(a_pod(), 0)
    data_of(item)[name] = attribute

    with pytest.raises(InternalError, match=f"cannot be read.*: {name}: "):
        from_item(Pod, item)


def test_a_row_may_be_as_large_as_dynamodb_takes_and_no_larger() -> None:
    rest = size_bytes({"M": to_item(a_volume(name=""), 0)})
    room = ROW_LIMIT_BYTES - rest

    to_item(a_volume(name="x" * room), 0)
    with pytest.raises(InternalError, match=f"takes {ROW_LIMIT_BYTES + 1} bytes"):
        to_item(a_volume(name="x" * (room + 1)), 0)


def test_values_may_be_nested_as_deep_as_dynamodb_takes_and_no_deeper() -> None:
    def nested(levels: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for _ in range(levels):
            value = {"in": value}
        return value

    to_item(a_machine(facts=nested(29)), 0)
    with pytest.raises(InternalError, match="deeper than 32 levels"):
        to_item(a_machine(facts=nested(30)), 0)


@pytest.mark.parametrize("hint", [set[str], tuple[int, str], int | str, bytes, dict[int, str]])
def test_a_type_without_a_way_to_store_it_is_refused_at_first_use(hint: Any) -> None:
    with pytest.raises(TypeError, match="no way to store"):
        codec_of(hint)


def test_nested_classes_and_maps_of_them_have_codecs() -> None:
    ports = {"ssh": (PublicPort(internal=22, host="203.0.113.1", external=40022),), "$": ()}
    codec = codec_of(dict[str, tuple[PublicPort, ...]])

    assert codec.decode(codec.encode(ports)) == ports
