"""Makes the machine known to the control plane: one boot token in, one machine token out.

The agent makes its own token and sends only its hash. It is on disk before it is sent, so that a
lost answer or a kill in between leads to the same registration again.
"""

import hashlib
import logging
import secrets
from dataclasses import dataclass

from podferry_agent import AGENT_VERSION
from podferry_agent.api import ApiClient
from podferry_agent.errors import SettingsError
from podferry_agent.fields import Fields
from podferry_agent.state import StateStore
from podferry_agent.wire import Registration

_LOG = logging.getLogger(__name__)
_RECORD = "identity"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this machine is; `epoch` and `pod_id` are None until the registration was answered."""

    machine_id: str
    token: str
    epoch: int | None = None
    pod_id: str | None = None

    @property
    def is_registered(self) -> bool:
        return self.epoch is not None

    @classmethod
    def parse(cls, document: dict[str, object]) -> "Identity":
        fields = Fields(document, "stored identity")
        return cls(
            fields.text("machine_id"),
            fields.text("token"),
            fields.optional_integer("epoch"),
            fields.optional_text("pod_id"),
        )

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


def load_identity(store: StateStore, machine_id: str) -> Identity:
    """The stored one, or a new one with a fresh token.

    Raises:
        SettingsError: The state belongs to another machine.
    """
    document = store.load(_RECORD)
    if document is not None:
        identity = Identity.parse(document)
        if identity.machine_id != machine_id:
            raise SettingsError(
                f"{store.directory} belongs to machine {identity.machine_id}, but PF_MACHINE is "
                f"{machine_id}; remove that directory if the disk was handed on",
            )
        return identity
    identity = Identity(machine_id, f"pfm_{machine_id}_{secrets.token_urlsafe(32)}")
    store.save(_RECORD, identity.to_json())
    return identity


def register(
    api: ApiClient,
    store: StateStore,
    boot_token: str | None,
    identity: Identity,
    facts: dict[str, object],
) -> tuple[Identity, float]:
    """The registered identity and the first heartbeat interval.

    Raises:
        ApiError: Refused, for example because another agent registered this machine.
        SettingsError: There is no boot token.
    """
    if boot_token is None:
        raise SettingsError("PF_TOKEN is not set and this machine is not registered yet")
    api.token = boot_token
    answer = api.post("/agent/v1/register", build_registration(identity, facts))
    registration = Registration.parse(answer)
    registered = Identity(
        identity.machine_id, identity.token, registration.epoch, registration.pod_id
    )
    store.save(_RECORD, registered.to_json())
    _LOG.info("registered", extra={"pod_id": registered.pod_id, "epoch": registered.epoch})
    return registered, registration.heartbeat_seconds


def build_registration(identity: Identity, facts: dict[str, object]) -> dict[str, object]:
    return {
        "machine_id": identity.machine_id,
        "token_sha256": hashlib.sha256(identity.token.encode()).hexdigest(),
        "agent_version": AGENT_VERSION,
        "facts": facts,
    }
