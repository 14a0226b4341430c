"""Credentials of a customer's role: taken on for an hour at a time, and again before it is over."""

from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver, RefreshableCredentials

from podferry.adapters.providers.ec2_key import Ec2Key

SESSION_NAME = "podferry"
SESSION_SECONDS = 3600
"""The longest that every role allows."""


def session_of_role(key: Ec2Key, base_url: str | None, config: Config) -> Any:
    """A boto3 session that has the role's rights. It asks STS when it is first used."""
    core = botocore.session.Session()
    core.register_component(
        "credential_provider", CredentialResolver([_Role(key, base_url, config)])
    )
    return boto3.session.Session(botocore_session=core)


class _Role(CredentialProvider):
    METHOD = "podferry-role"
    CANONICAL_NAME = "podferry-role"

    def __init__(self, key: Ec2Key, base_url: str | None, config: Config) -> None:
        super().__init__()
        self._key = key
        # With the function's own rights; a regional endpoint, since the global one may be far away.
        session: Any = boto3.session.Session()
        options = {"region_name": key.regions[0], "endpoint_url": base_url, "config": config}
        self._sts = session.client("sts", **options)

    def load(self) -> RefreshableCredentials:
        return RefreshableCredentials.create_from_metadata(
            metadata=self._taken_on(), refresh_using=self._taken_on, method=self.METHOD
        )

    def _taken_on(self) -> dict[str, str]:
        got = self._sts.assume_role(
            RoleArn=self._key.role_arn,
            ExternalId=self._key.external_id,
            RoleSessionName=SESSION_NAME,
            DurationSeconds=SESSION_SECONDS,
        )["Credentials"]
        return {
            "access_key": got["AccessKeyId"],
            "secret_key": got["SecretAccessKey"],
            "token": got["SessionToken"],
            "expiry_time": got["Expiration"].isoformat(),
        }
