"""Every provider's word on a key, over its simulator: taken, or refused as a key."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from podferry.adapters.memory.key_vault import MemoryKeyVault
from podferry.adapters.memory.store import MemoryStore
from podferry.adapters.memory.surroundings import ManualClock, MemorySignals, SeededRandomness
from podferry.adapters.providers.clouds import KeyedClouds, ProviderKey
from podferry.domain.errors import InvalidRequestError
from podferry.services.clouds import Clouds
from podferry.services.provider_keys import Deployment, ProviderKeys
from podferry.services.records import Records
from tests.contract.providers.machines import WANTED, a_launch, end
from tests.contract.providers.simulation import Simulation

ACCOUNT = "acct_1"
at_ec2 = pytest.mark.parametrize("running_simulation", ["ec2"], indirect=True)
DEPLOYMENT = Deployment(id="0a1b2c3d", aws_account=lambda: "123456789012")


@dataclass
class Office:
    """An account that puts keys in, and a deployment that knows the provider's address."""

    simulation: Simulation
    vault: MemoryKeyVault = field(default_factory=MemoryKeyVault)

    def __post_init__(self) -> None:
        records = Records(MemoryStore(), ManualClock(), SeededRandomness())
        deployments = ProviderKey("a key that the provider does not know", self.simulation.url)
        keys = {self.simulation.provider: deployments}
        signals = MemorySignals()
        self.clouds = Clouds(records, KeyedClouds(lambda: keys, signals, self.vault.text), signals)
        self.keys = ProviderKeys(records, self.clouds, self.vault, DEPLOYMENT)


@pytest.fixture
def office(simulation: Simulation) -> Office:
    return Office(simulation)


def test_a_good_key_is_taken_and_rents_in_place_of_the_deployments(office: Office) -> None:
    name = office.simulation.provider
    own = office.keys.put(ACCOUNT, name, office.simulation.api_key())
    assert office.clouds.with_key(name, own).list_offers(WANTED)


@pytest.mark.parametrize("is_well_formed", [True, False])
def test_a_bad_key_is_refused_on_entry_and_kept_nowhere(
    office: Office, is_well_formed: bool
) -> None:
    wrong = office.simulation.api_key("wrong") if is_well_formed else "wrong"
    with pytest.raises(InvalidRequestError, match="does not take this key") as caught:
        office.keys.put(ACCOUNT, office.simulation.provider, wrong)
    assert [problem.where for problem in caught.value.fields] == ["/api_key"]
    assert office.vault.texts == {}
    assert office.keys.all_of(ACCOUNT) == []


@pytest.mark.parametrize("text", ["a\nb", "\u043a\u043b\u044e\u0447", "wrong\x00"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_asked_for_again(
    office: Office, text: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        office.keys.put(ACCOUNT, office.simulation.provider, text)
    assert [problem.where for problem in caught.value.fields] == ["/api_key"]
    assert office.vault.texts == {}


def a_role(trusted: str, **more: str) -> str:
    """A key that names a role, which trusts who says `trusted`."""
    role = f"arn:aws:iam::123456789012:role/podferry-for-{trusted}"
    return json.dumps({"role_arn": role, **more})


@pytest.fixture
def _functions_role(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "the-functions-own")


@at_ec2
@pytest.mark.usefixtures("_functions_role")
def test_a_role_that_trusts_the_accounts_external_id_is_taken_on(office: Office) -> None:
    trust = office.keys.trust(ACCOUNT, "ec2")
    own = office.keys.put(ACCOUNT, "ec2", a_role(trust.external_id))
    cloud = office.clouds.with_key("ec2", own)
    launch = a_launch(cloud)
    made = cloud.create(launch)
    assert [view.provider_id for view in cloud.find(launch.stamp)] == [made]
    end(cloud, made)


@at_ec2
@pytest.mark.usefixtures("_functions_role")
@pytest.mark.parametrize("says", [{}, {"external_id": "podferry-0a1b2c3d-acct_2"}])
def test_a_role_that_trusts_another_account_of_ours_is_refused_on_entry(
    office: Office, says: dict[str, str]
) -> None:
    others = office.keys.trust("acct_2", "ec2").external_id
    with pytest.raises(InvalidRequestError) as caught:
        office.keys.put(ACCOUNT, "ec2", a_role(others, **says))
    assert [problem.where for problem in caught.value.fields] == ["/api_key"]
    assert office.vault.texts == {}
