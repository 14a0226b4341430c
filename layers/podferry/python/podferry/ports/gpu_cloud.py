"""A GPU market, as all of them look to us.

Adapters translate and nothing else: no retry, no sleep, no rate limit, no logging of bodies (they
hold tokens). "Not yet" is an answer. `ProviderBusyError` means that repeating the call is safe.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from podferry.domain.machine import Login, PublicPort
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer, Requirements
from podferry.ports.key_vault import KeyRef


class ViewState(StrEnum):
    """What a provider says of a machine. `running` is not our `ready`: only the agent says that."""

    PROVISIONING = "provisioning"
    PULLING = "pulling"
    """It stands and nothing runs in it: its image is fetched, or what ran there has ended."""
    STARTING = "starting"
    STOPPED = "stopped"
    RECLAIMED = "reclaimed"
    """Taken back and not gone: it stands, costs, and may wake up by itself."""
    FAILED = "failed"
    LOST = "lost"
    TERMINATING = "terminating"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineView:
    """One machine as its provider shows it."""

    provider_id: str
    stamp: str | None
    """The name under which it was rented. `None` if the provider has no such machine, or one that
    bears no name: then `state` is no word on a machine of ours."""
    state: ViewState
    raw_status: str
    reason: str | None = None
    price_microusd_per_hour: int | None = None
    ports: tuple[PublicPort, ...] = ()
    """Empty also at a provider that knows nothing of ports: of `Channel.SSH`."""
    login: Login | None = None
    """Of `Channel.SSH`, as soon as the provider shows it: where it lets in `ssh_public_key`."""
    billing_started_at: datetime | None = None

    @classmethod
    def missing(cls, provider_id: str, raw_status: str = "404") -> "MachineView":
        """What a provider shows that has no such machine."""
        return cls(provider_id=provider_id, stamp=None, state=ViewState.GONE, raw_status=raw_status)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """Everything a provider needs to start a machine for us."""

    stamp: str
    offer: Offer
    image: str
    bootstrap: str
    """A POSIX shell script that becomes the container's first process."""
    environment: dict[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    ssh_public_key: str | None = None
    """Of `Channel.SSH` the key that the machine has to let in; elsewhere a key of the user."""
    disk_gib: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BootTraits:
    """How machines of one kind come to run our bootstrap."""

    channel: Channel
    """How the bootstrap of a `LaunchRequest` gets onto them."""
    bootstrap_limit: int
    """Longest bootstrap in ASCII characters. What travels with it counts, too: the script around it
    on a VM, and the environment where both share one field or body."""
    deadline_seconds: int
    """After this long without a sign of the agent a boot counts as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTraits:
    """Differences between providers, as data."""

    boots: Mapping[Kind, BootTraits]
    """What its offers can be, and how such machines boot."""
    poll_seconds: int
    """How often one machine may be looked at."""
    listing_settles_seconds: int
    """A machine that was just created may be missing from lists for this long."""
    failed_is_final: bool
    """Whether a machine that the provider calls failed is gone and costs nothing any more."""
    markets: tuple[Market, ...]
    """How its offers can be rented."""
    billing: BillingRule
    """The same for all its offers."""
    can_cancel_starting: bool
    """Whether a machine can be given up before it has started."""
    reclaim_notice_seconds: int | None
    """Least warning before a spot machine is taken away; `None` if no warning is promised."""
    shows_price: bool
    """Whether a machine's view has what its contract costs, which may be more than its offer."""
    shows_billing_start: bool
    """Whether a machine's view has when its bill began."""

    @property
    def longest_boot_seconds(self) -> int:
        """What a machine of the slowest kind may take."""
        return max(boot.deadline_seconds for boot in self.boots.values())


class GpuCloud(Protocol):
    """One provider with one key."""

    name: str
    traits: CloudTraits

    def list_offers(self, wanted: Requirements) -> list[Offer]:
        """What can be rented now; requirements may be used to narrow, the caller filters anyway.

        Raises:
            ProviderBusyError, ProviderRefusedError.
        """

    def create(self, request: LaunchRequest) -> str:
        """Rent a machine and return the provider's id for it. NOT safe to call twice.

        A machine of `Channel.SSH` comes up without the bootstrap and lets `ssh_public_key` in at
        `MachineView.login`; an `Installer` brings the bootstrap. What that could not carry is
        refused here, before it costs anything.

        Raises:
            NoCapacityError, OfferGoneError, QuotaExceededError: nothing was made; try another.
            ProviderRefusedError: nothing was made; trying again does not help.
            ProviderBusyError: surely nothing was made (for example 429).
            OutcomeUnknownError: time-out, cut connection or 5xx: look by stamp.
        """

    def find(self, stamp: str) -> list[MachineView]:
        """Every machine with this stamp that the provider's complete listing shows.

        Raises:
            ProviderBusyError, ProviderRefusedError.
        """

    def list_machines(self) -> list[MachineView]:
        """Every machine in the provider's complete listing, whoever made it with this key.

        Raises:
            ProviderBusyError, ProviderRefusedError.
        """

    def get(self, provider_id: str) -> MachineView:
        """One machine; `state` is `gone` only if the provider says so or has no such machine.

        The stamp tells the two apart: a machine that the provider does not have is shown without,
        which is not its word that the machine ended. One that has ended keeps its stamp.

        Raises:
            ProviderBusyError, ProviderRefusedError.
        """

    def give_up(self, provider_id: str) -> None:
        """Ask the provider to end the machine; one that is gone already is success.

        Returning means that the request was taken, not that the machine is gone: see `get`.

        Raises:
            NotGoneYetError: it cannot be ended in its present state; ask again.
            ProviderBusyError, ProviderRefusedError.
        """


class GpuClouds(Protocol):
    """The providers, each with the deployment's key or with one of an account."""

    def known(self) -> list[str]:
        """Names of all providers that can be rented from with a key, sorted."""

    def names(self) -> list[str]:
        """Names of the providers that the deployment itself has a key for, sorted."""

    def get(self, name: str, key: KeyRef | None = None) -> GpuCloud:
        """The provider, wrapped with time limits, polite rates and logging.

        With `key` an account's own key is used, without it the deployment's.

        Raises:
            ProviderRefusedError: no key for it, or no such provider.
        """

    def takes_roles(self, name: str) -> bool:
        """Whether an account's key at the provider may be a role that we take on."""

    def completed(self, name: str, api_key: str, external_id: str) -> str:
        """The text of an account's key with what only we may write into it.

        `external_id` is of that account alone, so that no other can use a role that trusts it.

        Raises:
            KeyRefusedError: the text has something else in its place.
        """

    def on_trial(self, name: str, api_key: str) -> GpuCloud:
        """The provider with a key that is stored nowhere yet.

        Raises:
            ProviderRefusedError: no such provider.
        """
