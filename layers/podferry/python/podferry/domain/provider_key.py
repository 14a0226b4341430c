"""An account's own key at a provider: what we know of it. Its text lies in the vault alone."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from podferry.domain.entity import Entity

USE_SETTLES = timedelta(minutes=1)
"""A machine that was intended this recently may be missing from lists of our own rows."""


class KeyState(StrEnum):
    WORKS = "works"
    UNAUTHORISED = "unauthorised"
    """The provider refused it. What runs goes on; the owner has to put a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnKey(Entity):
    """The account rents with this key instead of the deployment's.

    `id` is made of provider and account: an account has one key at a provider.
    """

    PREFIX: ClassVar[str] = "pkey"

    provider: str
    version: str
    """Which text in the vault counts; a new one with every replacement."""
    checked_at: datetime
    """When the provider was last known to take it."""
    state: KeyState = KeyState.WORKS
    state_at: datetime
    detail: str | None = None
    """The provider's words when it refused the key."""
    used_at: datetime | None = None
    """When a machine was last intended with it."""

    @property
    def is_active(self) -> bool:
        """Ghosts may stand under every key, so all of them are swept."""
        return True

    def may_just_be_used(self, now: datetime) -> bool:
        """Whether a machine may stand under it that a list of ours does not show yet."""
        return self.used_at is not None and now - self.used_at < USE_SETTLES


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTrust:
    """Whom a role has to trust, so that it can be taken on for one account and for no other."""

    aws_account: str
    """Where the functions are that take it on."""
    external_id: str


def external_id_of(deployment_id: str, account_id: str) -> str:
    """What we say when we take on a role for the account. It is no secret, and only ours to say."""
    return f"podferry-{deployment_id}-{account_id}"


def own_key_id(provider: str, account_id: str) -> str:
    """The one id for the key of an account at a provider."""
    return f"{OwnKey.PREFIX}_{provider}_{account_id}"
