"""A few seeds of chaos. Many more: `make chaos`."""

from collections.abc import Iterator

import pytest

from tests.chaos.campaign import Campaign

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
STEPS = 6


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    data = tmp_path_factory.mktemp("chaos")
    campaign = Campaign(data / "stacks", data / "failures", print)
    try:
        yield campaign
    finally:
        campaign.stop()


@pytest.mark.parametrize("seed", [2, 4, 7])
def test_promises_01_to_10_hold_whatever_breaks(campaign: Campaign, seed: int) -> None:
    outcome = campaign.run(campaign.plan(seed, STEPS))
    assert outcome.violations == (), f"see {outcome.kept}"


def test_every_switch_of_every_simulator_is_thrown(campaign: Campaign) -> None:
    plans = [campaign.plan(seed) for seed in range(2000)]
    lies = [s.arguments for plan in plans for s in plan.steps if s.action == "lie"]
    thrown = {(lie["provider"], lie["switch"]) for lie in lies}
    assert thrown == {(p, switch) for p, names in campaign.switches.items() for switch in names}
