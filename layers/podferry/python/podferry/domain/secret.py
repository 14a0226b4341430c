"""A secret of an account: what we know of it. Its text lies in the vault alone."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from podferry.domain.entity import Entity

SHORTEST = 8
"""Characters. What is shorter could not be taken out of output without spoiling the output."""
LONGEST = 16_384
SECRETS_PER_ACCOUNT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret(Entity):
    """A text that pods of the account get as an environment variable.

    `id` is made of account and name: an account has one secret of a name.
    """

    PREFIX: ClassVar[str] = "secret"

    name: str
    version: str
    """Which text in the vault counts; a new one with every rotation."""
    rotated_at: datetime
    """Since when it has its present text. Pods that were started before have the one before."""


def secret_id(account_id: str, name: str) -> str:
    """The one id for the secret of that name."""
    return f"{Secret.PREFIX}_{account_id}_{name}"
