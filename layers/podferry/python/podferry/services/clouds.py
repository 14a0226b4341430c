"""The providers as an account sees them: its own key where it has one, else the deployment's.

A machine is looked at, given up and swept with the key it was rented with, whatever keys came or
went since: another key may belong to somebody else's account at the provider, which does not show
it, and "not shown" would count as gone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from podferry.domain.errors import (
    CloudError,
    ConflictError,
    KeyRefusedError,
    ProviderRefusedError,
)
from podferry.domain.machine import Machine
from podferry.domain.offer import Offer, Requirements
from podferry.domain.pod import Pod
from podferry.domain.provider_key import KeyState, OwnKey, own_key_id
from podferry.ports.gpu_cloud import GpuCloud, GpuClouds
from podferry.ports.key_vault import KeyRef
from podferry.ports.store import Change, Update
from podferry.ports.surroundings import Signals
from podferry.ports.wrapped_cloud import WrappedCloud
from podferry.services.records import Records

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answers:
    """What providers have to offer. One that does not answer does not hide the others' offers."""

    offers: list[Offer]
    failures: dict[str, CloudError]
    """Of the providers that did not answer, by name."""
    is_any: bool
    """Whether at least one answered, or none was asked."""


@dataclass(frozen=True, slots=True)
class Clouds:
    """Finds the right key for each purpose and keeps what providers say of it."""

    records: Records
    providers: GpuClouds
    signals: Signals

    def open_to(self, account_id: str | None) -> dict[str, OwnKey | None]:
        """What the account may rent from: by provider its own key, `None` for the deployment's.

        `account_id` is `None` for the operator, who has the deployment's keys only.
        """
        found: dict[str, OwnKey | None] = dict.fromkeys(self.providers.names())
        if account_id is not None:
            found |= {key.provider: key for key in self.records.all_owned(OwnKey, account_id)}
        return dict(sorted(found.items()))

    def why_unknown(self, name: str) -> str | None:
        """In words, if there is no such provider."""
        known = self.providers.known()
        if name in known:
            return None
        return f"there is no provider {name}; there are {', '.join(known)}"

    def own_key(self, provider: str, account_id: str) -> OwnKey | None:
        """The account's own key at the provider."""
        return self.records.store.find(OwnKey, own_key_id(provider, account_id))

    def with_key(self, name: str, own: OwnKey | None) -> GpuCloud:
        """The provider with this key.

        Raises:
            ProviderRefusedError: the deployment has no key for it.
        """
        if own is None:
            return JudgedCloud(self.providers.get(name), self._tell_operator, is_refused=False)
        is_refused = own.state == KeyState.UNAUTHORISED
        cloud = self.providers.get(name, ref_of(own))
        return JudgedCloud(cloud, partial(self._note, own), is_refused=is_refused)

    def under(self, name: str, key_of: str | None) -> GpuCloud:
        """The provider with the key of the account `key_of`; `None` is the deployment's.

        Raises:
            ProviderRefusedError: that account, or the deployment, has no key for it.
        """
        own = None if key_of is None else self.own_key(name, key_of)
        if own is None and key_of is not None:
            raise ProviderRefusedError(f"the account has no key of its own for {name} any more")
        return self.with_key(name, own)

    def of(self, machine: Machine) -> GpuCloud:
        """The provider of a machine, with the key that it was rented with."""
        return self.under(machine.offer.provider, machine.key_of)

    def every(self) -> Iterator[tuple[str, str | None]]:
        """Every provider with every key that there is, as `under` takes them."""
        yield from ((name, None) for name in self.providers.names())
        keys = list(self.records.store.list_active(OwnKey))
        yield from ((key.provider, key.account_id) for key in keys)

    def _tell_operator(self, _refusal: KeyRefusedError | None) -> None:
        """What was said is in the log of the call."""
        self.signals.count("DeploymentKeyRefused")

    def _note(self, own: OwnKey, refusal: KeyRefusedError | None) -> None:
        """Write down that the provider takes the key again, or does not any more."""
        if refusal is not None:
            self.signals.count("OwnKeyRefused")
        state = KeyState.WORKS if refusal is None else KeyState.UNAUTHORISED
        detail = None if refusal is None else refusal.detail

        def plan() -> Sequence[Change]:
            fresh = self.records.store.find(OwnKey, own.id)
            # A word on a key that was replaced meanwhile says nothing of the new one.
            if fresh is None or fresh.version != own.version or fresh.state == state:
                return []
            now = self.records.now()
            noted = replace(fresh, state=state, state_at=now, detail=detail)
            if refusal is None:
                noted = replace(noted, checked_at=now)
            told = [
                self.records.background_event(
                    pod, f"provider_key.{state}", provider=own.provider, detail=detail
                )
                for pod in self._pods_under(own)
            ]
            return [Update(noted), *told]

        try:
            self.records.apply(plan)
        except ConflictError:
            # The row moves all the time, so the key is in use: the next call says it again.
            return

    def _pods_under(self, own: OwnKey) -> list[Pod]:
        """The pods whose machines were rented with the key, twenty at most."""
        ids = {machine.pod_id for machine in machines_under(self.records, own)}
        return [self.records.store.get(Pod, pod_id) for pod_id in sorted(ids)[:20]]


class JudgedCloud(WrappedCloud):
    """A provider whose words on the key are noted when they are others than before."""

    def __init__(
        self,
        inner: GpuCloud,
        note: Callable[[KeyRefusedError | None], None],
        *,
        is_refused: bool,
    ) -> None:
        """`note` is given the refusal, or `None` for a key that is taken again."""
        super().__init__(inner)
        self._note = note
        self._is_refused = is_refused

    def _around(self, call_name: str, call: Callable[[], T]) -> T:
        try:
            result = call()
        except KeyRefusedError as refusal:
            if not self._is_refused:
                self._note(refusal)
            raise
        # What follows a create call must not be delayed.
        if self._is_refused and call_name != "create":
            self._note(None)
        return result


def ask_each(
    open_to: Mapping[str, OwnKey | None],
    wanted: Requirements,
    ask: Callable[[str, OwnKey | None], Iterable[Offer]],
) -> Answers:
    """Ask the providers of `open_to` that are wanted, each with its key."""
    offers: list[Offer] = []
    failures: dict[str, CloudError] = {}
    asked = [name for name in open_to if not wanted.providers or name in wanted.providers]
    for name in asked:
        try:
            offers += ask(name, open_to[name])
        except CloudError as error:
            failures[name] = error
    return Answers(offers, failures, is_any=not asked or len(failures) < len(asked))


def ref_of(own: OwnKey) -> KeyRef:
    """Where the key's text lies."""
    return KeyRef(own.provider, own.account_id, own.version)


def machines_under(records: Records, own: OwnKey) -> list[Machine]:
    """The machines that were rented with the key and are not proven gone."""
    return [
        machine
        for machine in records.store.list_active(Machine)
        if machine.key_of == own.account_id and machine.offer.provider == own.provider
    ]
