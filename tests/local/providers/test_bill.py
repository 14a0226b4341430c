"""Bills are right by the provider's rule, worked out by hand."""

from __future__ import annotations

import json

import pytest

from local.boxes.spec import GPU
from local.providers.billing import PerSecond, StartedHours
from local.providers.catalog import VAST_MACHINES, PriceFileError, with_price_file
from local.providers.instance import Instance, Phase

P, L, R, S, O, G = (  # noqa: E741
    Phase.PROVISIONING,
    Phase.PULLING,
    Phase.RUNNING,
    Phase.STOPPED,
    Phase.OFFLINE,
    Phase.GONE,
)


def an_instance(history, micros=1_000_000, **details):
    instance = Instance(
        id="1",
        name="x",
        offer="o",
        image="i",
        argv=[],
        environment={},
        ports=[],
        gpu=GPU("m", 1),
        micros_per_hour=micros,
        details=details,
    )
    instance.history = history
    instance.phase = history[-1][1]
    return instance


@pytest.mark.parametrize(
    ("history", "now", "hours"),
    [
        ([(0, P)], 5000, 0),
        ([(0, P), (10, Phase.FAILED)], 5000, 0),
        ([(0, P), (10, G)], 5000, 0),
        ([(0, P), (100, L)], 100, 1),
        ([(0, P), (100, L), (200, R)], 3700, 1),
        ([(0, P), (100, L), (200, R)], 3700.001, 2),
        ([(0, P), (100, L), (200, R), (160, G)], 99_999, 1),
        ([(0, P), (100, L), (200, R), (7301, G)], 99_999, 3),
        ([(0, P), (100, L), (200, R), (300, Phase.EXITED)], 7200, 2),
    ],
)
def test_every_started_hour_since_active_is_charged_in_full(history, now, hours):
    assert StartedHours().cost_micros(an_instance(history), now) == hours * 1_000_000


@pytest.mark.parametrize(
    ("history", "now", "gpu_seconds", "disk_seconds"),
    [
        ([(0, P)], 100, 0, 100),
        ([(0, P), (10, L), (30, R)], 100, 70, 100),
        ([(0, P), (10, L), (30, R), (90, G)], 1000, 60, 90),
        ([(0, P), (10, L), (30, R), (90, S)], 1000, 60, 1000),
        ([(0, P), (10, L), (30, R), (90, O)], 1000, 60, 90),
        ([(0, P), (10, R), (20, S), (50, L), (60, R), (80, G)], 1000, 30, 80),
        ([(0, S)], 3600, 0, 3600),
    ],
)
def test_the_gpu_is_charged_while_it_runs_and_the_disk_while_it_exists(
    history, now, gpu_seconds, disk_seconds
):
    instance = an_instance(history, micros=3_600_000, disk=72.0, storage_cost=36.0)
    # 72 GB at 36 dollars for 720 hours are 3.60 dollars for an hour: 1000 micros for a second each.
    expected = (gpu_seconds + disk_seconds) * 1000
    assert PerSecond().cost_micros(instance, now) == expected


def test_a_fluence_container_is_billed_by_the_hour_from_active(fluence):
    instance = fluence.launch()
    fluence.wait_phase(instance, "running")
    assert fluence.cost(instance) == 1_500_000
    fluence.skip(3500)
    assert fluence.cost(instance) == 1_500_000
    fluence.skip(200)
    assert fluence.cost(instance) == 3_000_000
    assert fluence.get(instance)["billing"]["total_spendings"] == 3.0
    fluence.delete(instance)
    fluence.skip(36_000)
    assert fluence.cost(instance) == 3_000_000
    assert fluence.sim("GET", "bill")["total_micros"] == 3_000_000
    assert fluence.sim("GET", "balance") == {"micros": 97_000_000}


def test_a_vast_rental_is_billed_by_the_second(vast):
    instance = vast.launch("RTX 4090", disk=60)
    vast.wait_phase(instance, "running")
    before = vast.cost(instance)
    vast.skip(3600)
    assert vast.cost(instance) - before == pytest.approx(362_500, abs=200)
    vast.delete(instance)
    ended = vast.cost(instance)
    vast.skip(3600)
    assert vast.cost(instance) == ended


def test_an_hour_that_is_not_covered_is_charged_and_the_next_one_ends_the_container(fluence):
    fluence.sim("POST", "balance", {"micros": 2_000_000})
    instance = fluence.launch()
    fluence.wait_phase(instance, "running")
    fluence.skip(3601)
    assert fluence.get(instance)["instance_status"] == "ACTIVE"
    assert fluence.sim("GET", "balance") == {"micros": -1_000_000}
    fluence.skip(3600)
    assert fluence.get(instance)["instance_status"] == "ENDED"
    assert fluence.cost(instance) == 3_000_000
    assert not fluence.state(instance)["box_is_alive"]


def test_an_empty_balance_stops_vast_rentals(vast):
    instance = vast.launch()
    vast.wait_phase(instance, "running")
    vast.sim("POST", "balance", {"micros": 100})
    vast.skip(60)
    assert vast.get(instance)["intended_status"] == "stopped"
    assert not vast.state(instance)["box_is_alive"]


def test_prices_and_stock_can_come_from_a_file(serve, tmp_path):
    name = "h100-80gi-sxm-1gpu-16cpu-128gb-200gb"
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({name: {"micros_per_hour": 2_000_000, "stock": 1}}))
    fluence = serve("fluence", price_file=prices)
    instance = fluence.launch()
    fluence.wait_phase(instance, "running")
    assert fluence.cost(instance) == 2_000_000
    plans = [each["plan"]["name"] for each in fluence.call("GET", "/gpu/plans/").json]
    assert name not in plans


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "prices.json"),
        ('{"no such offer": {}}', "there are rtx-4090-sweden"),
        ('{"rtx-3090-poland": {"colour": 1}}', "min_bid_micros"),
        ('{"rtx-3090-poland": {"stock": -1}}', "whole numbers"),
        ('{"rtx-3090-poland": {"micros_per_hour": 0.18}}', "whole numbers"),
    ],
)
def test_a_bad_price_file_says_what_would_be_good(tmp_path, text, word):
    prices = tmp_path / "prices.json"
    prices.write_text(text)
    with pytest.raises(PriceFileError, match=word):
        with_price_file(VAST_MACHINES, prices)
