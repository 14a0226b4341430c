"""The key that opens a machine while it boots, where our bootstrap comes over SSH.

Each launch has a pair of its own. It goes with the agent's registration, or when the machine is
proven gone: after that nobody of ours logs in to the machine again.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

from podferry.domain.entity import Entity

LONGEST_LIFE = timedelta(days=4)
"""A launch ends within three days: its workflow has no more time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootKey(Entity):
    """`id` is the machine's. A row of its own: nothing that shows a machine reads it."""

    PREFIX: ClassVar[str] = "bootkey"

    private_key: str = field(repr=False)
    """In OpenSSH's format, without a passphrase."""
    public_key: str
    """`ssh-ed25519 <base64>`."""

    @property
    def forget_at(self) -> datetime | None:
        return self.created_at + LONGEST_LIFE

    def token_secret(self) -> str:
        """The secret of the machine's one-time token, which is stored nowhere.

        It is the same whenever it is asked for. So a step that runs twice brings the same token
        twice, and no run makes useless what another one has brought.
        """
        return hmac.digest(self.private_key.encode(), self.id.encode(), hashlib.sha256).hex()
