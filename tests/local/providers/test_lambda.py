"""The simulated Lambda answers like the documented one, with its quirks."""

from __future__ import annotations

import pytest

from tests.local.providers.client import ask, wait_for

KEYS_OF_A_MACHINE = {
    "id", "name", "status", "ssh_key_names", "file_system_names", "region", "instance_type",
    "hostname", "jupyter_token", "jupyter_url", "tags", "actions",
}  # fmt: skip


def code(answer):
    return answer.json["error"]["code"]


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
def test_a_missing_or_wrong_key_is_refused(lambda_cloud, headers):
    answer = ask(lambda_cloud.url, "GET", "/api/v1/instances", headers=headers)
    assert (answer.status, code(answer)) == (401, "global/invalid-api-key")


def test_types_are_a_map_and_those_that_are_sold_out_have_no_region(lambda_cloud):
    types = lambda_cloud.read("/instance-types")
    assert types["gpu_1x_h100_pcie"] == {
        "instance_type": {
            "name": "gpu_1x_h100_pcie",
            "description": "1x H100 (80 GB PCIe)",
            "gpu_description": "H100 (80 GB PCIe)",
            "price_cents_per_hour": 249,
            "specs": {"vcpus": 26, "memory_gib": 200, "storage_gib": 1024, "gpus": 1},
        },
        "regions_with_capacity_available": [{"name": "us-west-3", "description": "Utah, USA"}],
    }
    regions = types["gpu_1x_a10"]["regions_with_capacity_available"]
    assert [region["name"] for region in regions] == ["us-west-1", "europe-central-1"]
    assert types["gpu_1x_gh200"]["regions_with_capacity_available"] == []


def test_a_machine_boots_and_gets_its_address_late(serve):
    lambda_cloud = serve("lambda", boot_seconds=0.8)
    machine = lambda_cloud.launch()
    first = lambda_cloud.get(machine)
    assert set(first) == KEYS_OF_A_MACHINE
    assert first["status"] == "booting"
    assert first["actions"]["terminate"]["reason_code"] == "vm-has-not-launched"
    active = wait_for(lambda: (it := lambda_cloud.get(machine))["status"] == "active" and it)
    assert "ip" not in active
    assert active["actions"]["terminate"] == {"available": True}
    reachable = wait_for(lambda: (it := lambda_cloud.get(machine)).get("ip") and it)
    assert reachable["ip"] == "127.0.0.1"
    assert reachable["tags"] == [{"key": "a", "value": "b"}]


def test_user_data_is_run_by_the_machine(lambda_cloud):
    machine = lambda_cloud.run_script("echo ran as $(id -u); exec sleep infinity")
    wait_for(lambda: lambda_cloud.sim("GET", f"instances/{machine}/log") == b"ran as 0\n")


def test_a_machine_that_shuts_itself_down_is_unhealthy_and_costs_money(lambda_cloud):
    machine = lambda_cloud.run_script("shutdown -h now")
    wait_for(lambda: lambda_cloud.get(machine)["status"] == "unhealthy")
    before = lambda_cloud.cost(machine)
    lambda_cloud.skip(3600)
    assert lambda_cloud.cost(machine) - before == 750_000


def test_a_machine_is_billed_by_the_started_minute_until_it_is_terminated(lambda_cloud):
    machine = lambda_cloud.launch()
    lambda_cloud.wait_phase(machine, "running")
    assert lambda_cloud.cost(machine) == 12_500
    lambda_cloud.skip(90)
    assert lambda_cloud.cost(machine) == 25_000
    assert lambda_cloud.delete(machine).status == 200
    lambda_cloud.skip(3600)
    assert lambda_cloud.cost(machine) == 25_000


@pytest.mark.parametrize(
    ("settings", "status", "word"),
    [
        ({"quantity": 1}, 400, "global/invalid-parameters"),
        ({"ssh_key_names": []}, 400, "global/invalid-parameters"),
        ({"ssh_key_names": ["podferry", "other"]}, 400, "global/invalid-parameters"),
        ({"name": "x" * 65}, 400, "global/invalid-parameters"),
        ({"user_data": "x" * 1_000_001}, 400, "global/invalid-parameters"),
        ({"ssh_key_names": ["unknown"]}, 404, "global/object-does-not-exist"),
        ({"region_name": "us-east-1"}, 400, "instance-operations/launch/insufficient-capacity"),
    ],
)
def test_a_launch_that_cannot_be_is_refused_by_its_code(lambda_cloud, settings, status, word):
    answer = lambda_cloud.create(**settings)
    assert (answer.status, code(answer)) == (status, word)
    assert lambda_cloud.list_ids() == []


def test_an_account_that_does_not_pay_or_has_its_quota_gets_nothing(lambda_cloud):
    lambda_cloud.fault(account_limit=True)
    answer = lambda_cloud.create()
    assert (answer.status, code(answer)) == (400, "global/quota-exceeded")
    lambda_cloud.sim("DELETE", "faults")
    lambda_cloud.sim("POST", "balance", {"micros": 0})
    answer = lambda_cloud.create()
    assert (answer.status, code(answer)) == (403, "global/account-inactive")


def test_a_machine_that_boots_cannot_be_terminated(lambda_cloud):
    lambda_cloud.fault(boot_never=True)
    machine = lambda_cloud.launch()
    refused = lambda_cloud.delete(machine)
    assert (refused.status, code(refused)) == (400, "global/invalid-parameters")
    assert "vm-has-not-launched" in refused.json["error"]["message"]
    assert lambda_cloud.phase(machine) == "provisioning"


def test_a_termination_lists_what_it_ended_and_then_the_machine_is_unknown(lambda_cloud):
    machine = lambda_cloud.launch()
    lambda_cloud.wait_phase(machine, "running")
    (ended,) = lambda_cloud.delete(machine).json["data"]["terminated_instances"]
    assert (ended["id"], ended["status"]) == (machine, "terminating")
    assert not lambda_cloud.state(machine)["box_is_alive"]
    again = lambda_cloud.delete(machine)
    assert (again.status, code(again)) == (404, "global/object-does-not-exist")
    assert lambda_cloud.list_ids() == []


def test_what_was_ended_may_be_terminating_for_minutes(lambda_cloud):
    lambda_cloud.fault(terminating_seconds=180)
    machine = lambda_cloud.launch()
    lambda_cloud.wait_phase(machine, "running")
    lambda_cloud.delete(machine)
    assert lambda_cloud.get(machine)["status"] == "terminating"
    assert lambda_cloud.list_ids() == [machine]
    assert lambda_cloud.delete(machine).status == 400
    lambda_cloud.skip(181)
    assert lambda_cloud.list_ids() == []


def test_a_lost_host_leaves_an_unhealthy_machine_that_costs_money(lambda_cloud):
    machine = lambda_cloud.launch()
    lambda_cloud.wait_phase(machine, "running")
    lambda_cloud.sim("POST", f"instances/{machine}/reclaim", {})
    assert lambda_cloud.get(machine)["status"] == "unhealthy"
    before = lambda_cloud.cost(machine)
    lambda_cloud.skip(60)
    assert lambda_cloud.cost(machine) - before == 12_500


def test_launches_and_other_calls_keep_their_distance(lambda_cloud):
    lambda_cloud.fault(min_interval={"launch": 60, "other": 60})
    assert lambda_cloud.create().status == 200
    second = lambda_cloud.create()
    assert (second.status, code(second)) == (429, "global/rate-limited")
    assert lambda_cloud.call("GET", "/api/v1/instances").status == 200
    assert lambda_cloud.call("GET", "/api/v1/ssh-keys").status == 429


def test_keys_are_added_once_and_deleted(lambda_cloud):
    added = lambda_cloud.post("/ssh-keys", {"name": "mine"}).json["data"]
    assert set(added) == {"id", "name", "public_key", "private_key"}
    assert code(lambda_cloud.post("/ssh-keys", {"name": "mine"})) == "global/duplicate"
    assert {key["name"] for key in lambda_cloud.read("/ssh-keys")} == {"podferry", "mine"}
    path = f"/api/v1/ssh-keys/{added['id']}"
    assert [lambda_cloud.call("DELETE", path).status for _ in range(2)] == [200, 404]


def test_bodies_and_paths_that_make_no_sense_are_refused(lambda_cloud):
    for answer, status in (
        (lambda_cloud.post("/instance-operations/launch", b"{"), 400),
        (lambda_cloud.post("/instance-operations/terminate", {"instance_ids": []}), 400),
        (lambda_cloud.post("/instance-operations/terminate", {"instance_ids": ["a", "b"]}), 400),
        (lambda_cloud.post("/instances", {}), 405),
        (lambda_cloud.call("GET", "/api/v1/nothing"), 404),
    ):
        assert answer.status == status
        assert code(answer).startswith("global/")
