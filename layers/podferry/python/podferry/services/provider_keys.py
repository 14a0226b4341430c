"""Accounts put in, look at and take out their own keys at the providers."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from podferry.domain.errors import (
    ConflictError,
    FieldProblem,
    InvalidRequestError,
    NotFoundError,
    ProviderRefusedError,
    WrongStateError,
)
from podferry.domain.ghost import Ghost
from podferry.domain.machine import Machine
from podferry.domain.provider_key import (
    KeyState,
    OwnKey,
    RoleTrust,
    external_id_of,
    own_key_id,
)
from podferry.ports.gpu_cloud import MachineView
from podferry.ports.key_vault import KeyVault
from podferry.ports.store import Change, Create, Delete, Update
from podferry.services.clouds import Clouds, machines_under, ref_of
from podferry.services.records import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Who takes on roles."""

    id: str
    aws_account: Callable[[], str]


@dataclass(frozen=True, slots=True)
class ProviderKeys:
    """The text of a key goes to the provider and to the vault, and is shown to nobody."""

    records: Records
    clouds: Clouds
    vault: KeyVault
    deployment: Deployment

    def put(
        self, account_id: str, provider: str, api_key: str, *, is_same_account: bool = False
    ) -> OwnKey:
        """Check the key at the provider, then rent with it from now on.

        `is_same_account`: the owner says that the key belongs to the same account at the provider
        as the one it replaces, where its listing does not prove that by itself.

        Raises:
            NotFoundError: no such provider.
            InvalidRequestError: the provider does not take the key.
            WrongStateError: the key does not show a machine that was rented with the one before.
            ProviderBusyError, ConflictError: nothing was changed; try again.
        """
        self._known(provider)
        text, listed = self._checked(account_id, provider, api_key)
        before = self.clouds.own_key(provider, account_id)
        if before is not None and not is_same_account:
            self._check_sees(before, listed)
        fresh = self._new(account_id, provider, before)
        self.vault.put(ref_of(fresh), text)
        self.records.store.commit(Create(fresh) if before is None else Update(fresh))
        return self.get(account_id, provider)

    def get(self, account_id: str, provider: str) -> OwnKey:
        """Raises: NotFoundError: no such provider, or the account has no key of its own for it."""
        self._known(provider)
        key = self.clouds.own_key(provider, account_id)
        if key is None:
            raise _none(provider)
        return key

    def trust(self, account_id: str, provider: str) -> RoleTrust:
        """Whom a role has to trust that the account lets us take on at the provider.

        Raises:
            NotFoundError: no such provider, or it has no roles.
        """
        self._known(provider)
        if not self.clouds.providers.takes_roles(provider):
            raise NotFoundError(f"{provider} has no roles that could be taken on; put a key")
        external_id = external_id_of(self.deployment.id, account_id)
        return RoleTrust(aws_account=self.deployment.aws_account(), external_id=external_id)

    def all_of(self, account_id: str) -> list[OwnKey]:
        """The account's own keys, by provider."""
        keys = self.records.all_owned(OwnKey, account_id)
        return sorted(keys, key=lambda key: key.provider)

    def delete(self, account_id: str, provider: str) -> None:
        """Rent with the deployment's key again, if there is one.

        Raises:
            NotFoundError: the account has no key of its own for the provider.
            WrongStateError: machines stand that nobody could end without it.
            ConflictError: a machine was rented with it a moment ago; try again.
        """
        self._known(provider)
        had_key = self.clouds.own_key(provider, account_id) is not None

        def plan() -> Sequence[Change]:
            key = self.clouds.own_key(provider, account_id)
            if key is None:
                return []
            self._check_unused(key)
            return [Delete(key)]

        self.records.apply(plan)
        # After the row: a row without its text would strand machines, a text without its row is
        # harmless. Also if there was no row: an earlier deletion may have been cut off here.
        self.vault.delete(provider, account_id)
        if not had_key:
            raise _none(provider)

    def _known(self, provider: str) -> None:
        if problem := self.clouds.why_unknown(provider):
            raise NotFoundError(problem)

    def _checked(
        self, account_id: str, provider: str, api_key: str
    ) -> tuple[str, list[MachineView]]:
        """The key as it is kept, and what the provider shows with it.

        Its listing of machines is a harmless call that only a good key can make.
        """
        external_id = external_id_of(self.deployment.id, account_id)
        providers = self.clouds.providers
        try:
            text = providers.completed(provider, api_key, external_id)
            return text, providers.on_trial(provider, text).list_machines()
        except ProviderRefusedError as error:
            raise InvalidRequestError(
                f"{provider} does not take this key",
                fields=(FieldProblem("/api_key", error.detail),),
            ) from error

    def _check_sees(self, before: OwnKey, listed: Sequence[MachineView]) -> None:
        shown = {view.stamp for view in listed}
        hidden = [m for m in machines_under(self.records, before) if m.stamp not in shown]
        if hidden or before.may_just_be_used(self.records.now()):
            raise WrongStateError(
                f"the new key must show the machines that were rented with the old one; "
                f"{_pods(hidden)}. Stop those pods first, try again in a minute if they have just "
                "started, or send same_provider_account: true if both keys belong to one account "
                f"at {before.provider}"
            )

    def _new(self, account_id: str, provider: str, before: OwnKey | None) -> OwnKey:
        now = self.records.now()
        version = str(uuid.UUID(int=self.records.randomness.bits(128)))
        if before is not None:
            state = KeyState.WORKS
            return replace(
                before, version=version, checked_at=now, state=state, state_at=now, detail=None
            )
        return OwnKey(
            id=own_key_id(provider, account_id),
            account_id=account_id,
            created_at=now,
            provider=provider,
            version=version,
            checked_at=now,
            state_at=now,
        )

    def _check_unused(self, key: OwnKey) -> None:
        standing = machines_under(self.records, key)
        if standing:
            raise WrongStateError(
                f"machines that were rented with this key stand at {key.provider} and could not "
                f"be ended without it; {_pods(standing)}: stop those pods first"
            )
        if key.may_just_be_used(self.records.now()):
            raise ConflictError(
                "a machine was rented with this key within the last minute; try again in a minute"
            )
        if any(
            (ghost.provider, ghost.key_of) == (key.provider, key.account_id)
            for ghost in self.records.store.list_active(Ghost)
        ):
            raise WrongStateError(
                f"a machine that belongs to no pod stands at {key.provider} under this key; it is "
                "being given up: try again in some minutes"
            )


def _none(provider: str) -> NotFoundError:
    return NotFoundError(f"this account has no key of its own for {provider}")


def _pods(machines: Sequence[Machine]) -> str:
    pods = sorted({machine.pod_id for machine in machines})
    return f"machines of {', '.join(pods[:5])}" if pods else "a machine has just been rented"
