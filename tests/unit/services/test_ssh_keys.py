import base64
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podferry.domain.errors import ConflictError, InvalidRequestError, NotFoundError
from podferry.services.ssh_keys import KEYS_PER_ACCOUNT, parse_public_key
from tests.unit.services.support import World

BODY = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
KEY = f"ssh-ed25519 {BODY} me@home"
FINGERPRINT = "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"


def an_ed25519_key(number: int) -> str:
    blob = b"\0\0\0\x0bssh-ed25519\0\0\0 " + number.to_bytes(32, "big")
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}"


def test_the_fingerprint_is_the_one_that_ssh_keygen_prints() -> None:
    assert parse_public_key(KEY).fingerprint == FINGERPRINT


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen to compare with")
@pytest.mark.parametrize("kind", [["ed25519"], ["rsa", "-b", "2048"], ["ecdsa", "-b", "521"]])
def test_keys_that_ssh_keygen_makes_are_read(tmp_path: Path, kind: list[str]) -> None:
    path = tmp_path / "key"
    make = ["ssh-keygen", "-q", "-N", "", "-C", "a note", "-f", str(path), "-t", *kind]
    subprocess.run(make, check=True)
    show = ["ssh-keygen", "-lf", str(path)]
    shown = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    text = path.with_suffix(".pub").read_text()
    assert parse_public_key(text).fingerprint == shown.split()[1]
    assert parse_public_key(text).line() == text.strip()


def test_the_note_may_be_missing_or_have_spaces() -> None:
    assert parse_public_key(f"ssh-ed25519 {BODY}").line() == f"ssh-ed25519 {BODY}"
    assert parse_public_key(f"  {KEY} 2024\n").note == "me@home 2024"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected"),
        ("ssh-ed25519", "expected"),
        (f"ssh-dss {BODY}", "expected"),
        (f'command="sh" ssh-ed25519 {BODY}', "expected"),
        (f"ssh-ed25519 {BODY[:-1]}", "cut off"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", "cut off"),
        (f"ssh-rsa {BODY}", "not a key of this algorithm"),
        (f"{KEY}\n{KEY}", "one line"),
        (f"ssh-ed25519 {BODY} a\x1b[2Jb", "one line"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "private key"),
    ],
)
def test_what_is_no_public_key_is_told_so(text: str, problem: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_public_key(text)
    [field] = caught.value.fields
    assert field.where == "/public_key"
    assert problem in field.problem


def an_rsa_key(bits: int, *more: bytes) -> str:
    parts = (b"ssh-rsa", b"\x01\0\x01", (1 << (bits - 1)).to_bytes(bits // 8 + 1, "big"), *more)
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return f"ssh-rsa {base64.b64encode(blob).decode()}"


@pytest.mark.parametrize("bits", [2048, 3072, 4096])
def test_rsa_keys_of_2048_bits_and_more_are_taken(bits: int) -> None:
    assert parse_public_key(an_rsa_key(bits)).line() == an_rsa_key(bits)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (an_rsa_key(1024), "has 1024 bits, and SSH servers refuse less than 2048; make another"),
        (an_rsa_key(2047), "has 2047 bits"),
        (an_rsa_key(2048, b"more"), "not a key of this algorithm"),
        (an_rsa_key(2048)[:-8], "cut off"),
    ],
)
def test_rsa_keys_that_are_short_or_broken_are_refused_in_words(text: str, problem: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_public_key(text)
    assert problem in caught.value.fields[0].problem


@given(st.binary(max_size=300))
def test_no_bytes_behind_the_name_of_rsa_break_the_parser(tail: bytes) -> None:
    blob = base64.b64encode(b"\0\0\0\x07ssh-rsa" + tail).decode()
    with pytest.raises(InvalidRequestError):
        parse_public_key(f"ssh-rsa {blob}")


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_public_key(text)


def test_the_same_key_is_one_key_whatever_its_note() -> None:
    world = World()
    added = world.ssh_keys.add("acct_1", "laptop", KEY)
    with pytest.raises(ConflictError, match=added.id):
        world.ssh_keys.add("acct_1", "again", KEY.replace("me@home", "you@work"))
    assert world.ssh_keys.add("acct_2", "mine too", KEY).id != added.id


def test_a_removed_key_can_be_added_again() -> None:
    world = World()
    added = world.ssh_keys.add("acct_1", "laptop", KEY)
    world.ssh_keys.remove("acct_1", added.id)
    assert world.ssh_keys.add("acct_1", "laptop", KEY).id == added.id


def test_keys_of_another_account_are_not_found() -> None:
    world = World()
    added = world.ssh_keys.add("acct_1", "laptop", KEY)
    with pytest.raises(NotFoundError):
        world.ssh_keys.remove("acct_2", added.id)


def test_an_account_has_a_limited_number_of_keys() -> None:
    world = World()
    for number in range(KEYS_PER_ACCOUNT):
        world.ssh_keys.add("acct_1", "key", an_ed25519_key(number))
    with pytest.raises(ConflictError, match="remove one first"):
        world.ssh_keys.add("acct_1", "key", KEY)
    assert len(world.ssh_keys.list("acct_1", limit=100, cursor=None).items) == KEYS_PER_ACCOUNT
