"""Keys: distinct for distinct rows, and what the indexes and the expiry are made of."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podferry.adapters.dynamo.cursor import decode_cursor, encode_cursor
from podferry.adapters.dynamo.keys import index_attributes, row_key
from podferry.domain.entity import Entity
from podferry.domain.errors import InternalError, InvalidRequestError
from podferry.domain.pod import PodState
from tests.contract.entities import NOW, a_command, a_pod
from tests.unit.adapters.strategies import stored_classes


def test_every_kind_has_a_prefix_of_its_own() -> None:
    prefixes = [kind.PREFIX for kind in stored_classes()]

    assert all(prefixes)
    assert len(set(prefixes)) == len(prefixes)
    assert not any("#" in prefix for prefix in prefixes)


def test_a_kind_without_prefix_cannot_be_stored() -> None:
    entity = Entity(id="x", account_id="acct_1", created_at=NOW)

    with pytest.raises(InternalError, match="PREFIX"):
        row_key(type(entity), entity.id)


def test_a_resting_row_is_in_no_index_of_active_rows() -> None:
    assert "active_pk" not in index_attributes(a_pod(state=PodState.STOPPED))
    assert index_attributes(a_pod(state=PodState.RUNNING))["active_pk"] == {"S": "pod"}


@pytest.mark.parametrize(
    ("expires_at", "stored"),
    [(None, None), (datetime.fromisoformat("2026-11-30T12:00:00.9+00:00"), {"N": "1796040000"})],
)
def test_only_a_row_that_expires_may_be_forgotten(
    expires_at: datetime | None, stored: dict[str, str] | None
) -> None:
    command = replace(a_command(), expires_at=expires_at)

    assert index_attributes(command).get("forget_at") == stored


def test_expiry_is_the_same_instant_in_every_time_zone() -> None:
    here = NOW + timedelta(hours=1)
    there = here.astimezone(datetime.fromisoformat("2026-01-01T00:00:00+09:00").tzinfo)

    one, other = (index_attributes(replace(a_command(), expires_at=at)) for at in (here, there))

    assert one["forget_at"] == other["forget_at"]


@given(partition=st.text(max_size=30), entity_id=st.text(min_size=1, max_size=40))
def test_a_cursor_leads_back_to_where_it_was_given_out(partition: str, entity_id: str) -> None:
    cursor = encode_cursor(partition, entity_id)

    assert decode_cursor(partition, cursor) == entity_id
    assert cursor.isascii()
    assert not set(cursor) & set("+/=&?# ")


@given(text=st.text(max_size=60))
def test_no_text_is_taken_for_a_cursor_by_chance(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="cursor"):
        decode_cursor("pod#acct_1", text)
