"""The simulated Vast.ai answers like the documented one, with its quirks."""

from __future__ import annotations

import json

import pytest

from tests.local.providers.client import ask, wait_for


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"X-API-KEY": "the-key"}]
)
def test_a_missing_or_wrong_key_is_refused(vast, headers):
    answer = ask(vast.url, "GET", "/api/v1/instances/", headers=headers)
    assert answer.status == 401
    assert answer.json == {"success": False, "error": "auth_error", "msg": "Invalid user key"}


def test_searching_needs_no_key_and_says_404_to_a_wrong_one(vast):
    assert ask(vast.url, "POST", "/api/v0/bundles/", {}).status == 200
    wrong = ask(vast.url, "POST", "/api/v0/bundles/", {}, {"Authorization": "Bearer wrong"})
    assert (wrong.status, wrong.json["error"]) == (404, "auth_error")


def test_offers_have_the_documented_fields_and_prices(vast):
    (offer,) = vast.search(
        gpu_name={"eq": "RTX 4090"}, geolocation={"in": ["SE"]}, allocated_storage=60
    )
    documented = """id ask_contract_id machine_id host_id gpu_name num_gpus gpu_ram gpu_total_ram
        gpu_frac gpu_arch cpu_arch cpu_cores cpu_cores_effective cpu_ram disk_space storage_cost
        dph_base dph_total min_bid is_bid reliability reliability2 verification hosting_type
        geolocation inet_down inet_up inet_down_cost inet_up_cost direct_port_count static_ip
        cuda_max_good driver_version duration end_date rentable rented vms_enabled search"""
    assert set(documented.split()) <= set(offer)
    assert (offer["dph_base"], offer["dph_total"]) == (0.35, 0.3625)
    assert offer["search"] == {"gpuCostPerHour": 0.35, "diskHour": 0.0125, "totalHour": 0.3625}
    assert offer["is_bid"] is False


def test_bid_offers_are_priced_at_their_lowest_bid(vast):
    offer = vast.offer("RTX 3090", type="bid")
    assert (offer["dph_base"], offer["min_bid"], offer["is_bid"]) == (0.09, 0.09, True)


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"gpu_name": {"eq": "RTX_4090"}}, {"RTX 4090"}),
        ({"gpu_name": {"in": ["RTX 3090", "RTX_3060"]}}, {"RTX 3090", "RTX 3060"}),
        ({"gpu_ram": {"gte": 24564, "lt": 24570}}, {"RTX 4090"}),
        ({"reliability": {"gt": 0.996}}, {"RTX 4090"}),
        ({"geolocation": {"notin": ["SE", "US"]}}, {"RTX 3090", "RTX 3060"}),
        ({"num_gpus": {"neq": 1}}, set()),
        ({"unheard_of": {"gte": 1}}, set()),
        ({"dph_total": {"lte": 0.06}}, {"RTX 3060"}),
    ],
)
def test_filters_narrow_a_search(vast, filters, names):
    assert {offer["gpu_name"] for offer in vast.search(**filters)} == names


def test_unverified_hosts_are_left_out_unless_asked_for(vast):
    assert all(offer["verification"] == "verified" for offer in vast.search())
    unverified = vast.search(verified={"eq": False})
    assert [offer["verification"] for offer in unverified] == ["unverified"]


def test_offers_come_in_the_order_asked_and_are_limited(vast):
    prices = [offer["dph_total"] for offer in vast.search(order=[["dph_total", "asc"]])]
    assert prices == sorted(prices)
    assert len(prices) >= 3
    downward = vast.search(order=[["dph_total", "desc"]], limit=2)
    assert [offer["dph_total"] for offer in downward] == sorted(prices, reverse=True)[:2]


@pytest.mark.parametrize(
    "query", [{"type": "spot"}, {"gpu_ram": {"above": 1}}, {"gpu_ram": 5}, {"gpu_ram": {"gt": "x"}}]
)
def test_a_bad_search_is_400(vast, query):
    answer = vast.call("POST", "/api/v0/bundles/", query)
    assert (answer.status, answer.json["error"]) == (400, "invalid_args")


def test_every_search_gives_new_offer_ids_and_old_ones_still_work(vast):
    first, second = vast.offer()["id"], vast.offer()["id"]
    assert first != second
    assert vast.take(first).status == 200


def test_a_taken_offer_is_gone(vast):
    ask_id = vast.offer()["id"]
    assert vast.take(ask_id).status == 200
    answer = vast.take(ask_id)
    assert answer.status == 404
    assert answer.json == {
        "success": False,
        "error": "invalid_args",
        "msg": f"error 404/3603: no_such_ask Instance type by id {ask_id} is not available.",
        "ask_id": ask_id,
    }


def test_an_offer_that_cannot_start_is_410(vast):
    vast.fault(offer_gone=2)
    ask_id = vast.offer()["id"]
    answer = vast.take(ask_id)
    assert answer.status == 410
    assert answer.json == {
        "success": False,
        "error": "no_such_ask",
        "msg": f"error 410/3907: no_such_ask Instance type {ask_id} is no longer available.",
        "ask_id": ask_id,
    }
    assert vast.take(vast.offer()["id"], cancel_unavail=False).status == 404
    assert vast.list_ids() == []


def test_stock_is_finite_and_comes_back(vast):
    wanted = {"machine_id": {"eq": 20222}}
    asks = [vast.search(**wanted)[0]["id"] for _ in range(3)]
    taken = [vast.take(ask_id) for ask_id in asks]
    assert [answer.status for answer in taken] == [200, 200, 410]
    assert vast.search(**wanted) == []
    vast.delete(taken[0].json["new_contract"])
    assert len(vast.search(**wanted)) == 1


def test_a_rental_goes_from_null_over_loading_to_running(serve):
    vast = serve("vastai", boot_seconds=0.6)
    instance = vast.launch(env={"PF": "x", "-p 8443:8443": "1", "-p 53:53/udp": "1"})
    first = vast.get(instance)
    assert (first["actual_status"], first["intended_status"]) == (None, "running")
    assert "ports" not in first
    loading = wait_for(lambda: (it := vast.get(instance))["actual_status"] == "loading" and it)
    assert "ports" not in loading
    running = wait_for(lambda: (it := vast.get(instance))["actual_status"] == "running" and it)
    assert running["label"] == "pf-test"
    assert running["public_ipaddr"] == "127.0.0.1\n"
    assert ["-p 8443:8443", "1"] in running["extra_env"]
    assert set(running["ports"]) == {"8443/tcp", "53/udp"}
    (binding,) = running["ports"]["8443/tcp"]
    assert binding["HostIp"] == "0.0.0.0"
    assert binding["HostPort"].isdecimal()
    documented = """id machine_id host_id cur_state next_state status_msg image_uuid image_runtype
        image_args onstart ssh_host ssh_port start_date end_date is_bid min_bid dph_base dph_total
        storage_cost inet_up_cost inet_down_cost gpu_name num_gpus gpu_ram cpu_cores
        cpu_cores_effective cpu_ram disk_space cuda_max_good driver_version geolocation
        reliability2 verification uptime_mins"""
    assert set(documented.split()) <= set(running)


def test_the_container_gets_vasts_variables_and_files(vast):
    instance = vast.launch(env={"PF_TOKEN": "secret", "-p 8022:8022": "1"})
    vast.wait_phase(instance, "running")
    lines = vast.exec(instance, "tr '\\0' '\\n' < /proc/1/environ").splitlines()
    variables = dict(line.split("=", 1) for line in lines)
    assert variables["PF_TOKEN"] == "secret"
    assert variables["CONTAINER_ID"] == str(instance)
    assert variables["VAST_CONTAINERLABEL"] == f"C.{instance}"
    outside = vast.get(instance)["ports"]["8022/tcp"][0]["HostPort"]
    assert variables["VAST_TCP_PORT_8022"] == outside
    assert not any(name.startswith("-p") for name in variables)
    assert vast.exec(instance, "cat /root/.vast_containerlabel").strip() == f"C.{instance}"
    assert vast.exec(instance, "cat /root/.vast_api_key") == variables["CONTAINER_API_KEY"]


def test_args_follow_onstart_as_the_command(vast):
    instance = vast.launch(onstart="/bin/sh", args=["-c", "exec sleep 777"])
    vast.wait_phase(instance, "running")
    assert "777" in vast.exec(instance, "tr '\\0' ' ' < /proc/1/cmdline")


def test_ssh_types_run_the_onstart_script_and_wait_for_logins(vast):
    instance = vast.launch(runtype="ssh_direct", onstart="echo started > /root/mark", args=[])
    vast.wait_phase(instance, "running")
    wait_for(lambda: vast.exec(instance, "cat /root/mark || :") == "started\n")
    assert vast.get(instance)["actual_status"] == "running"


def test_an_instance_that_is_gone_is_null_and_a_second_delete_is_404(vast):
    instance = vast.launch()
    deleted = vast.delete(instance)
    assert (deleted.status, deleted.json) == (200, {"success": True})
    again = vast.delete(instance)
    assert again.status == 404
    assert again.json == {
        "success": False,
        "error": "no_such_instance",
        "msg": "Instance with that ID does not exist.",
    }
    answer = vast.call("GET", f"/api/v0/instances/{instance}/")
    assert (answer.status, answer.json) == (200, {"instances": None})
    assert vast.list_ids() == []


def test_a_rental_can_be_cancelled_while_it_boots(serve):
    vast = serve("vastai", boot_seconds=30)
    instance = vast.launch()
    assert vast.delete(instance).status == 200
    assert vast.phase(instance) == "gone"


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"image": None}, "invalid_args"),
        ({"image": "x" * 1025}, "invalid_args"),
        ({"label": "x" * 257}, "invalid_args"),
        ({"disk": 7}, "invalid_args"),
        ({"runtype": "exec"}, "invalid_args"),
        ({"env": {"A": "x" * 257}}, "invalid_args"),
        ({"env": {f"V{n}": "x" * 250 for n in range(140)}}, "invalid_args"),
        ({"env": ["A=1"]}, "invalid_args"),
        ({"env": {"A": 1}}, "invalid_args"),
        ({"env": {"-p 99999:99999": "1"}}, "invalid_args"),
        ({"env": {f"-p {n}:{n}": "1" for n in range(1, 66)}}, "invalid_args"),
        ({"args": ["-c", "x" * 4088]}, "invalid_args"),
        ({"args": "-c true"}, "invalid_args"),
        ({"price": 0}, "invalid_price"),
        ({"price": 129}, "invalid_price"),
    ],
)
def test_launches_outside_the_limits_are_400(vast, settings, error):
    answer = vast.take(vast.offer()["id"], **settings)
    assert (answer.status, answer.json["error"]) == (400, error)
    assert vast.list_ids() == []


def test_limits_are_allowed_to_be_reached(vast):
    settings = {
        "env": {"A": "x" * 256},
        "label": "x" * 256,
        "onstart": "/bin/sh",
        "args": ["-c", ": ".ljust(4096 - 7 - 2, "x")],
        "disk": 8,
    }
    assert vast.take(vast.offer()["id"], **settings).status == 200


def test_a_launch_body_that_is_no_object_is_400(vast):
    answer = vast.call("PUT", f"/api/v0/asks/{vast.offer()['id']}/", b"{")
    assert answer.status == 400


def test_a_price_makes_a_rental_interruptible_at_that_price(vast):
    ask_id = vast.offer(type="bid")["id"]
    instance = vast.take(ask_id, price=0.12).json["new_contract"]
    shown = vast.get(instance)
    assert shown["is_bid"] is True
    assert shown["dph_base"] == 0.12


def test_a_bid_search_without_a_price_rents_on_demand_at_the_full_price(vast):
    ask_id = vast.offer(type="bid")["id"]
    shown = vast.get(vast.take(ask_id).json["new_contract"])
    assert shown["is_bid"] is False
    assert shown["dph_base"] == 0.18


def test_a_bid_that_is_too_low_fails_and_leaves_a_stopped_instance(vast):
    answer = vast.take(vast.offer(type="bid")["id"], price=0.05)
    assert (answer.status, answer.json["error"]) == (400, "invalid_price")
    instance = answer.json["new_contract"]
    shown = vast.get(instance)
    states = {shown[name] for name in ("cur_state", "intended_status", "next_state")}
    assert states == {"stopped"}
    assert vast.delete(instance).status == 200


def test_a_missing_image_is_created_with_the_daemons_words(vast):
    instance = vast.launch(image="broken/nonexistent:1")
    wait_for(lambda: vast.get(instance)["actual_status"] == "created")
    assert "manifest unknown" in vast.get(instance)["status_msg"]


def test_a_command_that_cannot_run_is_created_with_the_daemons_words(vast):
    instance = vast.launch(onstart="/bin/nothing", args=[])
    wait_for(lambda: vast.get(instance)["actual_status"] == "created")
    assert "OCI runtime create failed" in vast.get(instance)["status_msg"]


def test_a_container_that_ends_by_itself_is_exited(vast):
    instance = vast.launch(args=["-c", "exit 1"])
    vast.wait_phase(instance, "exited")
    shown = vast.get(instance)
    assert (shown["actual_status"], shown["intended_status"]) == ("exited", "running")


def test_an_instance_can_be_stopped_and_started_on_its_disk(vast):
    instance = vast.launch()
    vast.wait_phase(instance, "running")
    vast.exec(instance, "echo kept > /root/file; sync")
    path = f"/api/v0/instances/{instance}/"
    assert vast.call("PUT", path, {"state": "stopped"}).json == {"success": True}
    assert vast.get(instance)["actual_status"] == "exited"
    assert vast.call("PUT", path, {"state": "running"}).json == {"success": True}
    vast.wait_phase(instance, "running")
    assert vast.exec(instance, "cat /root/file") == "kept\n"
    assert vast.call("PUT", path, {"state": "paused"}).status == 400
    assert vast.call("PUT", path, b"{").status == 400


def test_labels_and_bids_can_be_changed(vast):
    instance = vast.launch(price=0.12)
    assert vast.call("PUT", f"/api/v0/instances/{instance}/", {"label": "new"}).status == 200
    bid_path = f"/api/v0/instances/bid_price/{instance}/"
    assert vast.call("PUT", bid_path, {"client_id": "me", "price": 0.2}).status == 200
    shown = vast.get(instance)
    assert (shown["label"], shown["dph_base"]) == ("new", 0.2)
    assert vast.call("PUT", bid_path, {"price": 33}).status == 400


def test_the_list_can_be_narrowed_to_a_label(vast):
    first = vast.launch(label="one")
    vast.launch(label="two")
    page = vast.page(select_filters=json.dumps({"label": {"eq": "one"}})).json
    assert [each["id"] for each in page["instances"]] == [first]
    assert page["label_counts"] == {"one": 1}
    assert (page["success"], page["total_instances"], page["next_token"]) == (True, 1, None)
    columns = vast.page(select_cols=json.dumps(["id", "label"])).json["instances"]
    assert all(set(row) == {"id", "label"} for row in columns)


def test_pages_are_linked_by_tokens(vast):
    made = sorted(vast.launch() for _ in range(3))
    seen, token = [], ""
    for _ in range(3):
        page = vast.page(limit=1, after_token=token).json
        assert page["total_instances"] == 3
        seen += [each["id"] for each in page["instances"]]
        token = page["next_token"] or ""
    assert seen == made
    assert token == ""


def test_a_page_holds_at_most_25(serve, tmp_path):
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"rtx-3090-poland": {"stock": 30}}))
    vast = serve("vastai", boot_seconds=60, price_file=prices)
    for _ in range(26):
        vast.launch()
    page = vast.page(limit=100).json
    assert (len(page["instances"]), page["total_instances"]) == (25, 26)
    assert len(vast.page(after_token=page["next_token"]).json["instances"]) == 1


@pytest.mark.parametrize(
    "query",
    [
        {"select_filters": "{"},
        {"select_filters": "[]"},
        {"limit": "many"},
        {"limit": "0"},
        {"after_token": "!"},
        {"after_token": "eHl6"},
    ],
)
def test_a_bad_list_query_is_400(vast, query):
    vast.launch()
    assert vast.page(**query).status == 400


def test_logs_are_fetched_from_a_url_that_is_given(vast):
    instance = vast.launch(args=["-c", "echo spoken; exec sleep infinity"])
    vast.wait_phase(instance, "running")
    path = f"/api/v0/instances/request_logs/{instance}"
    url = vast.call("PUT", path).json["result_url"]
    where = url.removeprefix(vast.url)
    wait_for(lambda: ask(vast.url, "GET", where).body == b"spoken\n")


def test_unknown_paths_methods_and_instances_are_refused(vast):
    assert vast.call("GET", "/api/v0/nothing/").status == 404
    assert vast.call("PATCH", "/api/v0/instances/1/").status == 405
    for path in ("instances/1/", "instances/bid_price/1/", "instances/request_logs/1/"):
        assert vast.call("PUT", f"/api/v0/{path}", {}).status == 404


def test_no_credit_means_no_rental(vast):
    vast.sim("POST", "balance", {"micros": 0})
    answer = vast.take(vast.offer()["id"])
    assert (answer.status, answer.json["error"]) == (400, "insufficient_credit")
    assert vast.call("GET", "/api/v0/users/current/").json["credit"] == 0
