"""What is left after the embedded AWS ends, by request or by SIGKILL."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import urllib3

from local.aws.deploy import Outputs, deploy
from local.processes import REPOSITORY

from .conftest import EmbeddedAWS, eventually, start

SAVED_WITHIN_SECONDS = 5
GONE_WITHIN_SECONDS = 3


def _put(server: EmbeddedAWS, table: str, name: str) -> None:
    item = {"pk": {"S": name}, "sk": {"S": "row"}}
    server.client("dynamodb").put_item(TableName=table, Item=item)


def _has(server: EmbeddedAWS, table: str, name: str) -> bool:
    key = {"pk": {"S": name}, "sk": {"S": "row"}}
    return "Item" in server.client("dynamodb").get_item(TableName=table, Key=key)


def _is_alive(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@dataclass(frozen=True)
class Killed:
    """What a server left that was killed right after a deployment."""

    data: Path
    outputs: Outputs


@pytest.fixture(scope="module")
def killed(assembly: Path, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    server = start(tmp_path_factory.mktemp("killed") / "data")
    outputs = deploy(assembly, server.endpoint, lambda _: None)
    server.server.kill()
    return Killed(server.data, outputs)


def test_sigkill_right_after_a_deployment_keeps_all_of_it(
    killed: Killed,
    data: Path,
    running: list[EmbeddedAWS],
    assembly: Path,
    http: urllib3.PoolManager,
) -> None:
    again = start(shutil.copytree(killed.data, data))
    running.append(again)
    changes: list[str] = []
    deploy(assembly, again.endpoint, changes.append)

    assert [line.rpartition(": ")[2] for line in changes] == ["no change"] * 3
    assert http.request("GET", f"{again.api_front}/open").status == 200


def test_sigkill_keeps_state_and_leaves_no_process(
    killed: Killed, data: Path, running: list[EmbeddedAWS], http: urllib3.PoolManager
) -> None:
    server = start(shutil.copytree(killed.data, data))
    running.append(server)
    table, flow = killed.outputs["TinyData"]["TableName"], killed.outputs["TinyFlow"]["FlowArn"]
    execution = server.client("stepfunctions").start_execution(
        stateMachineArn=flow, name="op-1", input='{"kind": "wait", "seconds": 60}'
    )["executionArn"]
    worker = json.loads(http.request("GET", f"{server.api_front}/open").data)["pid"]
    flows = data / "state" / "stepfunctions.json"
    eventually(lambda: flows.exists() and "op-1" in flows.read_text(), SAVED_WITHIN_SECONDS)

    _put(server, table, "kept")
    server.server.kill()
    eventually(lambda: not _is_alive(worker), GONE_WITHIN_SECONDS)
    again = start(data)
    running.append(again)

    assert (again.endpoint, again.api_front) == (server.endpoint, server.api_front)
    assert _has(again, table, "kept")
    found = again.client("stepfunctions").describe_execution(executionArn=execution)
    assert (found["status"], found["error"]) == ("FAILED", "States.ServiceRestart")
    assert http.request("GET", f"{again.api_front}/open").status == 200

    worker = json.loads(http.request("GET", f"{again.api_front}/open").data)["pid"]
    assert again.stop() == 0
    assert not _is_alive(worker)


def test_sigterm_saves_everything(data: Path, running: list[EmbeddedAWS]) -> None:
    server = start(data)
    running.append(server)
    server.client("s3").create_bucket(Bucket="kept")
    server.client("ssm").put_parameter(Name="/last", Value="moment", Type="String")

    code = server.stop()
    again = start(data)
    running.append(again)

    assert code == 0
    assert again.client("ssm").get_parameter(Name="/last")["Parameter"]["Value"] == "moment"
    assert again.client("s3").list_buckets()["Buckets"][0]["Name"] == "kept"


def test_second_server_on_the_same_directory_is_refused(server: EmbeddedAWS) -> None:
    second = _run("--data", str(server.data))

    assert second.returncode == 2
    assert f"in use by process {server.server.process.pid}" in second.stderr


def test_taken_port_is_named_with_the_flag_that_moves_it(server: EmbeddedAWS, data: Path) -> None:
    port = server.endpoint.rpartition(":")[2]

    second = _run("--data", str(data), "--front-port", port)

    assert second.returncode == 2
    assert f"port {port} on 127.0.0.1 cannot be used" in second.stderr
    assert "--front-port" in second.stderr


def test_damaged_port_file_is_a_clear_error(data: Path) -> None:
    data.mkdir()
    (data / "ports.json").write_text("{")

    refused = _run("--data", str(data))

    assert refused.returncode == 2
    assert "ports.json is not readable" in refused.stderr


def test_damaged_journal_is_a_clear_error_and_not_a_loss(data: Path) -> None:
    (data / "journal").mkdir(parents=True)
    (data / "journal" / "00000001.jsonl").write_bytes(b"[]\n[{\n")

    refused = _run("--data", str(data))

    assert refused.returncode == 2
    assert "line 2 of" in refused.stderr
    assert "00000001.jsonl is damaged" in refused.stderr


def test_front_door_says_that_nothing_is_deployed(
    data: Path, running: list[EmbeddedAWS], http: urllib3.PoolManager
) -> None:
    server = start(data)
    running.append(server)

    answer = http.request("GET", f"{server.api_front}/v1/pods")

    assert answer.status == 503
    assert "no HTTP API is deployed yet" in json.loads(answer.data)["detail"]


def test_server_ends_with_the_process_that_started_it(data: Path) -> None:
    holder = subprocess.Popen(["sleep", "60"])
    server = start(data, "--end-with", str(holder.pid))
    holder.kill()
    holder.wait()

    eventually(lambda: not server.server.is_alive, GONE_WITHIN_SECONDS)
    assert server.stop() == 0


def _run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "local.aws", *flags],
        cwd=REPOSITORY,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
