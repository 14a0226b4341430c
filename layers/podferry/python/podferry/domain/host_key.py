"""The SSH host key of a pod: the same on whichever machine the pod runs."""

import base64
import binascii
from dataclasses import dataclass, field
from typing import ClassVar

from podferry.domain.entity import Entity
from podferry.domain.errors import FieldProblem, InvalidRequestError

SSH_PORT = 22
"""Where the agent listens on its machine; containers have another number outside.

It has the number because some providers open only this one. A server of the image's own finds it
taken and has to use another.
"""

SSH_USER = "root"

_ALGORITHM = b"ssh-ed25519"
_MAGIC = b"openssh-key-v1\0"
_BEGIN = "-----BEGIN OPENSSH PRIVATE KEY-----"
_END = "-----END OPENSSH PRIVATE KEY-----"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKey(Entity):
    """`id` is the pod's. A row of its own: nothing that shows a pod reads the private part."""

    PREFIX: ClassVar[str] = "hostkey"

    private_key: str = field(repr=False)
    """In OpenSSH's format, without a passphrase. Given to the pod's present machine only."""
    public_key: str
    """`ssh-ed25519 <base64>`."""
    fingerprint: str
    """As `ssh-keygen -lf` prints it."""


def public_part(private_key: str) -> bytes:
    """The public key in a new Ed25519 key as `ssh-keygen` writes it.

    Raises:
        InvalidRequestError: it is something else.
    """
    try:
        return _public_part(_binary(private_key))
    except (ValueError, binascii.Error) as error:
        problem = FieldProblem("/private_key", str(error))
        raise InvalidRequestError("this is no unencrypted Ed25519 key", fields=(problem,)) from None


def _binary(private_key: str) -> bytes:
    text = private_key.strip()
    if not (text.startswith(_BEGIN) and text.endswith(_END)):
        raise ValueError("give it in OpenSSH's format, with its first and last line")
    body = text.removeprefix(_BEGIN).removesuffix(_END)
    return base64.b64decode("".join(body.split()), validate=True)


def _public_part(content: bytes) -> bytes:
    if not content.startswith(_MAGIC):
        raise ValueError("it does not begin as OpenSSH's keys do")
    cipher, rest = _string(content[len(_MAGIC) :])
    _, rest = _string(rest)
    _, rest = _string(rest)
    if cipher != b"none" or rest[:4] != b"\0\0\0\1":
        raise ValueError("it must hold one key, without a passphrase")
    public, rest = _string(rest[4:])
    private, _ = _string(rest)
    algorithm, point = _string(public)
    if algorithm != _ALGORITHM or public not in private:
        raise ValueError("it must be an Ed25519 key whose two parts belong together")
    if len(_string(point)[0]) != 32:
        raise ValueError("its public part has not 32 bytes")
    return public


def _string(content: bytes) -> tuple[bytes, bytes]:
    """A string with its length before it, and what comes after it."""
    length = int.from_bytes(content[:4], "big")
    if len(content) < 4 + length:
        raise ValueError("it is cut off")
    return content[4 : 4 + length], content[4 + length :]
