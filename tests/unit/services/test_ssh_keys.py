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
