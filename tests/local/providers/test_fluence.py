"""The simulated Fluence answers like the documented one, with its quirks."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from tests.local.providers.client import ask, wait_for

KEYS_OF_AN_INSTANCE = {
    "id",
    "name",
    "instance_status",
    "container_status",
    "resources",
    "location",
    "container_info",
    "billing",
    "network",
    "created_at",
    "updated_at",
}


@pytest.mark.parametrize(
    "headers", [{}, {"X-API-KEY": "wrong"}, {"Authorization": "Bearer the-key"}]
)
def test_a_missing_or_wrong_key_is_refused(fluence, headers):
    answer = ask(fluence.url, "GET", "/gpu/plans/", headers=headers)
    assert answer.status == 401
    assert isinstance(answer.json["detail"], str)


def test_plans_have_the_documented_shape(fluence):
    plans = fluence.call("GET", "/gpu/plans/").json
    first = plans[0]
    assert set(first) == {"plan", "attributes"}
    assert set(first["plan"]) == {"id", "name", "supply", "gpu_model", "pricing"}
    assert first["plan"]["supply"]["memory"] == {"count": 128, "units": "Gi"}
    assert first["plan"]["gpu_model"]["vram"] == "80Gi"
    assert first["plan"]["pricing"] == {"hour": 1.5, "upfront_hours": 1, "currency": "USD"}
    assert first["attributes"] == {"location": ["US", "NO"]}
    assert 0.4 in [each["plan"]["pricing"]["hour"] for each in plans]


KEYS_OF_A_MACHINE = {
    "id",
    "name",
    "status",
    "availability",
    "os_image",
    "ssh_connection",
    "ssh_key",
    "resources",
    "location",
    "billing",
    "network",
    "created_at",
    "updated_at",
}


def an_option(fluence, collection):
    """The first option of a list, and the body that rents it."""
    groups = fluence.call("GET", f"/gpu/plans/{collection}").json["data"]
    option = groups[0]["availability_by_number"][0]["options"][0]
    body = {
        "plan_id": option["id"],
        "name": "pf-bare",
        "ssh_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
        "os_image": option["os_options"][0],
    }
    return option, body


@pytest.mark.parametrize("collection", ["vms", "baremetal"])
def test_a_machine_is_in_its_own_list_only_and_is_opened_by_ssh(fluence, collection):
    option, body = an_option(fluence, collection)
    assert set(option) >= {"id", "location", "provider", "pricing", "os_options", "vcpu"}

    made = fluence.call("POST", f"/gpu/instances/{collection}", body).json["instance_id"]
    path = f"/gpu/instances/{collection}/{made}"
    shown = wait_for(lambda: (it := fluence.call("GET", path).json)["ssh_connection"] and it)

    assert set(shown) == KEYS_OF_A_MACHINE
    assert (shown["status"], shown["name"]) == ("ACTIVE", "pf-bare")
    assert re.fullmatch(r"ssh -p \d+ ubuntu@127\.0\.0\.1", shown["ssh_connection"])
    assert shown["billing"]["total_spendings"] == option["pricing"]["hour"]
    assert [each["id"] for each in fluence.call("GET", path.rpartition("/")[0]).json] == [made]
    assert fluence.list_ids() == []
    assert fluence.call("GET", f"/gpu/instances/{made}").status == 404


def test_a_machine_cannot_be_ended_before_it_is_active_nor_twice(serve):
    fluence = serve("fluence", boot_seconds=0.8)
    _, body = an_option(fluence, "vms")
    made = fluence.call("POST", "/gpu/instances/vms", body).json["instance_id"]
    path = f"/gpu/instances/vms/{made}"
    assert fluence.call("DELETE", path).json == {"detail": "Instance is not active"}

    wait_for(lambda: fluence.call("DELETE", path).status == 204)

    assert fluence.call("DELETE", path).status == 400
    assert fluence.call("GET", path).json["status"] == "ENDED"


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"os_image": "Plan 9"}, 400, "OS image Plan 9 is not supported"),
        ({"plan_id": "gone"}, 400, "no longer available"),
        ({"name": "Capital"}, 422, "should match pattern"),
        ({"ssh_key": ""}, 422, "at least 1 character"),
    ],
)
def test_a_machine_that_cannot_be_made_is_refused_with_its_reason(fluence, changes, status, says):
    _, body = an_option(fluence, "vms")

    answer = fluence.call("POST", "/gpu/instances/vms", {**body, **changes})

    assert answer.status == status
    assert says in answer.body.decode()


def test_a_path_without_its_slash_is_redirected_and_others_are_not_found(fluence):
    answer = fluence.call("POST", "/gpu/instances", fluence.body())
    assert (answer.status, answer.headers["location"]) == (307, "/gpu/instances/")
    assert fluence.list_ids() == []
    assert fluence.call("GET", "/gpu/nothing").json == {"detail": "Not Found"}
    assert fluence.call("PATCH", "/gpu/plans/").status == 405


def test_a_container_goes_from_initialized_to_started(serve):
    fluence = serve("fluence", boot_seconds=0.8)
    instance = fluence.launch()
    first = fluence.get(instance)
    assert set(first) == KEYS_OF_AN_INSTANCE
    assert (first["instance_status"], first["container_status"]) == ("INITIALIZED", "NOT_STARTED")
    assert first["network"] is None
    assert first["billing"] == {
        "hourly_usage": 0,
        "total_spendings": 0,
        "reserved_amount": 0,
        "next_billing_period": None,
    }
    pulling = wait_for(lambda: (it := fluence.get(instance))["instance_status"] == "ACTIVE" and it)
    assert pulling["container_status"] == "NOT_STARTED"
    assert pulling["network"] == {"domain": None, "forwarded_ports": [], "uri": None}
    started = wait_for(
        lambda: (it := fluence.get(instance))["container_status"] == "STARTED" and it
    )
    assert started["network"]["domain"] is None
    known = wait_for(lambda: (it := fluence.get(instance))["network"]["domain"] and it)
    (port,) = known["network"]["forwarded_ports"]
    assert port["port"] == "8443"
    assert port["protocol"] == "tcp"
    assert port["external_port"].isdecimal()
    assert port["external_port"] != "8443"


def test_an_active_container_shows_its_bill_and_next_charge(fluence):
    instance = fluence.launch()
    fluence.wait_phase(instance, "running")
    shown = fluence.get(instance)
    billing = shown["billing"]
    assert (billing["hourly_usage"], billing["total_spendings"]) == (1.5, 1.5)
    until_charge = datetime.fromisoformat(billing["next_billing_period"]) - datetime.fromisoformat(
        shown["created_at"]
    )
    assert 3600 <= until_charge.total_seconds() < 3605


def test_only_an_active_container_can_be_terminated(serve):
    fluence = serve("fluence", boot_seconds=0.4)
    instance = fluence.launch()
    refused = fluence.delete(instance)
    assert (refused.status, refused.json) == (400, {"detail": "Instance is not active"})
    fluence.wait_phase(instance, "running")
    accepted = fluence.delete(instance)
    assert (accepted.status, accepted.body) == (204, b"")
    assert fluence.delete(instance).status == 400
    assert fluence.delete("00000000-0000-4000-8000-000000000000").status == 404


def test_an_ended_container_stays_in_the_list_and_its_box_is_gone(fluence):
    instance = fluence.launch()
    fluence.wait_phase(instance, "running")
    assert fluence.state(instance)["box_is_alive"]
    fluence.delete(instance)
    assert not fluence.state(instance)["box_is_alive"]
    (shown,) = fluence.call("GET", "/gpu/instances/").json
    assert shown["instance_status"] == "ENDED"
    assert shown["network"] is None
    assert shown["billing"]["hourly_usage"] == 0
    assert shown["billing"]["next_billing_period"] is None
    assert shown["billing"]["total_spendings"] == 1.5


def test_names_need_not_be_unique(fluence):
    assert fluence.launch() != fluence.launch()


def test_the_container_gets_the_environment_and_the_ssh_key(fluence):
    variables = [{"name": "PF_TOKEN", "value": "a b'c\"$d"}, {"name": "EMPTY", "value": ""}]
    body = fluence.body(environment=variables) | {"ssh_key": "ssh-ed25519 AAAA me"}
    instance = fluence.call("POST", "/gpu/instances/", body).json["instance_id"]
    fluence.wait_phase(instance, "running")
    lines = fluence.exec(instance, "tr '\\0' '\\n' < /proc/1/environ").splitlines()
    names = {line.partition("=")[0] for line in lines}
    # The shell adds PWD by itself, the host where the agent may listen.
    assert names - {"PWD", "PF_SSH_LISTEN"} == {
        "PF_TOKEN",
        "EMPTY",
        "SSH_PUBKEY",
        "PATH",
        "HOME",
        "HOSTNAME",
    }
    assert "PF_TOKEN=a b'c\"$d" in lines
    assert "SSH_PUBKEY=ssh-ed25519 AAAA me" in lines
    info = fluence.get(instance)["container_info"]
    assert info["environment"] == variables


def test_the_startup_command_is_the_entrypoint_and_its_output_is_the_log(fluence):
    instance = fluence.launch(startup_command="echo one; echo two; exec sleep 1234")
    fluence.wait_phase(instance, "running")
    assert "1234" in fluence.exec(instance, "tr '\\0' ' ' < /proc/1/cmdline; :")
    wait_for(lambda: fluence.call("GET", f"/gpu/instances/{instance}/logs").json == ["one", "two"])
    assert fluence.call("GET", f"/gpu/instances/{instance}/logs?last=1").json == ["two"]


def test_a_container_sees_the_gpus_of_its_plan(fluence):
    instance = fluence.launch("h100-80gi-sxm-8gpu")
    fluence.wait_phase(instance, "running")
    query = "nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits"
    assert fluence.exec(instance, query).splitlines() == ["NVIDIA H100 80GB HBM3, 81559"] * 8


def test_a_container_whose_command_ends_is_active_but_not_started(fluence):
    instance = fluence.launch(startup_command="exit 3")
    fluence.wait_phase(instance, "exited")
    shown = fluence.get(instance)
    assert (shown["instance_status"], shown["container_status"]) == ("ACTIVE", "NOT_STARTED")
    assert shown["billing"]["hourly_usage"] == 1.5
    assert fluence.delete(instance).status == 204


def test_a_missing_image_is_active_but_never_started_and_events_say_why(fluence):
    instance = fluence.launch(image="broken/nonexistent:1")
    wait_for(lambda: fluence.state(instance)["message"])
    shown = fluence.get(instance)
    assert (shown["instance_status"], shown["container_status"]) == ("ACTIVE", "NOT_STARTED")
    events = fluence.call("GET", f"/gpu/instances/{instance}/events").json
    assert "manifest unknown" in events[-1]
    assert fluence.delete(instance).status == 204


def change(body, path, value):
    *parents, last = path
    for name in parents:
        body = body[name]
    body[last] = value


CONTAINER = "container_settings"


@pytest.mark.parametrize(
    ("path", "value", "kind"),
    [
        (("name",), "", "string_too_short"),
        (("name",), "a" * 26, "string_too_long"),
        (("name",), "Upper", "string_pattern_mismatch"),
        (("name",), "-lead", "string_pattern_mismatch"),
        (("name",), "trail-", "string_pattern_mismatch"),
        (("plan_id",), 7, "string_type"),
        ((CONTAINER, "image"), "Upper/case:1", "value_error"),
        ((CONTAINER, "image"), "a" * 256, "string_too_long"),
        ((CONTAINER, "expose"), [], "too_short"),
        ((CONTAINER, "expose"), [{"port": "1", "protocol": "tcp"}] * 11, "too_long"),
        ((CONTAINER, "expose", 0, "port"), 8443, "string_type"),
        ((CONTAINER, "expose", 0, "port"), "70000", "value_error"),
        ((CONTAINER, "expose", 0, "protocol"), "http", "value_error"),
        ((CONTAINER, "expose", 0, "protocol"), "sctp", "literal_error"),
        ((CONTAINER, "environment"), [{"name": "lower", "value": ""}], "string_pattern_mismatch"),
        ((CONTAINER, "environment"), [{"name": "A", "value": ""}] * 65, "too_long"),
        ((CONTAINER, "startup_command"), "x" * 2049, "string_too_long"),
    ],
)
def test_schema_errors_are_422_in_the_shape_of_fastapi(fluence, path, value, kind):
    body = fluence.body()
    change(body, path, value)
    answer = fluence.call("POST", "/gpu/instances/", body)
    assert answer.status == 422
    (detail,) = answer.json["detail"]
    assert detail["type"] == kind
    assert detail["loc"][:2] == ["body", path[0]]
    assert {"msg", "input"} <= set(detail)
    assert fluence.list_ids() == []


def test_a_port_error_looks_like_the_documented_one(fluence):
    body = fluence.body(expose=[{"port": "70000", "protocol": "tcp"}])
    (detail,) = fluence.call("POST", "/gpu/instances/", body).json["detail"]
    assert (detail["msg"], detail["ctx"]) == ("Value error, port out of range", {"error": {}})


@pytest.mark.parametrize("body", [b"{", b"[]", b""])
def test_a_body_that_is_no_object_is_422(fluence, body):
    assert fluence.call("POST", "/gpu/instances/", body).status == 422


def test_limits_are_allowed_to_be_reached(fluence):
    settings = {
        "startup_command": "sleep infinity #".ljust(2048, "x"),
        "environment": [{"name": f"V{number}", "value": "x"} for number in range(64)],
        "expose": [{"port": str(9000 + number), "protocol": "udp"} for number in range(10)],
    }
    body = fluence.body(**settings) | {"name": "a" * 25}
    assert fluence.call("POST", "/gpu/instances/", body).status == 200


def test_business_rules_are_400_with_text(fluence):
    unknown = fluence.call("POST", "/gpu/instances/", fluence.body("no-such-plan"))
    assert unknown.status == 400
    assert "no longer available" in unknown.json["detail"]
    elsewhere = fluence.body() | {"constraints": {"location": "JP"}}
    assert fluence.call("POST", "/gpu/instances/", elsewhere).status == 400
    twice = fluence.body(environment=[{"name": "SSH_PUBKEY", "value": "x"}]) | {"ssh_key": "y"}
    answer = fluence.call("POST", "/gpu/instances/", twice)
    assert answer.status == 400
    assert "SSH_PUBKEY" in answer.json["detail"]
    assert fluence.list_ids() == []


def test_a_location_can_be_chosen(fluence):
    body = fluence.body() | {"constraints": {"location": "NO"}}
    instance = fluence.call("POST", "/gpu/instances/", body).json["instance_id"]
    assert fluence.get(instance)["location"] == "NO"


def test_a_launch_needs_the_balance_of_an_hour(fluence):
    fluence.sim("POST", "balance", {"micros": 1_499_999})
    answer = fluence.call("POST", "/gpu/instances/", fluence.body())
    assert (answer.status, answer.json) == (
        400,
        {"detail": "Insufficient balance to deploy instance"},
    )
    fluence.sim("POST", "balance", {"micros": 1_500_000})
    assert fluence.call("POST", "/gpu/instances/", fluence.body()).status == 200


def test_stock_is_finite_and_comes_back(fluence):
    instance = fluence.launch("8gpu")
    names = [each["plan"]["name"] for each in fluence.call("GET", "/gpu/plans/").json]
    assert not any("8gpu" in name for name in names)
    fluence.wait_phase(instance, "running")
    fluence.delete(instance)
    assert fluence.plan_id("8gpu")


def test_times_are_rfc_3339_in_utc(fluence):
    shown = fluence.get(fluence.launch())
    for name in ("created_at", "updated_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", shown[name])


def test_the_balance_is_on_the_account_api(fluence):
    fluence.sim("POST", "balance", {"micros": 12_500_000})
    assert fluence.call("GET", "/v2/users/balances").json["balance"] == 12.5


def test_ready_images_are_listed(fluence):
    (image,) = fluence.call("GET", "/gpu/default-images/").json
    assert {"slug", "name", "image", "expose", "startup_command", "requires_ssh"} <= set(image)
