"""Every switch makes the provider fail in its way, and only while it is on."""

from __future__ import annotations

import http.client
import json
import time
from importlib import import_module

import pytest

from local.providers.faults import KINDS, PECULIAR, FaultError, Faults
from local.providers.registry import SIMULATORS
from tests.local.providers.client import ask, wait_for

CREATED = (200, 201)


def instances(client):
    return client.sim("GET", "state")["instances"]


def test_case_p1_a_create_may_answer_500_although_the_box_exists(provider):
    provider.fault(create_500_but_exists=1)
    assert provider.create().status == 500
    (made,) = instances(provider)
    wait_for(lambda: provider.state(made["id"])["box_is_alive"])
    assert provider.create().status in CREATED


def test_a_create_may_answer_500_and_create_nothing(provider):
    provider.fault(create_500_not_created=2)
    assert [provider.create().status for _ in range(2)] == [500, 500]
    assert provider.create().status in CREATED
    assert len(instances(provider)) == 1


def test_a_create_may_lose_its_answer(provider):
    provider.fault(create_timeout=1)
    with pytest.raises(http.client.RemoteDisconnected):
        provider.create()
    assert len(instances(provider)) == 1


def test_an_offer_may_be_gone_at_the_last_moment(provider):
    provider.fault(offer_gone=1)
    assert provider.create().status in (400, 410)
    assert instances(provider) == []
    assert provider.create().status in CREATED


def test_there_may_be_no_capacity(fluence, vast):
    plan, ask_id = fluence.body(), vast.offer()["id"]
    for client in (fluence, vast):
        client.fault(no_capacity=True)
    assert fluence.call("GET", "/gpu/plans/").json == []
    assert fluence.call("POST", "/gpu/instances/", plan).status == 400
    assert vast.search() == []
    assert vast.take(ask_id).status == 410
    fluence.sim("DELETE", "faults")
    assert fluence.call("GET", "/gpu/plans/").json != []


def test_boots_may_be_slow(provider):
    provider.fault(slow_boot_seconds=0.6)
    started = time.monotonic()
    provider.create()
    (made,) = instances(provider)
    provider.wait_phase(made["id"], "running")
    assert time.monotonic() - started > 0.6


@pytest.mark.parametrize(("value", "phase"), [(True, "provisioning"), ("pulling", "pulling")])
def test_case_p4_a_boot_may_never_end_until_the_switch_is_cleared(provider, value, phase):
    provider.fault(boot_never=value)
    provider.create()
    (made,) = instances(provider)
    provider.wait_phase(made["id"], phase)
    time_limit = time.monotonic() + 0.4
    wait_for(lambda: time.monotonic() > time_limit)
    assert provider.phase(made["id"]) == phase
    provider.sim("DELETE", "faults/boot_never")
    provider.wait_phase(made["id"], "running")


def test_a_container_that_never_leaves_initialized_cannot_be_terminated(fluence):
    fluence.fault(boot_never=True)
    instance = fluence.launch()
    assert fluence.delete(instance).status == 400


def test_boots_may_fail(fluence, vast):
    fluence.fault(boot_fails=1)
    failed = fluence.launch()
    fluence.wait_phase(failed, "failed")
    shown = fluence.get(failed)
    assert (shown["instance_status"], shown["network"]) == ("FAILED", None)
    assert fluence.cost(failed) == 0
    assert fluence.delete(failed).status == 400
    vast.fault(boot_fails=1)
    broken = vast.launch()
    vast.wait_phase(broken, "failed")
    assert vast.get(broken)["actual_status"] == "created"
    assert "OCI runtime create failed" in vast.get(broken)["status_msg"]


def test_case_p3_deletes_may_fail_and_the_box_lives_on(provider):
    provider.create()
    (made,) = instances(provider)
    provider.wait_phase(made["id"], "running")
    provider.fault(delete_fails=2)
    assert [provider.delete(made["id"]).status for _ in range(2)] == [500, 500]
    assert provider.state(made["id"])["box_is_alive"]
    assert provider.delete(made["id"]).status in (200, 204)
    assert not provider.state(made["id"])["box_is_alive"]


def test_deletes_may_fail_for_a_while(provider):
    provider.create()
    (made,) = instances(provider)
    provider.wait_phase(made["id"], "running")
    provider.fault(delete_fails={"seconds": 0.3})
    assert provider.delete(made["id"]).status == 500
    wait_for(lambda: provider.delete(made["id"]).status in (200, 204))


def test_a_delete_may_say_ok_while_the_box_stands(provider):
    provider.create()
    (made,) = instances(provider)
    provider.wait_phase(made["id"], "running")
    provider.fault(delete_says_ok_but_stands=1)
    assert provider.delete(made["id"]).status in (200, 204)
    assert provider.state(made["id"])["box_is_alive"]
    assert provider.get(made["id"])["name" if "name" in provider.get(made["id"]) else "label"]


def test_case_p9_a_new_instance_may_be_missing_from_lists_for_a_while(provider):
    provider.fault(listing_lag_seconds=0.4)
    provider.create()
    assert provider.list_ids() == []
    (made,) = instances(provider)
    assert str(provider.get(made["id"])["id"]) == made["id"]
    wait_for(lambda: provider.list_ids() != [])


def test_pages_may_be_small(vast):
    made = {vast.launch() for _ in range(2)}
    vast.fault(page_size=1)
    first = vast.page().json
    second = vast.page(after_token=first["next_token"]).json
    assert {first["instances"][0]["id"], second["instances"][0]["id"]} == made


def test_requests_may_be_too_frequent_for_a_provider(fluence, vast):
    for client, path in ((fluence, "/gpu/instances/"), (vast, "/api/v1/instances/")):
        client.fault(rate_limit=2)
        assert [client.call("GET", path).status for _ in range(3)] == [429, 429, 200]


def test_vast_minds_the_interval_of_each_endpoint(vast):
    vast.fault(min_interval={"show": 0.5})
    instance = vast.launch()
    path = f"/api/v0/instances/{instance}/"
    assert vast.call("GET", path).status == 200
    refused = vast.call("GET", path)
    assert refused.status == 429
    assert refused.headers["content-type"].startswith("text/plain")
    assert refused.body == b"API requests too frequent endpoint threshold=0.5"
    assert vast.page().status == 200
    vast.fault(min_interval=True)
    assert vast.delete(instance).status == 200
    assert vast.delete(instance).body.endswith(b"threshold=3")


def test_case_p7_a_contract_may_be_dearer_than_its_offer(fluence, vast):
    fluence.fault(price_bump=1.5)
    instance = fluence.launch()
    fluence.wait_phase(instance, "running")
    assert fluence.get(instance)["billing"]["hourly_usage"] == 2.25
    assert fluence.cost(instance) == 2_250_000
    vast.fault(price_bump=2)
    assert vast.get(vast.launch())["dph_base"] == 0.36


def test_a_key_may_be_revoked(fluence, vast):
    for client, path in ((fluence, "/gpu/plans/"), (vast, "/api/v1/instances/")):
        client.fault(unauthorised=True)
        assert client.call("GET", path).status == 401
        client.sim("DELETE", "faults/unauthorised")
        assert client.call("GET", path).status == 200
    vast.fault(unauthorised=True)
    assert vast.call("POST", "/api/v0/bundles/", {}).status == 404


def test_unknown_switches_and_values_are_refused_as_a_whole(fluence):
    for body, word in (
        ({"offer_gone": 1, "no_such": 1}, "no_such"),
        ({"offer_gone": 1, "page_size": 1}, "page_size"),
        ({"offer_gone": -1}, "whole number"),
        ({"offer_gone": 1.5}, "whole number"),
        ({"boot_never": "maybe"}, "pulling"),
        ({"slow_boot_seconds": "x"}, "number"),
        ({"unauthorised": False}, "true"),
        ([1], "object"),
    ):
        answer = ask(fluence.url, "POST", "/_sim/faults", body)
        assert answer.status == 400
        assert word in answer.json["error"]
    assert fluence.sim("GET", "faults") == {}


def test_every_switch_says_what_it_takes():
    faults = Faults()
    for name in KINDS:
        with pytest.raises(FaultError, match=name):
            faults.set({name: "?"})


def test_a_counted_switch_strikes_as_often_as_it_says():
    faults = Faults()
    faults.set({"offer_gone": 2, "delete_fails": True})
    assert [faults.take("offer_gone") for _ in range(3)] == [True, True, False]
    assert all(faults.take("delete_fails") for _ in range(5))
    assert not faults.take("create_timeout")
    assert json.dumps(faults.active())


def simulators():
    for path, _ in SIMULATORS.values():
        module, _, name = path.partition(":")
        yield getattr(import_module(module), name)


def test_every_switch_is_one_of_some_provider_and_a_class_names_only_switches_that_there_are():
    """Tests of a switch are left out for a provider without it, but not for all of them."""
    known = set()
    for simulator in simulators():
        assert simulator.own_faults <= PECULIAR
        assert simulator.unsupported_faults <= set(KINDS) - PECULIAR
        known |= set(KINDS) - PECULIAR - simulator.unsupported_faults | simulator.own_faults
    assert known == set(KINDS)
