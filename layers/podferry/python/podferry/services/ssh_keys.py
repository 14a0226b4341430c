"""Public keys that may log in to every pod of an account."""

import base64
import binascii
import re
from dataclasses import dataclass
from hashlib import sha256

from podferry.domain.account import SshKey
from podferry.domain.errors import ConflictError, FieldProblem, InvalidRequestError, NotFoundError
from podferry.domain.ids import encode_base32
from podferry.ports.store import Create, Delete, Page, Store
from podferry.ports.surroundings import Clock

KEYS_PER_ACCOUNT = 50
LEAST_RSA_BITS = 2048
"""OpenSSH 9.1 and later can refuse what is shorter, and some distributions have it so."""
ALGORITHMS = frozenset(
    {
        "ssh-ed25519",
        "ssh-rsa",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)
RSA_PARTS = 3
NOT_A_KEY = "the base64 part is not a key of this algorithm; was the line cut off?"
_LINE = re.compile(r"(?P<algorithm>\S+)[ \t]+(?P<body>[A-Za-z0-9+/]+={0,2})(?:[ \t]+(?P<note>.*))?")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A parsed line of an `authorized_keys` file, without options."""

    algorithm: str
    blob: bytes
    note: str

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -lf` prints it."""
        return "SHA256:" + base64.b64encode(sha256(self.blob).digest()).decode().rstrip("=")

    def line(self) -> str:
        """The key in its canonical form."""
        body = base64.b64encode(self.blob).decode()
        return " ".join(filter(None, (self.algorithm, body, self.note)))


def parse_public_key(text: str) -> PublicKey:
    """Read one public key as `ssh-keygen` writes it.

    Raises:
        InvalidRequestError: what is wrong and what would be right.
    """
    line = text.strip()
    if "PRIVATE KEY" in line:
        raise _wrong("this is a private key: keep it secret and give the .pub file's text")
    if not line.isprintable():
        raise _wrong("give exactly one line, without control characters")
    parts = _LINE.fullmatch(line)
    if parts is None or parts["algorithm"] not in ALGORITHMS:
        raise _wrong(f"expected '<algorithm> <base64> [note]' with one of {_names()}")
    try:
        blob = base64.b64decode(parts["body"], validate=True)
    except binascii.Error as error:
        raise _wrong("the middle part is not base64; was the line cut off?") from error
    name = parts["algorithm"].encode()
    if blob[: 4 + len(name)] != len(name).to_bytes(4, "big") + name or len(blob) < 40:
        raise _wrong(NOT_A_KEY)
    if parts["algorithm"] == "ssh-rsa":
        _check_rsa(blob)
    return PublicKey(parts["algorithm"], blob, parts["note"] or "")


@dataclass(frozen=True, slots=True)
class SshKeys:
    """Add, list and remove the SSH keys of an account."""

    store: Store
    clock: Clock

    def add(self, account_id: str, name: str, public_key: str) -> SshKey:
        """Store the key; it opens every pod of the account with the next login.

        Raises:
            InvalidRequestError: not a public key.
            ConflictError: the account has this key already, or too many keys.
        """
        parsed = parse_public_key(public_key)
        present = self.store.list_owned(SshKey, account_id, limit=KEYS_PER_ACCOUNT)
        if len(present.items) >= KEYS_PER_ACCOUNT:
            raise ConflictError(f"an account has at most {KEYS_PER_ACCOUNT} keys; remove one first")
        key = SshKey(
            id=_key_id(account_id, parsed.fingerprint),
            account_id=account_id,
            created_at=self.clock.now(),
            name=name,
            public_key=parsed.line(),
            fingerprint=parsed.fingerprint,
        )
        if self.store.find(SshKey, key.id) is not None:
            raise ConflictError(f"the account has this key already: {key.id}, {key.fingerprint}")
        self.store.commit(Create(key))
        return key

    def list(self, account_id: str, *, limit: int, cursor: str | None) -> Page[SshKey]:
        """The account's SSH keys."""
        return self.store.list_owned(SshKey, account_id, limit=limit, cursor=cursor)

    def remove(self, account_id: str, key_id: str) -> None:
        """Remove the key; no pod lets it in any more. Who is in stays in.

        Raises:
            NotFoundError: no such key in the account.
        """
        key = self.store.find(SshKey, key_id)
        if key is None or key.account_id != account_id:
            raise NotFoundError(f"no SSH key {key_id} in this account")
        self.store.commit(Delete(key))


def _key_id(account_id: str, fingerprint: str) -> str:
    """An id made of the key itself: of two requests that add it at once, one is refused."""
    digest = sha256(f"{account_id} {fingerprint}".encode()).digest()
    return f"{SshKey.PREFIX}_{encode_base32(int.from_bytes(digest[:16], 'big'), 26)}"


def _check_rsa(blob: bytes) -> None:
    """RFC 4253, 6.6: the name, the exponent and the modulus, each behind its length."""
    parts = []
    while len(blob) >= 4:
        end = 4 + int.from_bytes(blob[:4], "big")
        if len(blob) < end:
            break
        parts.append(blob[4:end])
        blob = blob[end:]
    if blob or len(parts) != RSA_PARTS:
        raise _wrong(NOT_A_KEY)
    bits = int.from_bytes(parts[-1], "big").bit_length()
    if bits < LEAST_RSA_BITS:
        raise _wrong(
            f"this RSA key has {bits} bits, and SSH servers refuse less than {LEAST_RSA_BITS}; "
            "make another one with `ssh-keygen -t ed25519`"
        )


def _names() -> str:
    return ", ".join(sorted(ALGORITHMS))


def _wrong(problem: str) -> InvalidRequestError:
    return InvalidRequestError(
        "this is not a public SSH key", fields=(FieldProblem("/public_key", problem),)
    )
