import hashlib
import json

from tests.agent.runtime.conftest import AgentFactory
from tests.agent.runtime.fake_api import BOOT_TOKEN, MACHINE_ID, FakeControlPlane
from tests.agent.runtime.harness import AgentProcess


def test_agent_registers_with_a_token_of_its_own_making(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    (registration,) = plane.registrations
    identity = json.loads((agent.state_dir / "identity.json").read_text())
    assert identity["token"].startswith(f"pfm_{MACHINE_ID}_")
    digest = hashlib.sha256(identity["token"].encode()).hexdigest()
    assert registration["token_sha256"] == digest
    assert identity["token"] not in json.dumps(registration)
    assert registration["facts"]["distro_id"] == "testos"


def test_heartbeats_are_numbered_and_carry_metrics(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    beats = plane.wait_for(lambda: len(plane.heartbeats) >= 3 and plane.heartbeats[:3])
    assert [beat["sequence"] for beat in beats] == [1, 2, 3]
    assert len({beat["boot_id"] for beat in beats}) == 1
    metrics = beats[-1]["metrics"]
    assert 0 < metrics["memory_used_bytes"] < metrics["memory_total_bytes"]
    assert 0 < metrics["disk_used_bytes"] <= metrics["disk_total_bytes"]
    assert beats[0]["workload"] == {"state": "none", "exit_code": None, "detail": None}


def test_promise_10_lost_answer_to_register_leads_to_the_same_registration(
    plane: FakeControlPlane, new_agent: AgentFactory
) -> None:
    plane.add_fault("POST", "/agent/v1/register", "drop_response", count=2)
    new_agent().start()
    plane.wait_for(lambda: plane.heartbeats)
    assert len(plane.registrations) == 3
    assert len({item["token_sha256"] for item in plane.registrations}) == 1


def test_restarted_box_goes_on_with_the_stored_token(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    agent.kill_box()
    before = len(plane.heartbeats)
    agent.start()
    plane.wait_for(lambda: len(plane.heartbeats) > before)
    assert len(plane.registrations) == 1
    assert plane.heartbeats[-1]["boot_id"] != plane.heartbeats[0]["boot_id"]


def test_second_agent_with_the_same_boot_token_is_refused_and_ends(
    plane: FakeControlPlane, agent: AgentProcess, new_agent: AgentFactory
) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    thief = new_agent("other").start()
    assert thief.wait() == 64
    assert "already_registered" in thief.log()


def test_agent_without_api_url_says_which_setting_is_missing(new_agent: AgentFactory) -> None:
    agent = new_agent(PF_API="").start()
    assert agent.wait() == 64
    reason = "PF_API is not set; it must hold the base URL of the control plane"
    assert agent.log() == f"podferry-agent: {reason}\n"


def test_state_of_another_machine_is_not_taken_over(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    agent.kill_box()
    agent.environment["PF_MACHINE"] = "mach_other"
    assert agent.start().wait() == 64
    assert f"belongs to machine {MACHINE_ID}" in agent.log()


def test_state_directory_is_private(plane: FakeControlPlane, agent: AgentProcess) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    assert agent.state_dir.stat().st_mode & 0o777 == 0o700
    assert (agent.state_dir / "identity.json").stat().st_mode & 0o777 == 0o600


def test_outage_of_the_control_plane_is_waited_out(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    fault = plane.add_fault("POST", "/agent/v1/heartbeat", "error", status=503, count=4)
    beats = len(plane.heartbeats)
    plane.wait_for(lambda: not fault.left and len(plane.heartbeats) > beats + 1)
    assert agent.process is not None
    assert agent.process.poll() is None


def test_promise_11_tokens_and_presigned_urls_are_never_logged(
    plane: FakeControlPlane, agent: AgentProcess
) -> None:
    plane.wait_for(lambda: plane.heartbeats)
    plane.add_fault("POST", "/agent/v1/heartbeat", "error", status=401, count=2)
    plane.wait_end(plane.enqueue("exec", {"script": "echo hello", "timeout_seconds": 5}))
    token = json.loads((agent.state_dir / "identity.json").read_text())["token"]
    for secret in (BOOT_TOKEN, token, "bundle-secret", "X-Amz-Signature"):
        assert secret not in agent.log()
    assert all(json.loads(line)["message"] for line in agent.log().splitlines())
