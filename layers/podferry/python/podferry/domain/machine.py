"""A rented box at a provider: one epoch, disposable.

    intended ─> requested ─> provisioning ─> booting ─> ready ─> draining ─> terminating ─> released
                    │
                    v
                 unknown (the create call was cut off)          any ─> lost (proven gone, unasked)

`released` and `lost` are the provider's word, never ours: a machine that was only silent for too
long is `terminating` until it is proven gone, and so is a lost one that dials in again. A machine
that was `ready` holds data of its pod; `Clearance` says on what ground it may be given up all the
same.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar

from podferry.domain.activity import Activity
from podferry.domain.entity import Entity
from podferry.domain.offer import Offer


class MachineState(StrEnum):
    INTENDED = "intended"
    REQUESTED = "requested"
    UNKNOWN = "unknown"
    PROVISIONING = "provisioning"
    BOOTING = "booting"
    READY = "ready"
    DRAINING = "draining"
    TERMINATING = "terminating"
    RELEASED = "released"
    LOST = "lost"


FINAL_STATES = frozenset({MachineState.RELEASED, MachineState.LOST})


LONGEST_CREATE = timedelta(seconds=150)
"""A create call that was cut off on our side may still reach the provider for this long."""


class Clearance(StrEnum):
    """Why a machine may be given up. Without one it is kept."""

    NEVER_READY = "never_ready"
    """It never held data: the pod was not handed to its user on it."""
    CAPTURES_VERIFIED = "captures_verified"
    LOSS_ACCEPTED = "loss_accepted"
    PROVEN_GONE = "proven_gone"
    DECLARED_LOST = "declared_lost"
    """Silent for long, and its provider does not say that it runs: see `domain/loss.py`."""


class NoticeKind(StrEnum):
    """What a machine was told about its end."""

    RECLAIM = "reclaim"
    MAINTENANCE = "maintenance"
    SHUTDOWN = "shutdown"
    """Its first process was told to end, for whatever reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The machine is about to go, by what its agent learned on it."""

    kind: NoticeKind
    source: str
    at: datetime
    deadline_at: datetime | None = None
    """When it ends at the latest, if that was said."""
    answers: int = 0
    """Of maintenance: how often the pod began to leave the machine."""
    answered_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicPort:
    """A port of the pod and where the provider shows it to the world."""

    internal: int
    host: str
    external: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Where a machine lets us in over SSH. Its user is root, or may become root by `sudo`."""

    host: str
    port: int
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """How far our bootstrap has come on its way onto a machine over SSH."""

    host_key: str | None = None
    """What the machine showed at our first login. Nobody with another one is trusted."""
    uploaded_at: datetime | None = None
    start_asked_at: datetime | None = None
    """From then on it may run, whatever was answered."""
    started_at: datetime | None = None
    refused_since: datetime | None = None
    """First of the logins in a row that were refused."""
    word: str | None = None
    """What stood in the way last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Entity):
    """See the module."""

    PREFIX: ClassVar[str] = "mach"

    pod_id: str
    operation_id: str
    """The operation that rented it."""
    offer: Offer
    stamp: str
    epoch: int
    state: MachineState
    boot_token_sha256: str
    key_of: str | None = None
    """The account whose own key it was rented with; `None` is the deployment's."""
    token_sha256: str | None = None
    """Of the machine token that the agent made; set at registration."""
    provider_id: str | None = None
    price_microusd_per_hour: int | None = None
    """The contract's price, which may differ from the offer's."""
    ports: tuple[PublicPort, ...] = ()
    busy_until: datetime | None = None
    """When its provider wants to be asked again, to rent it or to end it."""
    requested_at: datetime | None = None
    create_ended_at: datetime | None = None
    """When the create call came back, with whatever outcome; `None` if it was cut off."""
    billing_started_at: datetime | None = None
    registered_at: datetime | None = None
    ready_at: datetime | None = None
    give_up_at: datetime | None = None
    """When giving up was decided; set together with `clearance`."""
    clearance: Clearance | None = None
    released_at: datetime | None = None
    give_up_attempts: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    provider_word: str | None = None
    """State and status in the provider's words, while it boots."""
    progress_at: datetime | None = None
    """When that last changed: the provider is at work on it."""
    looked_at: datetime | None = None
    """When the provider was last asked about it."""
    login: Login | None = None
    """Where its provider lets us log in, while it boots."""
    install: Install | None = None
    """Only where our bootstrap comes over SSH."""
    shown_at: datetime | None = None
    """When the provider first showed it: it has been listed since, unless it is gone."""
    notice: Notice | None = None
    missing_since: datetime | None = None
    """First complete listing in a row that did not show it."""
    is_failed_boot: bool = False
    """Given back before its pod ran on it, and neither its user nor the pod's script was why."""

    @property
    def owner(self) -> str:
        return self.pod_id

    @property
    def is_active(self) -> bool:
        return self.state not in FINAL_STATES

    @property
    def holds_data(self) -> bool:
        """Whether the pod ever ran on it, so that giving it up may lose something."""
        return self.ready_at is not None

    @property
    def serves_since(self) -> datetime:
        """When it was handed over to its pod; at the earliest when its row was written."""
        return self.ready_at or self.created_at

    @property
    def billed_from(self) -> datetime | None:
        """When its bill began, by its provider; of one that does not say so, when it registered."""
        return self.billing_started_at or self.registered_at

    @property
    def contract_microusd_per_hour(self) -> int:
        """Its price: the offer's until the contract's is known."""
        if self.price_microusd_per_hour is None:
            return self.offer.price_microusd_per_hour
        return self.price_microusd_per_hour

    def unlisted_until(self, settles_seconds: int) -> datetime:
        """Until then a listing that does not show the machine proves nothing."""
        if self.shown_at is not None:
            return self.shown_at
        asked = self.requested_at or self.created_at
        ended = self.create_ended_at or asked + LONGEST_CREATE
        return ended + timedelta(seconds=settles_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse(Entity):
    """What the agent last said. `id` is the machine's.

    A row of its own, because it is written with every heartbeat: on the machine's row it would
    make the workflow steps lose their conditional writes.
    """

    PREFIX: ClassVar[str] = "pulse"

    heard_at: datetime
    boot_id: str
    busy_until: datetime
    """Until then the agent is asked to beat often."""
    workload: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    activity: Activity | None = None
    """Only while the pod has an idle policy."""


def last_heard(machine: Machine, pulse: Pulse | None) -> datetime:
    """When the machine was last heard from; its start counts as a word."""
    since = machine.serves_since
    return since if pulse is None else max(pulse.heard_at, since)
