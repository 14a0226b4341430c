"""The simulated RunPod answers like the documented one, with its quirks."""

from __future__ import annotations

import pytest

from tests.local.providers.client import ask, wait_for

KEYS_OF_A_POD = {
    "id", "name", "status", "actions", "image", "args", "entrypoint", "cmd", "disk", "ports",
    "env", "registry", "mounts", "gpu", "cloud", "dataCenterId", "cudaVersion", "ssh", "template",
    "cost", "locked", "globalNetworking", "runtime", "createdAt", "startedAt",
}  # fmt: skip
STOCK = "/v2/catalog/gpus?include=AVAILABILITY&product=POD"


def catalog(runpod, query=""):
    gpus = runpod.call("GET", STOCK + query).json["gpus"]
    return {each["id"]: each for each in gpus}


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({}, "missing bearer token"),
        ({"Authorization": "Bearer wrong"}, "invalid bearer token"),
        ({"X-API-KEY": "the-key"}, "missing bearer token"),
    ],
)
def test_a_missing_or_wrong_key_is_refused(runpod, headers, detail):
    answer = ask(runpod.url, "GET", "/v2/pods", headers=headers)
    assert answer.status == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json == {"title": "Unauthorized", "status": 401, "detail": detail, "errors": []}


def test_every_reply_tells_the_quota_and_a_429_when_to_come_back(runpod):
    answer = runpod.page()
    assert answer.headers["ratelimit-policy"] == '"minute";q=60;w=60'
    assert answer.headers["ratelimit"] == '"minute";r=59;t=60'
    runpod.fault(rate_limit=1)
    limited = runpod.page()
    assert limited.status == 429
    assert limited.headers["ratelimit"] == '"minute";r=0;t=1'
    assert limited.headers["retry-after"] == "1"


def test_the_catalog_has_the_documented_shape(runpod):
    rtx = catalog(runpod, "&cloud=SECURE&count=1")["NVIDIA GeForce RTX 4090"]
    assert rtx["name"] == "RTX 4090"
    assert rtx["memory"] == 24
    assert rtx["price"] == {"secure": 0.69, "community": 0.34, "serverless": None}
    assert rtx["maxCount"] == {"secure": 8, "community": 4}
    assert rtx["availability"] == "HIGH"
    assert [place["id"] for place in rtx["dataCenters"]] == ["EU-RO-1", "US-KS-2"]
    assert rtx["cudaVersions"] == [{"version": "12.8", "available": True}]


def test_the_catalog_tells_the_stock_of_one_cloud_and_count(runpod):
    for _ in range(2):
        runpod.launch(gpu={"id": "NVIDIA GeForce RTX 4090"}, dataCenterIds=["US-KS-2"])
    rtx = catalog(runpod, "&cloud=SECURE")["NVIDIA GeForce RTX 4090"]
    levels = {place["id"]: place["availability"] for place in rtx["dataCenters"]}
    assert levels == {"EU-RO-1": "HIGH", "US-KS-2": "NONE"}
    crowd = catalog(runpod, "&cloud=COMMUNITY&count=5")["NVIDIA GeForce RTX 4090"]
    assert crowd["availability"] == "NONE"
    missing_product = runpod.call("GET", "/v2/catalog/gpus?include=AVAILABILITY")
    assert missing_product.status == 400


def test_a_pod_goes_from_provisioning_to_running(serve):
    runpod = serve("runpod", boot_seconds=0.8)
    made = runpod.create(ports=["22/tcp", "8888/http"], env={"A": "b"})
    assert made.status == 201
    first = made.json
    assert set(first) == KEYS_OF_A_POD
    assert (first["status"], first["actions"]) == ("PROVISIONING", ["stop", "terminate"])
    assert (first["runtime"], first["startedAt"]) == (None, None)
    assert first["gpu"] == {"id": "NVIDIA RTX A4000", "count": 1, "vcpuCount": 6, "memory": 25}
    assert first["dataCenterId"] == "EUR-NO-1"
    assert first["args"] == '{"entrypoint": ["/bin/sh"], "cmd": ["-c", "exec sleep infinity"]}'
    pod = first["id"]
    wait_for(lambda: runpod.get(pod)["status"] == "STARTING")
    assert runpod.get(pod)["ssh"]["direct"] is None
    running = wait_for(lambda: (it := runpod.get(pod))["status"] == "RUNNING" and it)
    ssh, web = running["runtime"]["ports"]
    assert (ssh["private"], ssh["type"], ssh["ip"]) == (22, "tcp", "127.0.0.1")
    assert web == {"private": 8888, "public": None, "type": "http", "ip": None}
    assert running["ssh"]["direct"]["port"] == ssh["public"]
    assert running["actions"] == ["stop", "restart", "terminate"]
    assert running["startedAt"] > running["createdAt"]


def test_the_price_of_a_pod_is_that_of_its_gpus_and_its_disk(runpod):
    pod = runpod.launch(gpu={"id": "NVIDIA GeForce RTX 4090", "count": 2}, disk=72)
    # 72 GB at 0.10 dollars for 720 hours are one cent.
    assert runpod.get(pod)["cost"] == 1.39
    runpod.wait_phase(pod, "running")
    before = runpod.cost(pod)
    runpod.skip(3600)
    assert runpod.cost(pod) - before == pytest.approx(1_390_000, abs=800)


def test_a_container_sees_runpods_variables(runpod):
    pod = runpod.launch(ports=["22/tcp"], env={"MINE": "yes"})
    runpod.wait_phase(pod, "running")
    lines = runpod.exec(pod, "tr '\\0' '\\n' < /proc/1/environ").splitlines()
    outside = runpod.state(pod)["external_ports"]["22/tcp"]
    for line in (
        f"RUNPOD_POD_ID={pod}",
        "RUNPOD_DC_ID=EUR-NO-1",
        "RUNPOD_GPU_COUNT=1",
        f"RUNPOD_TCP_PORT_22={outside}",
        "MINE=yes",
    ):
        assert line in lines


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"bogus": 1}, "$: additional properties 'bogus' not allowed"),
        ({"gpu": {"id": "x", "size": 1}}, "$.gpu: additional properties 'size' not allowed"),
        ({"gpu": {"id": "x", "count": 0}}, "$.gpu.count: "),
        ({"gpu": {"id": "x", "minCudaVersion": "12"}}, "$.gpu.minCudaVersion: "),
        ({"env": {"A": 1}}, "$.env.A: "),
        ({"cloud": "ALL"}, "$.cloud: "),
        ({"disk": "20"}, "$.disk: "),
        ({"mounts": {"persistent": {"size": 5, "path": "/w"}}}, "$.mounts.persistent.size: "),
        ({"name": ""}, "$.name: "),
    ],
)
def test_a_body_that_breaks_the_schema_is_refused_by_its_place(runpod, settings, error):
    answer = runpod.create(**settings)
    assert answer.status == 422
    assert answer.json["detail"] == "Request validation failed."
    assert answer.json["errors"][0].startswith(error)
    assert runpod.list_ids() == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gpu": None}, "exactly one of gpu or cpu"),
        ({"cpu": {"id": "cpu3c", "vcpuCount": 2}}, "exactly one of gpu or cpu"),
        ({"image": None}, "image is required"),
        (
            {"gpu": {"id": "x", "allowedCudaVersions": ["12.8"], "minCudaVersion": "12.4"}},
            "mutually exclusive",
        ),
        ({"ports": ["22"]}, "22/tcp"),
        ({"ports": ["53/udp"]}, "22/tcp"),
        ({"args": "sleep 1"}, "different commands"),
    ],
)
def test_a_body_that_breaks_a_rule_between_fields_is_a_400(runpod, settings, words):
    answer = runpod.create(**settings)
    assert answer.status == 400
    assert words in answer.json["detail"]


@pytest.mark.parametrize(
    "settings",
    [
        {"gpu": {"id": "NVIDIA X1"}},
        {"gpu": {"id": "NVIDIA RTX A4000", "count": 9}},
        {"gpu": {"id": "NVIDIA RTX A4000", "minRamPerGpu": 26}},
        {"gpu": {"id": "NVIDIA RTX A4000", "minVcpuCountPerGpu": 7}},
        {"dataCenterIds": ["EU-RO-1"]},
        {"cloud": "COMMUNITY"},
    ],
)
def test_what_no_host_can_give_is_a_400_that_only_its_words_tell_apart(runpod, settings):
    answer = runpod.create(**settings)
    assert answer.status == 400
    assert answer.json["detail"].startswith("There are no longer any instances available with")


def test_the_command_may_be_one_string(runpod):
    pod = runpod.launch(args="sh -c 'echo said; sleep 1000'", entrypoint=[], cmd=[])
    wait_for(lambda: b"said" in runpod.sim("GET", f"instances/{pod}/log"))
    assert runpod.get(pod)["args"] == "sh -c 'echo said; sleep 1000'"


def test_bodies_that_are_too_large_or_no_json_are_refused(runpod):
    assert runpod.create(env={"A": "x" * 102_400}).status == 413
    assert runpod.call("POST", "/v2/pods", b"{").status == 400
    assert runpod.call("PUT", "/v2/pods", {}).status == 405
    assert runpod.call("GET", "/v2/nothing").status == 404


def test_two_pods_may_have_one_name(runpod):
    assert len({runpod.launch(), runpod.launch()}) == 2
    assert len(runpod.list_ids()) == 2


def test_a_terminated_pod_is_unknown_and_its_box_is_gone(runpod):
    pod = runpod.launch()
    runpod.wait_phase(pod, "running")
    done = runpod.delete(pod)
    assert (done.status, done.body) == (204, b"")
    assert not runpod.state(pod)["box_is_alive"]
    assert runpod.list_ids() == []
    for again in (runpod.delete(pod), runpod.call("GET", f"/v2/pods/{pod}")):
        assert (again.status, again.json["detail"]) == (404, "pod not found")


def test_a_pod_can_be_terminated_while_it_is_provisioned(runpod):
    runpod.fault(boot_never=True)
    pod = runpod.launch()
    assert runpod.delete(pod).status == 204
    assert runpod.phase(pod) == "gone"


def test_a_stop_wipes_the_disk_and_goes_on_costing_for_it(runpod):
    pod = runpod.launch(disk=72)
    runpod.wait_phase(pod, "running")
    runpod.exec(pod, "echo kept > /root/file; sync")
    stopped = runpod.act(pod, "stop").json
    assert (stopped["status"], stopped["cost"]) == ("EXITED", 0.0)
    assert stopped["actions"] == ["start", "terminate"]
    before = runpod.cost(pod)
    runpod.skip(3600)
    assert runpod.cost(pod) - before == pytest.approx(10_000, abs=20)
    assert runpod.act(pod, "start").status == 200
    wait_for(lambda: runpod.get(pod)["status"] == "RUNNING")
    assert "file" not in runpod.exec(pod, "ls /root").split()


def test_an_action_that_does_not_fit_the_status_is_a_conflict(runpod):
    pod = runpod.launch()
    runpod.wait_phase(pod, "running")
    assert runpod.act(pod, "start").status == 409
    assert runpod.act(pod, "dance").status == 422
    assert runpod.act(pod, "restart").status == 200
    runpod.wait_phase(pod, "running")
    assert runpod.act(pod, "terminate").status == 204
    assert runpod.act(pod, "terminate").status == 404


def test_a_failed_pod_goes_on_costing_until_it_is_terminated(runpod):
    runpod.fault(boot_fails=1)
    pod = runpod.launch(disk=20)
    wait_for(lambda: runpod.get(pod)["status"] == "ERROR")
    before = runpod.cost(pod)
    runpod.skip(3600)
    assert runpod.cost(pod) - before == pytest.approx(252_778, abs=200)
    assert runpod.delete(pod).status == 204
    ended = runpod.cost(pod)
    runpod.skip(3600)
    assert runpod.cost(pod) == ended


def test_a_create_needs_an_hours_credit_and_nothing_stands_without_any(runpod):
    runpod.sim("POST", "balance", {"micros": 249_999})
    poor = runpod.create()
    assert (poor.status, poor.json["title"]) == (402, "Payment Required")
    runpod.sim("POST", "balance", {"micros": 300_000})
    pod = runpod.launch()
    runpod.wait_phase(pod, "running")
    runpod.skip(2 * 3600)
    assert runpod.list_ids() == []
    assert runpod.phase(pod) == "gone"


def test_pages_are_followed_by_cursor(runpod):
    made = [runpod.launch() for _ in range(3)]
    first = runpod.page(limit=2).json
    assert first["pagination"]["hasNextPage"] is True
    second = runpod.page(limit=2, cursor=first["pagination"]["nextCursor"]).json
    assert second["pagination"] == {"hasNextPage": False, "nextCursor": None}
    assert [pod["id"] for pod in (*first["pods"], *second["pods"])] == made
    runpod.fault(page_size=1)
    assert len(runpod.page(limit=1000).json["pods"]) == 1
    assert runpod.page(limit=1001).status == 422
    assert runpod.page(cursor="mine").status == 400


def test_case_p9_a_young_pod_may_be_unknown_although_it_is_listed(runpod):
    runpod.fault(get_lag_seconds=60)
    pod = runpod.launch()
    assert runpod.list_ids() == [pod]
    assert runpod.call("GET", f"/v2/pods/{pod}").status == 404
    assert runpod.delete(pod).status == 404
    runpod.skip(61)
    assert runpod.get(pod)["id"] == pod


def test_a_status_may_be_a_lie(runpod):
    pod = runpod.launch()
    runpod.wait_phase(pod, "running")
    runpod.fault(status_says="EXITED")
    assert runpod.get(pod)["status"] == "EXITED"
    assert runpod.state(pod)["box_is_alive"]


def test_a_proxy_may_answer_in_runpods_place(runpod):
    runpod.fault(proxy_page=1)
    answer = runpod.create()
    assert (answer.status, answer.headers["content-type"]) == (502, "text/html")
    assert runpod.list_ids() == []


def test_a_pool_may_be_closed_to_the_account(runpod):
    runpod.fault(account_limit=True)
    assert runpod.create().status == 403
    assert runpod.list_ids() == []
