"""The simulated EC2 and Google through our adapters: what a VM does, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from local.providers.ec2 import Ec2Simulator
from local.providers.gce import GceSimulator
from local.providers.simulator import Simulator
from podferry.adapters.providers.registry import ProviderAdapter, adapter
from podferry.domain import errors
from podferry.domain.offer import Market, Requirements
from podferry.ports.gpu_cloud import LaunchRequest, ViewState
from tests.local.providers.client import Client, ask, wait_for
from tests.local.providers.serving import Serving

KINDS: dict[str, type[Simulator]] = {"ec2": Ec2Simulator, "gce": GceSimulator}
STAMP = "pf-0a1b2c3d-0123456789abc"


@dataclass
class Cloud:
    """One running simulator: the adapter, and the control surface."""

    name: str
    adapter: ProviderAdapter
    control: Client

    def launch(self, script: str, stamp: str = STAMP, market: Market = Market.SPOT) -> str:
        return self.adapter.create(self.request(script, stamp, market))

    def request(self, script: str, stamp: str, market: Market) -> LaunchRequest:
        offers = self.adapter.list_offers(Requirements())
        offer = min(
            (each for each in offers if each.market is market),
            key=lambda each: each.price_microusd_per_hour,
        )
        return LaunchRequest(stamp=stamp, offer=offer, image="img:1", bootstrap=script)

    def log(self, made: str) -> str:
        return ask(self.control.url, "GET", f"/_sim/instances/{made}/log").body.decode()


@pytest.fixture
def start(serving: Serving) -> Callable[[str], Cloud]:
    def start(name: str) -> Cloud:
        simulator, url = serving.start(KINDS[name])
        return Cloud(name, adapter(name, simulator.api_key, url), Client(url))

    return start


@pytest.fixture(params=sorted(KINDS))
def cloud(request: pytest.FixtureRequest, start: Callable[[str], Cloud]) -> Cloud:
    return start(request.param)


def test_commands_of_a_test_run_in_the_container_and_not_on_the_vm(cloud: Cloud) -> None:
    made = cloud.launch("touch /in-the-pod; echo up; exec sleep 1000")
    wait_for(lambda: "up" in cloud.log(made), 20)

    assert "in-the-pod" in cloud.control.exec(made, "ls /")
    assert "nvidia-smi" in cloud.control.exec(made, "ls /usr/bin")
    assert cloud.control.exec(made, "ls /var/lib/docker 2>&1 || true").startswith("ls:")


def test_the_end_of_the_container_ends_the_machine(cloud: Cloud) -> None:
    made = cloud.launch("echo bye; exit 3")

    ended = {ViewState.GONE, ViewState.STOPPED}
    wait_for(lambda: cloud.adapter.get(made).state in ended, 20)

    view = cloud.adapter.get(made)
    assert cloud.name == "gce" or "InstanceInitiatedShutdown" in str(view.reason)
    cloud.adapter.give_up(made)
    assert cloud.adapter.get(made).state is ViewState.GONE


def test_a_warning_reaches_the_container_and_then_the_spot_machine_is_gone(cloud: Cloud) -> None:
    # It goes on after the warning: a VM that ends by itself would not be ended by its provider.
    made = cloud.launch("trap 'echo saved' TERM; echo up; while :; do sleep 0.05; done")
    wait_for(lambda: "up" in cloud.log(made), 20)

    cloud.control.sim("POST", f"instances/{made}/reclaim", {"notice": "sigterm", "seconds": 5})

    wait_for(lambda: "saved" in cloud.log(made), 20)
    wait_for(lambda: cloud.adapter.get(made).state is ViewState.GONE, 20)
    reason = str(cloud.adapter.get(made).reason)
    assert cloud.name == "gce" or reason.startswith("Server.SpotInstanceTermination")


def test_a_machine_goes_on_after_the_simulator_was_restarted(
    cloud: Cloud, serving: Serving, start: Callable[[str], Cloud]
) -> None:
    made = cloud.launch("echo x >> /boots; echo up; exec sleep 1000")
    wait_for(lambda: "up" in cloud.log(made), 20)

    serving.end_all()
    again = start(cloud.name)

    wait_for(lambda: again.log(made).count("up") == 2, 20)
    assert again.control.exec(made, "wc -l < /boots").strip() == "2"
    assert again.adapter.get(made).stamp == STAMP


def test_an_image_that_does_not_exist_ends_the_machine_with_the_engines_words(
    cloud: Cloud,
) -> None:
    request = replace(
        cloud.request("exit 0", STAMP, Market.SPOT), image="docker.io/broken/nonexistent:1"
    )

    made = cloud.adapter.create(request)

    wait_for(
        lambda: "manifest unknown" in cloud.log(made) or cloud.control.phase(made) == "gone", 40
    )
    ended = {ViewState.GONE, ViewState.STOPPED}
    wait_for(lambda: cloud.adapter.get(made).state in ended, 40)


def test_seconds_are_billed_and_a_minute_at_least(cloud: Cloud) -> None:
    made = cloud.launch("exec sleep 1000", market=Market.ON_DEMAND)
    cloud.control.wait_phase(made, "running")
    per_hour = cloud.control.state(made)["micros_per_hour"]

    assert cloud.control.cost(made) == round(per_hour / 60)
    cloud.control.skip(1800)
    assert abs(cloud.control.cost(made) - per_hour / 2) < per_hour / 300
    cloud.adapter.give_up(made)
    ended = cloud.control.cost(made)
    cloud.control.skip(3600)
    assert cloud.control.cost(made) == ended


def test_case_p1_the_same_launch_twice_is_one_machine(cloud: Cloud) -> None:
    request = cloud.request("exec sleep 1000", STAMP, Market.SPOT)

    made = [cloud.adapter.create(request) for _ in range(2)]

    assert made[0] == made[1]
    assert len(cloud.control.sim("GET", "state")["instances"]) == 1


def test_case_p1_ec2_refuses_another_launch_with_the_same_token(
    start: Callable[[str], Cloud],
) -> None:
    cloud = start("ec2")
    cloud.launch("exec sleep 1000")

    with pytest.raises(errors.OutcomeUnknownError, match="IdempotentParameterMismatch"):
        cloud.launch("exec sleep 2000")


def test_ec2_forgets_an_ended_machine_after_an_hour(start: Callable[[str], Cloud]) -> None:
    cloud = start("ec2")
    made = cloud.launch("exec sleep 1000")
    cloud.adapter.give_up(made)
    assert cloud.adapter.get(made).stamp == STAMP

    cloud.control.skip(3601)

    view = cloud.adapter.get(made)
    assert (view.state, view.stamp) == (ViewState.GONE, None)
    assert cloud.adapter.find(STAMP) == []


def test_stock_is_counted_and_running_out_is_no_capacity(cloud: Cloud) -> None:
    made = [cloud.launch("exec sleep 1000", f"pf-{number}") for number in range(6)]

    with pytest.raises(errors.NoCapacityError):
        cloud.launch("exec sleep 1000", "pf-7")

    assert len(set(made)) == 6
