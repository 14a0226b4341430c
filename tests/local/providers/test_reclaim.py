"""A provider takes machines back, with or without a warning."""

from __future__ import annotations

import time

import pytest

from tests.local.providers.client import ask, wait_for

NOTED = "trap 'echo warned > /root/warned; cat /root/warned' TERM; while :; do sleep 0.02; done"


def noted(client):
    """A box that notes a warning in its log and goes on."""
    return client.run_script(NOTED)


def test_a_reclaim_without_notice_ends_the_box_at_once(provider):
    instance = noted(provider)
    provider.wait_phase(instance, "running")
    provider.sim("POST", f"instances/{instance}/reclaim", {"notice": "none"})
    state = provider.state(instance)
    assert not state["box_is_alive"]
    assert state["phase"] in ("gone", "offline", "stopped")


def test_a_reclaim_with_notice_gives_the_seconds_it_says(container):
    instance = noted(container)
    container.wait_phase(instance, "running")
    wait_for(lambda: container.exec(instance, "grep -c -i sigcgt /proc/1/status"))
    wait_for(lambda: "4" in container.exec(instance, "grep SigCgt /proc/1/status").split()[1][-4])
    started = time.monotonic()
    container.sim("POST", f"instances/{instance}/reclaim", {"notice": "sigterm", "seconds": 0.8})
    wait_for(lambda: b"warned" in container.sim("GET", f"instances/{instance}/log"), 0.7)
    told = container.state(instance)
    assert (told["box_is_alive"], told["is_leaving"]) == (True, True)
    wait_for(lambda: not container.state(instance)["box_is_alive"])
    wait_for(lambda: not container.state(instance)["is_leaving"])
    assert 0.7 < time.monotonic() - started < 3


def test_an_ended_fluence_container_gives_no_reason(fluence):
    instance = fluence.launch()
    fluence.wait_phase(instance, "running")
    fluence.sim("POST", f"instances/{instance}/reclaim", {})
    shown = fluence.get(instance)
    assert (shown["instance_status"], shown["network"]) == ("ENDED", None)


def test_an_outbid_instance_is_stopped_bills_its_disk_and_wakes_up_by_itself(vast):
    instance = vast.launch(price=0.15, disk=72)
    vast.wait_phase(instance, "running")
    vast.exec(instance, "echo kept > /root/file; sync")
    vast.sim("POST", f"instances/{instance}/outbid")
    shown = vast.get(instance)
    assert shown["actual_status"] == "exited"
    assert {shown[name] for name in ("cur_state", "intended_status", "next_state")} == {"stopped"}
    before = vast.cost(instance)
    vast.skip(3600)
    # 72 GB at 0.10 dollars for a month of 720 hours.
    assert vast.cost(instance) - before == pytest.approx(10_000, abs=20)
    vast.sim("POST", f"instances/{instance}/resume")
    vast.wait_phase(instance, "running")
    assert vast.exec(instance, "cat /root/file") == "kept\n"


def test_as_many_bids_as_the_switch_says_are_outbid_once_they_run(vast):
    vast.fault(outbid=1)
    on_demand = vast.launch()
    vast.wait_phase(on_demand, "running")
    first = vast.launch(price=0.15)
    vast.wait_phase(first, "stopped")
    second = vast.launch(price=0.15)
    vast.wait_phase(second, "running")
    assert vast.phase(on_demand) == "running"


def test_what_was_not_rented_by_bid_cannot_be_outbid(fluence):
    instance = fluence.launch()
    answer = ask(fluence.url, "POST", f"/_sim/instances/{instance}/outbid")
    assert (answer.status, "not rented by bid" in answer.json["error"]) == (409, True)


def test_an_on_demand_rental_is_lost_with_its_host_and_costs_nothing_then(vast):
    instance = vast.launch()
    vast.wait_phase(instance, "running")
    vast.sim("POST", f"instances/{instance}/reclaim", {})
    shown = vast.get(instance)
    assert (shown["actual_status"], shown["intended_status"]) == ("offline", "running")
    before = vast.cost(instance)
    vast.skip(7200)
    assert vast.cost(instance) == before


def test_an_instance_can_be_reclaimed_while_it_boots(provider):
    provider.fault(boot_never=True)
    instance = noted(provider)
    provider.sim("POST", f"instances/{instance}/reclaim", {"notice": "sigterm", "seconds": 0})
    provider.sim("DELETE", "faults")
    assert provider.phase(instance) in ("gone", "offline", "stopped")


def test_a_crash_is_not_a_reclaim(provider):
    instance = noted(provider)
    provider.wait_phase(instance, "running")
    provider.sim("POST", f"instances/{instance}/crash")
    provider.wait_phase(instance, "exited")
