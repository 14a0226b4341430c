"""Accounts' own keys at the providers: what goes in, and the little that comes out."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from podferry.domain.provider_key import KeyState, OwnKey, RoleTrust
from podferry.http.models.fields import Input, Output


class ProviderKeyBody(Input):
    """A key to rent with."""

    api_key: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(
        min_length=1,
        max_length=16_384,
        description=(
            "As the provider gave it. For `ec2` JSON text with `access_key_id` and "
            "`secret_access_key`, or with the `role_arn` of a role that trusts us (see `trust`); "
            "for `gce` the text of a service account's key file."
        ),
        json_schema_extra={"writeOnly": True},
    )
    same_provider_account: bool = Field(
        default=False,
        description=(
            "Say that the key belongs to the same account at the provider as the one it replaces, "
            "where the machines that it shows do not prove that."
        ),
    )


class ProviderKeyView(Output):
    """A key of the account, without its text."""

    provider: str
    state: KeyState = Field(
        description=(
            "`unauthorised`: the provider refused it. What runs goes on, but cannot be looked at "
            "or ended at the provider until a good key is put."
        )
    )
    state_at: datetime = Field(description="Since when it is in this state.")
    detail: str | None = Field(description="What the provider said when it refused the key.")
    checked_at: datetime = Field(description="When the provider was last known to take it.")
    created_at: datetime
    used_at: datetime | None = Field(description="When a machine was last chosen to rent with it.")

    @classmethod
    def of(cls, key: OwnKey) -> "ProviderKeyView":
        return cls(**{name: getattr(key, name) for name in cls.model_fields})


class RoleTrustView(Output):
    """Whom a role has to trust, so that it can be taken on for this account and for no other."""

    aws_account: str = Field(description="The AWS account that takes the role on.")
    external_id: str = Field(
        description="It is made by us, is no secret, and goes with the role in every request."
    )
    role_name_prefix: str = Field(
        description="Only roles whose names begin like this are taken on."
    )
    trust_policy: dict[str, Any] = Field(description="The whole policy, to be copied.")

    @classmethod
    def of(cls, trust: RoleTrust) -> "RoleTrustView":
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{trust.aws_account}:root"},
            "Action": "sts:AssumeRole",
            "Condition": {"StringEquals": {"sts:ExternalId": trust.external_id}},
        }
        return cls(
            aws_account=trust.aws_account,
            external_id=trust.external_id,
            role_name_prefix="podferry",
            trust_policy={"Version": "2012-10-17", "Statement": [statement]},
        )
