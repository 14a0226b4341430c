import base64
import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import FakeControlPlane, Json
from tests.agent.runtime.harness import AgentProcess

CHUNK_KEY = base64.b64encode(bytes(range(32))).decode()
SNAPSHOT = "snap_01j00000000000000000000001"
KEY = "ssh-ed25519 AAAAC3Nza someone@example"


def capture_args(kind: str = "volume", **changes: object) -> Json:
    return {
        "kind": kind,
        "snapshot_id": SNAPSHOT,
        "attempt_id": "att_1",
        "parent": None,
        "chunk_key": CHUNK_KEY,
        "rules": [],
        "mode": "stop",
        **changes,
    }


def restore_args(kind: str = "volume", **changes: object) -> Json:
    return {
        "kind": kind,
        "snapshot_id": SNAPSHOT,
        "chunk_key": CHUNK_KEY,
        "rules": [],
        "ssh_authorized_keys": [],
        **changes,
    }


def fill(root: Path, megabytes: int = 1) -> None:
    volume = root / "workspace"
    (volume / "models").mkdir()
    (volume / "notes.txt").write_text("remember\n")
    (volume / "link").symlink_to("notes.txt")
    for number in range(megabytes):
        (volume / f"models/{number:03}.bin").write_bytes(os.urandom(1 << 20))


def contents(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = path.readlink()
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = path.stat().st_mode
    return found


@pytest.fixture
def box(new_agent: AgentFactory) -> AgentProcess:
    """A running agent in a box with something in its volume."""
    agent = new_agent()
    fill(agent.root)
    return agent.start()


def next_box(plane: FakeControlPlane, new_agent: AgentFactory) -> AgentProcess:
    """The machine that the pod goes to; the fake control plane knows one machine at a time."""
    plane.token_sha256 = ""
    return new_agent("next").start()


def test_volume_arrives_whole_on_the_next_machine(
    plane: FakeControlPlane, box: AgentProcess, new_agent: AgentFactory
) -> None:
    captured = plane.do("capture", capture_args())
    assert captured["summary"]["torn"] == []
    (commit,) = plane.commits
    assert commit["root"] == captured["root"]
    assert commit["attempt_id"] == "att_1"
    box.kill_box()
    target = next_box(plane, new_agent)
    restored = plane.do("restore", restore_args())
    assert restored["bytes"] == captured["summary"]["bytes"]
    assert contents(target.root / "workspace") == contents(box.root / "workspace")


def test_environment_arrives_without_the_volume_and_with_the_accounts_keys(
    plane: FakeControlPlane, box: AgentProcess, new_agent: AgentFactory
) -> None:
    (box.root / "opt").mkdir()
    (box.root / "opt/tool").write_text("v2")
    plane.do("capture", capture_args("environment"))
    box.kill_box()
    target = next_box(plane, new_agent)
    plane.do("restore", restore_args("environment", ssh_authorized_keys=[KEY]))
    assert (target.root / "opt/tool").read_text() == "v2"
    assert contents(target.root / "workspace") == {}
    assert KEY in (target.root / "root/.ssh/authorized_keys").read_text()


def test_capture_reports_progress(plane: FakeControlPlane, new_agent: AgentFactory) -> None:
    agent = new_agent()
    fill(agent.root, megabytes=40)
    plane.add_fault("PUT", "/objects/", "slow", seconds=0.2, count=100)
    agent.start()
    command = plane.enqueue("capture", capture_args(), timeout_seconds=60)
    plane.wait_end(command, seconds=30)
    seen = plane.progress[command]
    assert {
        "phase",
        "bytes_done",
        "bytes_total",
        "files_done",
        "files_total",
        "eta_seconds",
    } == set(seen[-1])
    assert max(item["bytes_done"] for item in seen) > 0


def test_at_most_four_objects_are_on_their_way_at_once(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    agent = new_agent()
    fill(agent.root, megabytes=48)
    plane.add_fault("PUT", "/objects/", "slow", seconds=0.1, count=100)
    agent.start()
    plane.wait_end(plane.enqueue("capture", capture_args(), timeout_seconds=60), seconds=30)
    assert 1 <= plane.store.most_puts_in_flight <= 4


def test_promise_11_token_never_goes_to_the_object_store(
    plane: FakeControlPlane, box: AgentProcess, new_agent: AgentFactory
) -> None:
    plane.do("capture", capture_args())
    box.kill_box()
    target = next_box(plane, new_agent)
    plane.do("restore", restore_args())
    object_requests = [seen for seen in plane.seen if seen.path.startswith("/objects/")]
    assert {seen.method for seen in object_requests} == {"PUT", "GET"}
    for seen in object_requests:
        assert "authorization" not in seen.headers
        assert not any("pfm_" in value for value in seen.headers.values())
    assert "X-Amz-Signature" not in box.log() + target.log()
    assert CHUNK_KEY not in box.log() + target.log()


def test_promise_10_lost_answers_do_not_harm_a_capture(
    plane: FakeControlPlane, box: AgentProcess
) -> None:
    for path in ("/agent/v1/uploads", "/agent/v1/commit"):
        plane.add_fault("POST", path, "drop_response", count=2)
    plane.add_fault("PUT", "/objects/", "drop_response", count=2)
    plane.do("capture", capture_args())
    assert len({json.dumps(commit["root"]) for commit in plane.commits}) == 1
    assert len(plane.commits) == 3


def test_failing_store_is_tried_again(plane: FakeControlPlane, box: AgentProcess) -> None:
    plane.add_fault("PUT", "/objects/", "error", status=503, count=3)
    plane.add_fault("PUT", f"/objects/{SNAPSHOT}/root", "error", status=500, count=1)
    plane.do("capture", capture_args())


def test_store_that_sees_two_uploads_of_one_object_at_once_is_asked_again(
    plane: FakeControlPlane, box: AgentProcess
) -> None:
    """S3 answers 409 ConditionalRequestConflict while it does not yet know which one wins."""
    pack = plane.add_fault("PUT", f"/objects/{SNAPSHOT}/packs/", "error", status=409, count=2)
    root = plane.add_fault("PUT", f"/objects/{SNAPSHOT}/root", "error", status=409, count=1)
    plane.do("capture", capture_args())
    assert (pack.left, root.left) == (0, 0)
    assert (SNAPSHOT, "root") in plane.objects


def test_expired_urls_are_replaced_by_fresh_ones(
    plane: FakeControlPlane, box: AgentProcess, new_agent: AgentFactory
) -> None:
    plane.add_fault("PUT", "/objects/", "error", status=403, count=2)
    plane.do("capture", capture_args())
    box.kill_box()
    plane.add_fault("GET", "/objects/", "error", status=403, count=3)
    target = next_box(plane, new_agent)
    plane.do("restore", restore_args())
    assert (target.root / "workspace/notes.txt").read_text() == "remember\n"


def test_store_that_refuses_every_url_fails_the_capture(
    plane: FakeControlPlane, box: AgentProcess
) -> None:
    plane.add_fault("PUT", "/objects/", "error", status=403, count=1000)
    error = plane.fail("capture", capture_args())
    assert error["code"] == "transfer_failed"
    assert "403" in error["detail"]
    assert plane.commits == []


def test_content_that_the_store_finds_damaged_is_sent_three_times_at_most(
    plane: FakeControlPlane, box: AgentProcess
) -> None:
    fault = plane.add_fault("PUT", f"/objects/{SNAPSHOT}/root", "error", status=400, count=2)
    plane.do("capture", capture_args())
    fault.left = 3
    error = plane.fail("capture", capture_args(snapshot_id=SNAPSHOT))
    assert error["code"] == "transfer_failed"
    assert "400" in error["detail"]


def test_promise_07_missing_object_fails_the_restore(
    plane: FakeControlPlane, box: AgentProcess, new_agent: AgentFactory
) -> None:
    plane.do("capture", capture_args())
    box.kill_box()
    for key in [key for key in plane.objects if key[1].startswith("packs/")]:
        del plane.objects[key]
    target = next_box(plane, new_agent)
    error = plane.fail("restore", restore_args())
    assert error["code"] == "snapshot_missing"
    assert not (target.root / "workspace/notes.txt").exists()


def test_promise_07_unknown_snapshot_fails_the_restore(
    plane: FakeControlPlane, box: AgentProcess
) -> None:
    before = contents(box.root / "workspace")
    assert plane.fail("restore", restore_args())["code"] == "snapshot_missing"
    assert contents(box.root / "workspace") == before


def test_other_root_under_the_same_snapshot_id_is_a_conflict(
    plane: FakeControlPlane, box: AgentProcess
) -> None:
    plane.objects[SNAPSHOT, "root"] = b"another attempt wrote this"
    error = plane.fail("capture", capture_args())
    assert error["code"] == "object_conflict"
    assert plane.objects[SNAPSHOT, "root"] == b"another attempt wrote this"
    assert plane.commits == []


def test_capture_that_was_killed_in_the_middle_is_finished_by_the_next_agent(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    agent = new_agent()
    fill(agent.root, megabytes=40)
    agent.start()
    slow = plane.add_fault("PUT", "/objects/", "slow", seconds=0.3, count=1000)
    command = plane.enqueue("capture", capture_args(), timeout_seconds=60)
    plane.wait_for(lambda: plane.objects)
    agent.kill_agent()
    slow.left = 0
    assert plane.wait_end(command, seconds=30)["state"] == "succeeded"
    agent.kill_box()
    target = next_box(plane, new_agent)
    plane.do("restore", restore_args(), seconds=30)
    assert contents(target.root / "workspace") == contents(agent.root / "workspace")


def test_restore_that_was_killed_in_the_middle_is_finished_by_the_next_agent(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    source = new_agent()
    fill(source.root, megabytes=40)
    source.start()
    plane.do("capture", capture_args(), seconds=30)
    source.kill_box()
    slow = plane.add_fault("GET", f"/objects/{SNAPSHOT}/packs/", "slow", seconds=0.3, count=1000)
    target = next_box(plane, new_agent)
    command = plane.enqueue("restore", restore_args(), timeout_seconds=60)
    plane.wait_for(lambda: slow.left < 999)
    target.kill_agent()
    slow.left = 0
    assert plane.wait_end(command, seconds=30)["state"] == "succeeded"
    assert contents(target.root / "workspace") == contents(source.root / "workspace")


def test_cancelled_capture_stops_soon_and_commits_nothing(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    agent = new_agent()
    fill(agent.root, megabytes=40)
    agent.start()
    plane.add_fault("PUT", "/objects/", "slow", seconds=0.3, count=1000)
    command = plane.enqueue("capture", capture_args(), timeout_seconds=60)
    plane.wait_for(lambda: plane.objects)
    started = time.monotonic()
    plane.do("cancel", {"command_id": command})
    assert plane.wait_end(command)["error"]["code"] == "cancelled"
    assert time.monotonic() - started < 5
    assert plane.commits == []


def test_second_capture_sends_only_what_changed(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    agent = new_agent()
    fill(agent.root, megabytes=8)
    agent.start()
    plane.do("capture", capture_args())
    (agent.root / "workspace/new.txt").write_text("new")
    args = capture_args(snapshot_id="snap_2", parent={"snapshot_id": SNAPSHOT})
    summary = plane.do("capture", args)["summary"]
    assert summary["new_bytes"] < 1 << 20
    assert summary["bytes"] > 8 << 20


def test_a_capture_on_another_machine_reads_its_parent_through_the_parent(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    agent = new_agent()
    fill(agent.root, megabytes=2)
    agent.start()
    plane.do("capture", capture_args())
    # The parent's pages are on the machine that made them only.
    for page in agent.root.rglob("pages/*"):
        page.unlink()
    args = capture_args(snapshot_id="snap_2", parent={"snapshot_id": SNAPSHOT})
    summary = plane.do("capture", args)["summary"]
    assert summary["new_bytes"] == 0
    assert [r.path for r in plane.seen if "downloads" in r.path]


def test_invalid_chunk_key_is_refused_by_name(plane: FakeControlPlane, box: AgentProcess) -> None:
    error = plane.fail("capture", capture_args(chunk_key="c2hvcnQ="))
    assert error["code"] == "invalid_arguments"
    assert "chunk_key must be 32 bytes" in error["detail"]
