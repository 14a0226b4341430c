"""The key of EC2: an access key, or a role in the customer's AWS account that we take on.

A role is asked for with an external id. It is ours to choose and names one account of Podferry: if
users chose it, one of them could name the role of another, which trusts us, and rent at that one's
expense (AWS calls that the confused deputy). Roles of other names are not taken on: our functions
may assume `podferry*` only.
"""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from podferry.adapters.providers.scrub import wrong_places
from podferry.domain.errors import KeyRefusedError

Region = Annotated[str, Field(pattern=r"^[a-z]{2,}(-[a-z0-9]+)+$")]
RoleArn = Annotated[
    str, Field(pattern=r"^arn:aws(-[a-z]+)*:iam::[0-9]{12}:role/podferry[A-Za-z0-9+=,.@_-]{0,56}$")
]
# STS: 2 to 1,224 characters.
ExternalId = Annotated[str, Field(pattern=r"^[A-Za-z0-9+=,.@:/_-]{2,1224}$")]

_FORMS = (
    '{"access_key_id": "...", "secret_access_key": "..."} or '
    '{"role_arn": "arn:aws:iam::123456789012:role/podferry..."}'
)


class Ec2Key(BaseModel):
    """The `api_key` of the provider keys' `ec2` entry, as JSON text.

    Example:
        {"access_key_id": "AKIA...", "secret_access_key": "...", "regions": ["us-east-1"]}
        {"role_arn": "arn:aws:iam::123456789012:role/podferry", "external_id": "..."}
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    access_key_id: str | None = Field(None, min_length=1)
    secret_access_key: str | None = Field(None, min_length=1, repr=False)
    role_arn: RoleArn | None = None
    external_id: ExternalId | None = None
    regions: list[Region] = Field(default=["us-east-1"], min_length=1)
    image: str | None = None
    """An AMI, or `resolve:ssm:` and a parameter; it needs Docker and NVIDIA's toolkit."""
    security_groups: dict[str, list[str]] = Field(default_factory=dict)
    """By region; without them the network's default group, which lets nobody in."""
    subnets: dict[str, str] = Field(default_factory=dict)
    """By zone; without them the default network."""


def read_key(text: str) -> Ec2Key:
    """The key in an `api_key`.

    Raises:
        KeyRefusedError: it is not of that form.
    """
    try:
        key = Ec2Key.model_validate_json(text)
    except ValidationError as error:
        raise KeyRefusedError(
            f"the api_key of ec2 must be JSON text like {_FORMS}; wrong at: {wrong_places(error)}"
        ) from None
    user = [key.access_key_id, key.secret_access_key]
    role = [key.role_arn, key.external_id]
    if not (all(user) and not any(role)) and not (all(role) and not any(user)):
        raise KeyRefusedError(
            f"the api_key of ec2 must be JSON text like {_FORMS}, one of them and whole; a role "
            "also needs the external_id that its trust policy asks for"
        )
    return key


def with_external_id(text: str, external_id: str) -> str:
    """An account's key as it is kept: a role is taken on with the external id of that account.

    Raises:
        KeyRefusedError: it names another one.
    """
    said = _object(text)
    if "role_arn" not in said:
        return text
    if said.get("external_id", external_id) != external_id:
        raise KeyRefusedError(
            f"external_id: leave it out; for this account it is {external_id}, which the trust "
            "policy of the role has to ask for"
        )
    return json.dumps(said | {"external_id": external_id})


def _object(text: str) -> dict[str, Any]:
    """Empty for what is none: `read_key` says what is wrong with it."""
    try:
        said = json.loads(text)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
