"""Paths as text mean one path, and agents' spelling of them is understood or known not to be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podferry.domain.tree import behind, first_path, read_back, shown, sort_key
from podferry_agent.snapshot.model import display
from podferry_agent.snapshot.model import sort_key as sort_key_of_the_agent

PARTS = st.binary(min_size=1, max_size=6).filter(lambda part: not {0, 47} & set(part))
TEXTS = st.text(
    alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1
).map(str.encode)
PATHS = st.lists(PARTS | TEXTS, max_size=4).map(b"/".join)


@given(PATHS)
def test_a_path_is_read_back_from_its_text(path: bytes) -> None:
    assert read_back(shown(path)) == path
    assert shown(path).isprintable()


@given(PATHS, PATHS)
def test_two_paths_never_have_one_text(one: bytes, other: bytes) -> None:
    assert (shown(one) == shown(other)) == (one == other)


@given(PATHS)
def test_what_an_agent_wrote_is_understood_or_known_to_be_ambiguous(path: bytes) -> None:
    understood = first_path(display(path))
    assert understood in {path, None}
    if path.isascii():
        assert understood == path


@given(PATHS, PATHS)
def test_the_order_of_names_is_that_of_the_agent(one: bytes, other: bytes) -> None:
    ours, theirs = sort_key, sort_key_of_the_agent
    assert (ours(one) < ours(other)) == (theirs(one) < theirs(other))


@given(PATHS.filter(bool), PATHS.filter(bool))
def test_behind_a_name_is_behind_all_that_is_in_it_and_nothing_else(one: bytes, two: bytes) -> None:
    is_inside = two == one or two.startswith(one + b"/")
    is_between = sort_key(one) <= sort_key(two) < behind(sort_key(one))
    assert is_inside == is_between


@pytest.mark.parametrize("text", ["\\", "a\\", "\\q", "\\x4", "\\xZZ", "a\\\\\\b"])
def test_a_backslash_that_begins_nothing_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="backslash"):
        read_back(text)
