"""Secrets are taken out of what the agent logs, reports and sends up."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podferry_agent import redaction
from podferry_agent.redaction import SecretFilter, hide, redact

KEY = "line-one-of-a-key\nline-two-of-a-key\n"
SECRETS = ("canary-12345", "canary-12345-and-more", "aaaaaaaa", KEY, "pässwörter")


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_hidden", redaction._Hidden())
    hide(SECRETS)


def filtered(pieces: list[bytes]) -> bytes:
    secrets = SecretFilter()
    return b"".join(map(secrets.feed, pieces)) + secrets.end()


@pytest.mark.parametrize("secret", [*SECRETS, "line-two-of-a-key"])
def test_a_secret_is_taken_out_of_a_text(secret: str) -> None:
    assert secret not in redact(f"before {secret} after")
    assert redact(f"before {secret} after").startswith("before <secret>")


def test_lines_that_say_nothing_stay() -> None:
    hide(["{\n  0123456789\n}"])
    assert redact("{ } 0123456789") == "{ } <secret>" or redact("{ }") == "{ }"


@given(
    st.lists(st.sampled_from([*SECRETS, "canary-", "aaa", "line-one", "x", "\n", "ä"]), max_size=8),
    st.lists(st.integers(0, 120), max_size=8),
)
def test_output_says_the_same_however_it_is_cut(words: list[str], cuts: list[int]) -> None:
    whole = "".join(words).encode()
    places = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    pieces = [whole[start:end] for start, end in pairwise(places)]
    out = filtered(pieces)
    assert out == filtered([bytes([byte]) for byte in whole])
    assert not [secret for secret in SECRETS if secret.encode() in out]


def test_output_without_secrets_is_not_changed_and_not_held_back() -> None:
    secrets = SecretFilter()
    assert secrets.feed(b"step 1 of 3\n") == b"step 1 of 3\n"
    assert secrets.end() == b""
