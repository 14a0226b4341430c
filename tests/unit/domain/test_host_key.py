import base64
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podferry.domain.errors import InvalidRequestError
from podferry.domain.host_key import public_part

BEGIN = "-----BEGIN OPENSSH PRIVATE KEY-----\n"
END = "-----END OPENSSH PRIVATE KEY-----\n"


def make_key(folder: Path, *options: str) -> Path:
    path = folder / "key"
    kind = options or ("-t", "ed25519", "-N", "")
    subprocess.run(["ssh-keygen", "-q", "-f", path, *kind], check=True)
    return path


def wrapped(content: bytes) -> str:
    return f"{BEGIN}{base64.b64encode(content).decode()}\n{END}"


def content_of(key: str) -> bytes:
    return base64.b64decode("".join(key.removeprefix(BEGIN).removesuffix(END).split()))


def test_public_part_is_the_one_in_the_other_file_of_ssh_keygen(tmp_path: Path) -> None:
    key = make_key(tmp_path)
    blob = base64.b64decode(key.with_suffix(".pub").read_text().split()[1])
    assert public_part(key.read_text()) == blob


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("-t", "ed25519", "-N", "secret words"), "without a passphrase"),
        (("-t", "ecdsa", "-N", ""), "Ed25519"),
        (("-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""), "OpenSSH's format"),
    ],
)
def test_other_keys_are_refused(tmp_path: Path, options: tuple[str, ...], problem: str) -> None:
    key = make_key(tmp_path, *options).read_text()
    with pytest.raises(InvalidRequestError) as caught:
        public_part(key)
    (field,) = caught.value.fields
    assert problem in field.problem
    assert key not in str(caught.value), "an error is shown and logged"


def test_key_whose_parts_do_not_belong_together_is_refused(tmp_path: Path) -> None:
    content = bytearray(content_of(make_key(tmp_path).read_text()))
    at = content.index(b"ssh-ed25519") + 11 + 4
    content[at] ^= 1
    with pytest.raises(InvalidRequestError):
        public_part(wrapped(bytes(content)))


@given(st.binary(max_size=300), st.booleans())
def test_nonsense_is_refused_and_nothing_worse(content: bytes, is_begun: bool) -> None:
    text = wrapped(b"openssh-key-v1\0" + content if is_begun else content)
    with pytest.raises(InvalidRequestError):
        public_part(text)
