"""Accounts put in, rotate, look at and take out the secrets that their pods get."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from podferry.domain.errors import (
    ConflictError,
    NotFoundError,
    SecretMissingError,
    WrongStateError,
)
from podferry.domain.pod import Pod, PodState, RunSpec
from podferry.domain.secret import SECRETS_PER_ACCOUNT, Secret, secret_id
from podferry.ports.key_vault import KeyRef, KeyVault
from podferry.ports.store import Change, Create, Delete, Update
from podferry.services.records import Records

_SHOWN_PODS = 5


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A secret, and the pods whose environment names it."""

    secret: Secret
    pod_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Secrets:
    """The text of a secret goes to the vault and is shown to nobody."""

    records: Records
    vault: KeyVault

    def add(self, account_id: str, name: str, value: str) -> SecretUse:
        """Keep a new secret.

        Raises:
            ConflictError: there is one of that name, or there are too many.
        """
        if self._find(account_id, name) is not None:
            raise ConflictError(
                f"there is a secret {name}; PUT /v1/secrets/{name} gives it another text"
            )
        return self.put(account_id, name, value)

    def put(self, account_id: str, name: str, value: str) -> SecretUse:
        """Keep a secret, or give it another text; pods get it with their next start.

        Raises:
            ConflictError: there are too many, or it changed at the same moment.
        """
        before = self._find(account_id, name)
        fresh = self._new(account_id, name, before)
        # Before the row: a row whose text is not there would fail starts.
        self.vault.put(ref_of(fresh), value)
        self.records.store.commit(Create(fresh) if before is None else Update(fresh))
        return self.get(account_id, name)

    def get(self, account_id: str, name: str) -> SecretUse:
        """Raises: NotFoundError: the account has no such secret."""
        secret = self._find(account_id, name)
        if secret is None:
            raise _none(name)
        return SecretUse(secret, self._users(account_id).get(name, ()))

    def all_of(self, account_id: str) -> list[SecretUse]:
        """The account's secrets, by name."""
        users = self._users(account_id)
        secrets = self.records.all_owned(Secret, account_id)
        uses = [SecretUse(secret, users.get(secret.name, ())) for secret in secrets]
        return sorted(uses, key=lambda use: use.secret.name)

    def delete(self, account_id: str, name: str) -> None:
        """Take the secret out.

        Raises:
            NotFoundError: the account has no such secret.
            WrongStateError: pods name it; says which.
        """
        had_one = self._find(account_id, name) is not None

        def plan() -> Sequence[Change]:
            secret = self._find(account_id, name)
            if secret is None:
                return []
            if pod_ids := self._users(account_id).get(name, ()):
                raise WrongStateError(
                    f"secret {name} is in the environment of {_listed(pod_ids)}; take it out "
                    "there (PATCH), or delete those pods, first"
                )
            return [Delete(secret)]

        self.records.apply(plan)
        # After the row, and also if there was none: an earlier deletion may have ended here.
        self.vault.delete(name, account_id)
        if not had_one:
            raise _none(name)

    def _find(self, account_id: str, name: str) -> Secret | None:
        return self.records.store.find(Secret, secret_id(account_id, name))

    def _new(self, account_id: str, name: str, before: Secret | None) -> Secret:
        now = self.records.now()
        version = str(uuid.UUID(int=self.records.randomness.bits(128)))
        if before is not None:
            return replace(before, version=version, rotated_at=now)
        if len(list(self.records.all_owned(Secret, account_id))) >= SECRETS_PER_ACCOUNT:
            raise ConflictError(
                f"an account has at most {SECRETS_PER_ACCOUNT} secrets; delete one first"
            )
        return Secret(
            id=secret_id(account_id, name),
            account_id=account_id,
            created_at=now,
            name=name,
            version=version,
            rotated_at=now,
        )

    def _users(self, account_id: str) -> dict[str, tuple[str, ...]]:
        """By the secret's name the pods that name it."""
        users: dict[str, tuple[str, ...]] = {}
        for pod in self.records.all_owned(Pod, account_id):
            if pod.state != PodState.DELETED:
                for name in set(pod.spec.secrets.values()):
                    users[name] = (*users.get(name, ()), pod.id)
        return users


def require_secrets(records: Records, account_id: str, spec: RunSpec) -> None:
    """Do nothing if the account has every secret that the environment names.

    Raises:
        SecretMissingError: names those that it has not.
    """
    names = sorted(set(spec.secrets.values()))
    missing = [n for n in names if records.store.find(Secret, secret_id(account_id, n)) is None]
    if missing:
        raise missing_secrets(missing)


def missing_secrets(names: Iterable[str]) -> SecretMissingError:
    """The error that tells which secrets there are not."""
    return SecretMissingError(
        f"this account has no secret {', '.join(names)}, which the pod's environment names; "
        "POST /v1/secrets adds it"
    )


def ref_of(secret: Secret) -> KeyRef:
    """Where the secret's text lies."""
    return KeyRef(secret.name, secret.account_id, secret.version)


def _none(name: str) -> NotFoundError:
    return NotFoundError(f"this account has no secret {name}")


def _listed(pod_ids: Sequence[str]) -> str:
    more = len(pod_ids) - _SHOWN_PODS
    text = ", ".join(pod_ids[:_SHOWN_PODS])
    return f"{text} and {more} more" if more > 0 else text
