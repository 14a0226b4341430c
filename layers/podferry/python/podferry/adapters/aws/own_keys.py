"""Texts of accounts in Secrets Manager: one of its secrets for each account and name.

    podferry/<deployment>/provider-keys/<account>/<provider>
    podferry/<deployment>/secrets/<account>/<secret>

A version's text never changes, so what was read once is kept for as long as the process lives.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import StrEnum
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from podferry.adapters.aws.errors import aws_errors, code_of
from podferry.domain.errors import ConflictError
from podferry.ports.key_vault import KeyRef

if TYPE_CHECKING:
    from podferry.adapters.aws.clients import AwsClients

_TEXTS_KEPT = 64
_MISSING = "ResourceNotFoundException"
_EXISTS = "ResourceExistsException"
# What AWS says of a secret whose deletion has begun.
_BEING_DELETED = "InvalidRequestException"


class Shelf(StrEnum):
    """What kind of texts a vault has; part of their names, so that roles can tell them apart."""

    PROVIDER_KEYS = "provider-keys"
    SECRETS = "secrets"


_DESCRIPTIONS = {
    Shelf.PROVIDER_KEYS: "Podferry: an account's own key at a GPU provider",
    Shelf.SECRETS: "Podferry: a secret that an account gives to its pods",
}


class SecretsKeyVault:
    """A `KeyVault` in Secrets Manager, and the way back out for who may read it."""

    def __init__(
        self, clients: AwsClients, deployment: str, shelf: Shelf = Shelf.PROVIDER_KEYS
    ) -> None:
        self._clients = clients
        self._deployment = deployment
        self._shelf = shelf
        self._texts: OrderedDict[KeyRef, str] = OrderedDict()

    def put(self, ref: KeyRef, text: str) -> None:
        """See the port. The version is AWS's request token, so a repeated put is one."""
        name = self._name(ref.name, ref.account_id)
        with aws_errors(f"store the secret {name}"):
            try:
                self._put(name, ref.version, text)
            except ClientError as error:
                if code_of(error) not in {_BEING_DELETED, _EXISTS}:
                    raise
                raise ConflictError(
                    f"the last text for {ref.name} is still being stored or deleted; "
                    "try again in a minute"
                ) from error

    def _put(self, name: str, version: str, text: str) -> None:
        try:
            self._put_value(name, version, text)
        except ClientError as error:
            if code_of(error) != _MISSING:
                raise
            description = _DESCRIPTIONS[self._shelf]
            self._clients.secretsmanager.create_secret(Name=name, Description=description)
            self._put_value(name, version, text)

    def _put_value(self, name: str, version: str, text: str) -> None:
        self._clients.secretsmanager.put_secret_value(
            SecretId=name, SecretString=text, ClientRequestToken=version
        )

    def delete(self, name: str, account_id: str) -> None:
        """See the port. At once, without AWS's recovery window: the owner wants it gone."""
        full = self._name(name, account_id)
        with aws_errors(f"delete the secret {full}"):
            try:
                self._clients.secretsmanager.delete_secret(
                    SecretId=full, ForceDeleteWithoutRecovery=True
                )
            except ClientError as error:
                if code_of(error) != _MISSING:
                    raise

    def text(self, ref: KeyRef) -> str:
        """The text itself.

        Raises:
            InternalError: AWS does not give it.
        """
        if ref not in self._texts:
            name = self._name(ref.name, ref.account_id)
            with aws_errors(f"read the secret {name}"):
                answer = self._clients.secretsmanager.get_secret_value(
                    SecretId=name, VersionId=ref.version
                )
            self._texts[ref] = answer["SecretString"]
            if len(self._texts) > _TEXTS_KEPT:
                self._texts.popitem(last=False)
        return self._texts[ref]

    def _name(self, name: str, account_id: str) -> str:
        return f"podferry/{self._deployment}/{self._shelf}/{account_id}/{name}"
