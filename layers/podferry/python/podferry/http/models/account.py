"""Accounts, API keys and SSH keys, as users make and see them."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from podferry.domain.account import USER_SCOPES, Account, ApiKey, Scope, SshKey
from podferry.http.models.fields import Input, Name, Output, unique
from podferry.services.storage import AccountStorage


def _grantable(scope: Scope) -> Scope:
    if scope not in USER_SCOPES:
        raise ValueError(f"{scope} is the operator's; give one of {', '.join(sorted(USER_SCOPES))}")
    return scope


UserScope = Annotated[
    Scope,
    AfterValidator(_grantable),
    Field(json_schema_extra={"enum": sorted(USER_SCOPES)}),
]
_SHOWN_ONCE = "Shown once; `null` when the answer is given again for the same Idempotency-Key."


class NewAccountBody(Input):
    """An account to make."""

    name: Name


class AccountView(Output):
    """Who owns pods."""

    id: str
    name: str
    created_at: datetime

    @classmethod
    def of(cls, account: Account) -> "AccountView":
        return cls(id=account.id, name=account.name, created_at=account.created_at)


class StorageView(Output):
    """What an account has in the store. Shared objects are counted once."""

    stored_bytes: int
    volumes_bytes: int
    environments_bytes: int
    byte_seconds: int = Field(
        description="Bytes times seconds since the account exists. Take the difference of two "
        "readings: divided by 2^30 and the seconds of a month it is in GiB-months."
    )

    @classmethod
    def of(cls, storage: AccountStorage) -> "StorageView":
        return cls(
            stored_bytes=storage.volumes_bytes + storage.environments_bytes,
            volumes_bytes=storage.volumes_bytes,
            environments_bytes=storage.environments_bytes,
            byte_seconds=storage.byte_seconds,
        )


class KeyView(Output):
    """An API key, without its text."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    revoked_at: datetime | None

    @classmethod
    def of(cls, key: ApiKey) -> "KeyView":
        return cls(**{name: getattr(key, name) for name in cls.model_fields})


class NewAccountView(Output):
    """An account that was just made, with its first key."""

    account: AccountView
    key: KeyView
    token: str | None = Field(description=_SHOWN_ONCE)


class NewKeyBody(Input):
    """A key to make."""

    name: Name
    scopes: Annotated[
        tuple[UserScope, ...], Field(min_length=1, max_length=8), AfterValidator(unique)
    ]


class NewKeyView(Output):
    """A key that was just made."""

    key: KeyView
    token: str | None = Field(description=_SHOWN_ONCE)


class NewSshKeyBody(Input):
    """A public key that may log in to every pod of the account."""

    name: Name
    public_key: str = Field(
        min_length=1,
        max_length=8192,
        description="One line as `ssh-keygen` writes it to a .pub file.",
    )


class SshKeyView(Output):
    """A public SSH key."""

    id: str
    name: str
    public_key: str
    fingerprint: str
    created_at: datetime

    @classmethod
    def of(cls, key: SshKey) -> "SshKeyView":
        return cls(**{name: getattr(key, name) for name in cls.model_fields})
