"""Accounts, their API keys and SSH keys."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from podferry.domain.entity import Entity


class Scope(StrEnum):
    """What a key may do. `admin` is the operator's and stands for every scope."""

    PODS_READ = "pods:read"
    PODS_WRITE = "pods:write"
    ACCOUNT_READ = "account:read"
    ACCOUNT_WRITE = "account:write"
    ADMIN = "admin"


USER_SCOPES = frozenset(Scope) - {Scope.ADMIN}

ACCOUNTS = "accounts"
"""What all accounts are listed under."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account(Entity):
    """Who owns pods. `account_id` equals `id`."""

    PREFIX: ClassVar[str] = "acct"

    name: str
    chunk_key: str
    """Base64 of 32 bytes that key content hashes: they say nothing across accounts."""

    @property
    def owner(self) -> str:
        return ACCOUNTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Entity):
    """A bearer key of an account, stored as the SHA-256 of its text."""

    PREFIX: ClassVar[str] = "key"

    name: str
    scopes: tuple[Scope, ...]
    token_sha256: str
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKey(Entity):
    """A public key that may log in to every pod of the account."""

    PREFIX: ClassVar[str] = "ssh"

    name: str
    public_key: str
    fingerprint: str
