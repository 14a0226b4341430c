"""EC2's keys: access keys or a role, and what is no key."""

import json

import pytest
from moto import mock_aws

from podferry.adapters.providers.ec2 import Ec2Cloud
from podferry.adapters.providers.ec2_key import with_external_id
from podferry.domain import errors

KEY = json.dumps({"access_key_id": "AKIASIM", "secret_access_key": "canary-secret-access-key"})
ROLE = "arn:aws:iam::123456789012:role/podferry"
ID = "us-east-1.i-0abc1234567890def"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AKIA:secret",
        "{}",
        '{"access_key_id": "a", "secret_access_key": "canary", "x": 1}',
        '{"access_key_id": "canary"}',
        json.dumps({"role_arn": ROLE}),
        json.dumps({"external_id": "canary"}),
        json.dumps({"role_arn": ROLE.replace("podferry", "admin"), "external_id": "canary"}),
        json.dumps({"role_arn": "canary", "external_id": "two"}),
        json.dumps({"role_arn": ROLE, "external_id": "canary two"}),
        json.dumps(json.loads(KEY) | {"role_arn": ROLE, "external_id": "two"}),
    ],
)
def test_a_key_of_another_form_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(errors.ProviderRefusedError, match="api_key of ec2 must be JSON") as raised:
        Ec2Cloud(text).get(ID)

    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("regions", [[], [""], ["../x"], ["us-east-1", "US EAST"], ["us"]])
def test_regions_that_cannot_be_names_are_refused_with_the_key(
    regions: list[str],
) -> None:
    key = json.dumps(json.loads(KEY) | {"regions": regions})
    with pytest.raises(errors.KeyRefusedError, match="wrong at: regions"):
        Ec2Cloud(key).list_machines()


def test_a_role_is_taken_on_at_moto_when_it_is_first_used() -> None:
    key = json.dumps({"role_arn": ROLE, "external_id": "podferry-1-acct_1"})
    with mock_aws():
        assert Ec2Cloud(key).list_machines() == []


def test_the_external_id_of_a_role_is_ours_and_of_an_access_key_there_is_none() -> None:
    ours = json.dumps({"role_arn": ROLE, "external_id": "ours"})
    assert with_external_id(json.dumps({"role_arn": ROLE}), "ours") == ours
    assert with_external_id(ours, "ours") == ours
    for text in (KEY, "no json", "[]", '"role_arn"'):
        assert with_external_id(text, "ours") == text
    with pytest.raises(errors.KeyRefusedError, match="for this account it is mine"):
        with_external_id(ours, "mine")
