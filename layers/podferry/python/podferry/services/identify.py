"""Turn a bearer token into who is asking."""

import hmac
from dataclasses import dataclass
from hashlib import sha256

from podferry.domain.account import ApiKey, Scope
from podferry.domain.errors import TokenInvalidError
from podferry.domain.ids import is_id
from podferry.domain.machine import Machine
from podferry.domain.principal import Principal, PrincipalKind
from podferry.ports.store import Store
from podferry.ports.surroundings import Clock, OperatorKey

OPERATOR_PREFIX = "pf_admin_"
KEY_PREFIX = "pf_"
BOOT_PREFIX = "pfb_"
MACHINE_PREFIX = "pfm_"


def token_digest(token: str) -> str:
    """What is stored of a token."""
    return sha256(token.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Identify:
    """The only place that decides whether a token is good."""

    store: Store
    operator_key: OperatorKey
    clock: Clock

    def who(self, token: str) -> Principal:
        """Whom the token belongs to.

        Raises:
            TokenInvalidError: it is malformed, unknown or revoked.
        """
        if token.startswith(OPERATOR_PREFIX):
            return self._operator(token)
        if token.startswith(KEY_PREFIX):
            return self._account(token)
        if token.startswith((BOOT_PREFIX, MACHINE_PREFIX)):
            return self._machine(token)
        raise _unknown()

    def _operator(self, token: str) -> Principal:
        if not self.operator_key.matches(token):
            raise _unknown()
        return Principal(kind=PrincipalKind.OPERATOR, scopes=frozenset({Scope.ADMIN}))

    def _account(self, token: str) -> Principal:
        part, _, secret = token.removeprefix(KEY_PREFIX).partition("_")
        key_id = f"{ApiKey.PREFIX}_{part}"
        if not secret or not is_id(ApiKey.PREFIX, key_id):
            raise _unknown()
        key = self.store.find(ApiKey, key_id)
        if key is None or not _is_same(token, key.token_sha256):
            raise _unknown()
        if key.revoked_at is not None and key.revoked_at <= self.clock.now():
            raise TokenInvalidError(f"key {key.id} is revoked; use another key of the account")
        return Principal(
            kind=PrincipalKind.ACCOUNT,
            account_id=key.account_id,
            scopes=frozenset(key.scopes),
            key_id=key.id,
        )

    def _machine(self, token: str) -> Principal:
        """A machine stays known after its end: its agent has to be told to stop (`epoch_stale`)."""
        is_boot = token.startswith(BOOT_PREFIX)
        prefix, _, rest = token.partition("_")[2].partition("_")
        part, _, secret = rest.partition("_")
        machine_id = f"{prefix}_{part}"
        if not secret or not is_id(Machine.PREFIX, machine_id):
            raise _unknown()
        machine = self.store.find(Machine, machine_id)
        if machine is None:
            raise _unknown()
        expected = machine.boot_token_sha256 if is_boot else machine.token_sha256
        if expected is None or not _is_same(token, expected):
            raise _unknown()
        return Principal(
            kind=PrincipalKind.BOOT if is_boot else PrincipalKind.MACHINE,
            account_id=machine.account_id,
            machine_id=machine.id,
        )


def _is_same(token: str, digest: str) -> bool:
    return hmac.compare_digest(token_digest(token), digest)


def _unknown() -> TokenInvalidError:
    return TokenInvalidError("this token is not known; check that it was copied whole")
