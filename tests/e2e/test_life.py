"""A pod's life on real boxes: what it does comes back, whatever goes wrong on the way."""

import time

import pytest
from deployment import DIGEST, FILL, Deployment, User, code_of, reached

from local.api import ApiError, OperationFailedError


def test_promise_06_running_means_that_the_startup_script_ended_well(user: User) -> None:
    script = "#!/bin/sh\nsleep 1; echo $GREETING > /opt/greeting\n"
    pod = user.running_pod(startup_script=script, environment={"GREETING": "hello"})
    assert pod["state"] == "running"
    assert user.run(pod, "cat /opt/greeting") == "hello\n"
    metrics = user.api.get(f"/v1/pods/{pod['id']}/metrics")
    assert metrics


def test_a_startup_script_that_fails_leaves_the_pod_stopped_with_its_words(
    deployment: Deployment, user: User
) -> None:
    pod = user.new_pod(startup_script="#!/bin/sh\necho no such model >&2; exit 3\n")
    with pytest.raises(OperationFailedError) as failed:
        user.api.wait(pod["operation"]["id"])
    assert failed.value.operation["error"]["code"] == "agent_failed"
    assert "no such model" in failed.value.operation["error"]["detail"]
    assert user.pod(pod)["state"] == "stopped"
    assert deployment.standing("fluence") == []


def test_five_cycles_of_edits_come_back_equal_also_deletions_of_base_files(user: User) -> None:
    pod = user.running_pod()
    base = user.run(pod, "ls /usr/bin | grep -E '^(cksum|expr|md5sum|od|tac)$' | sort").split()
    look = (
        "cd / && find opt etc/cycle* workspace var/tmp -printf '%p %y %m %U:%G %s %T@\\n' "
        "2>/dev/null | sort; ls /usr/bin | sort; cat opt/*.txt workspace/*.txt 2>/dev/null"
    )
    for cycle in range(5):
        victim = base[cycle] if cycle < len(base) else "no-such-file"
        user.run(
            pod,
            f"set -e; echo {cycle} > /opt/{cycle}.txt; echo {cycle} >> /workspace/log.txt; "
            f"rm -f /opt/{cycle - 2}.txt /usr/bin/{victim}; mkdir -p /etc/cycle{cycle}; "
            f"ln -sfn /opt/{cycle}.txt /opt/newest; head -c 100000 /dev/urandom > /var/tmp/r; "
            "chmod 4711 /var/tmp/r; echo gone > /workspace/temporary; rm /workspace/temporary",
        )
        before = user.run(pod, look)
        user.do(pod, "stop")
        user.do(pod, "start", ("vastai", "fluence")[cycle % 2])
        assert user.run(pod, look) == before


@pytest.mark.parametrize(
    ("provider", "faults"),
    [
        ("fluence", {"create_500_but_exists": 1}),
        ("vastai", {"create_timeout": 1, "page_size": 1, "listing_lag_seconds": 3}),
    ],
)
def test_promise_04_a_create_whose_answer_is_lost_gives_one_box(
    deployment: Deployment, user: User, provider: str, faults: dict[str, int]
) -> None:
    deployment.set_fault(provider, **faults)
    pod = user.running_pod(provider)
    assert len(deployment.standing(provider)) == 1
    assert "machine.unknown" in types_of(user, f"/v1/pods/{pod['id']}/events")


def types_of(user: User, path: str) -> list[str]:
    return [event["type"] for event in user.api.get(path, limit=100)["data"]]


def test_promise_03_a_delete_that_fails_for_a_while_keeps_the_machine_terminating(
    deployment: Deployment, user: User
) -> None:
    pod = user.running_pod("vastai")
    deployment.set_fault("vastai", delete_fails=True)
    operation = user.ask(pod, "stop")
    user.until(operation, reached("giving_up"))
    events = f"/v1/pods/{pod['id']}/events"
    user.until(operation, lambda _: "machine.give_up_refused" in types_of(user, events))
    assert user.pod(pod)["state"] == "stopping"
    assert len(deployment.standing("vastai")) == 1
    deployment.clear_faults()
    receipt = user.api.wait(operation)["result"]
    assert deployment.standing("vastai") == []
    assert receipt["clearance"] == "captures_verified"
    assert user.pod(pod)["state"] == "stopped"


def test_case_p4_a_machine_that_fails_to_boot_is_replaced_by_the_next_offer(
    deployment: Deployment, user: User
) -> None:
    deployment.set_fault("vastai", boot_fails=1)
    pod = user.running_pod("vastai")
    assert pod["state"] == "running"
    assert len(deployment.standing("vastai")) == 1


def test_promise_01_and_02_a_pack_that_goes_missing_before_verification_keeps_the_machine(
    deployment: Deployment, user: User
) -> None:
    pod = user.running_pod()
    user.run(pod, "(while true; do date > /workspace/alive; sleep 0.2; done) > /dev/null 2>&1 &")
    user.run(pod, FILL.format(mib=8) + "; head -c 300M /dev/urandom > /opt/slow")
    operation = user.ask(pod, "stop")
    user.until(operation, reached("capture-volume"))
    volume_id = user.pod(pod)["volume"]["id"]
    _lose_a_pack(deployment, user.account_id)
    with pytest.raises(OperationFailedError) as failed:
        user.api.wait(operation)
    assert failed.value.operation["error"]["code"] == "snapshot_unverified"
    kept = user.pod(pod)
    assert kept["state"] == "running"
    assert kept["last_error"]["code"] == "snapshot_unverified"
    assert user.api.get(f"/v1/volumes/{volume_id}")["head"] is None
    first = user.run(pod, "cat /workspace/d/big | wc -c; date")
    assert first.startswith("8388608")
    user.do(pod, "stop")


def _lose_a_pack(deployment: Deployment, account_id: str) -> None:
    """Delete the first pack of the volume's capture as soon as it is there."""

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        packs = [k for k in deployment.keys("volume", account_id) if "/packs/" in k]
        roots = [k for k in deployment.keys("volume", account_id) if k.endswith("/root")]
        if packs and roots:
            s3 = deployment.aws("s3")
            bucket = deployment.bucket("volume")
            versions = s3.list_object_versions(Bucket=bucket, Prefix=packs[0])
            for version in versions.get("Versions", []):
                s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])
            s3.delete_object(Bucket=bucket, Key=packs[0])
            return
        time.sleep(0.02)
    raise AssertionError("the capture of the volume never came")


def test_an_agent_killed_in_the_middle_of_a_capture_captures_again(
    deployment: Deployment, user: User
) -> None:
    pod = user.running_pod()
    user.run(pod, FILL.format(mib=300))
    digest = user.run(pod, DIGEST)
    operation = user.ask(pod, "stop")
    user.until(operation, reached("capture-volume"))
    provider, instance = user.box(pod)
    kill = "for p in /proc/[0-9]*; do grep -qa podferry_agent $p/cmdline && echo ${p#/proc/}; done"
    pids = [p for p in deployment.in_box(provider, instance, kill).split() if p != "1"]
    assert pids
    deployment.in_box(provider, instance, f"kill -9 {' '.join(pids)} 2>/dev/null; true")
    user.api.wait(operation, 240)
    user.do(pod, "start", "vastai")
    assert user.run(pod, DIGEST) == digest


def test_promise_07_a_start_whose_snapshot_is_gone_fails_and_loses_nothing(
    deployment: Deployment, user: User
) -> None:
    pod = user.running_pod()
    user.run(pod, FILL.format(mib=1))
    user.do(pod, "stop")
    head = user.pod(pod)["volume"]["head"]
    s3, bucket = deployment.aws("s3"), deployment.bucket("volume")
    key = next(k for k in deployment.keys("volume", user.account_id) if "/packs/" in k)
    body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    s3.delete_object(Bucket=bucket, Key=key)
    with pytest.raises(OperationFailedError) as failed:
        user.do(pod, "start")
    assert failed.value.operation["error"]["code"] == "snapshot_missing"
    assert user.pod(pod)["state"] == "stopped"
    assert user.pod(pod)["volume"]["head"] == head
    assert deployment.standing("fluence") == []
    s3.put_object(Bucket=bucket, Key=key, Body=body, ChecksumAlgorithm="SHA256")
    user.do(pod, "start")
    assert user.run(pod, "wc -c < /workspace/d/big").strip() == "1048576"


def test_of_two_starts_at_once_one_wins_and_the_other_is_refused(user: User) -> None:
    pod = user.running_pod()
    user.do(pod, "stop")
    first = user.ask(pod, "start")
    with pytest.raises(ApiError) as refused:
        user.ask(pod, "start")
    assert code_of(refused.value) == (409, "wrong_state")
    user.api.wait(first)


def test_a_pod_that_moves_keeps_its_id_and_its_work(deployment: Deployment, user: User) -> None:
    pod = user.running_pod()
    user.run(pod, FILL.format(mib=5))
    digest = user.run(pod, DIGEST)
    user.do(pod, "move", "vastai")
    moved = user.pod(pod)
    assert (moved["id"], moved["machine"]["provider"]) == (pod["id"], "vastai")
    assert user.run(pod, DIGEST) == digest
    assert deployment.standing("fluence") == []
