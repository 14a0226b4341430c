"""Simulators are processes that may die at any moment and come back with what they had."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.providers.client import (
    KEY,
    FluenceClient,
    LambdaClient,
    RunpodClient,
    VastClient,
    wait_for,
)

_ROOT = Path(__file__).resolve().parents[3]
CLIENTS = {
    "fluence": FluenceClient,
    "lambda": LambdaClient,
    "runpod": RunpodClient,
    "vastai": VastClient,
}


class Process:
    """`python -m local.providers` and a client for it."""

    def __init__(self, name: str, data: Path, base: Path, *more: str) -> None:
        command = [sys.executable, "-m", "local.providers", name, "--data", str(data)]
        options = ["--key", KEY, "--boot-seconds", "0.05", "--base-cache", str(base.parent)]
        self.process = subprocess.Popen(
            [*command, *options, *more], stdout=subprocess.PIPE, cwd=_ROOT, text=True
        )
        line = self.process.stdout.readline()
        self.announced = json.loads(line) if line else {}
        self.client = CLIENTS[name](self.announced.get("url", ""))

    def end(self, number: int = signal.SIGKILL) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(10)
        self.process.stdout.close()
        return code


@pytest.fixture
def run(tmp_path, base):
    started = []

    def start(name: str, *more: str) -> Process:
        process = Process(name, tmp_path / name, base, *more)
        started.append(process)
        return process

    yield start
    for each in started:
        each.end()


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def launch_noting_starts(client) -> str:
    script = "echo start >> /root/starts; sync /root/starts; sleep infinity"
    match client:
        case FluenceClient():
            return client.launch(startup_command=script, environment=[{"name": "A", "value": "b"}])
        case RunpodClient():
            return client.launch(cmd=["-c", script], env={"A": "b"})
    return str(client.launch(args=["-c", script], env={"A": "b", "-p 8022:8022": "1"}))


def wait_for_starts(client, instance: str, count: int) -> None:
    client.wait_phase(instance, "running")
    wait_for(lambda: client.state(instance)["box_is_alive"])
    wait_for(lambda: client.exec(instance, "cat /root/starts || :") == "start\n" * count)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("fluence", signal.SIGKILL),
        ("runpod", signal.SIGKILL),
        ("vastai", signal.SIGKILL),
        ("vastai", signal.SIGTERM),
    ],
)
def test_boxes_die_with_their_simulator_and_come_back_with_it(run, name, number):
    first = run(name)
    instance = launch_noting_starts(first.client)
    wait_for_starts(first.client, instance, 1)
    before = first.client.get(instance)
    pid = first.client.state(instance)["box_pid"]
    first.end(number)
    wait_for(lambda: not is_running(pid), 3)
    second = run(name)
    wait_for_starts(second.client, instance, 2)
    assert "A=b" in second.client.exec(instance, "tr '\\0' '\\n' < /proc/1/environ").splitlines()
    after = second.client.get(instance)
    for key in ("id", "name", "label", "created_at", "start_date", "ports", "container_info"):
        assert before.get(key) == after.get(key)
    assert second.client.delete(instance).status in (200, 204)


def test_a_machine_of_a_killed_simulator_is_booted_again_on_its_disk(run):
    """User data runs once; what it left to be run at each boot runs again."""
    per_boot = "/var/lib/cloud/scripts/per-boot/again"
    script = f"printf '#!/bin/sh\\necho again\\n' > {per_boot}; chmod 755 {per_boot}; echo first"
    first = run("lambda")
    machine = first.client.run_script(script)
    wait_for(lambda: first.client.sim("GET", f"instances/{machine}/log") == b"first\n")
    first.end()
    second = run("lambda")
    wait_for(lambda: second.client.sim("GET", f"instances/{machine}/log").endswith(b"again\n"))
    assert second.client.list_ids() == [machine]


def test_a_rental_that_was_booting_goes_on_to_boot(run):
    first = run("fluence", "--boot-seconds", "60")
    instance = first.client.launch()
    first.end()
    second = run("fluence")
    second.client.wait_phase(instance, "running")


def test_a_killed_simulator_forgets_neither_ends_nor_money_nor_time(run):
    first = run("fluence")
    instance = first.client.launch()
    first.client.wait_phase(instance, "running")
    first.client.skip(5000)
    first.client.delete(instance)
    first.client.sim("POST", "balance", {"micros": 5_000_000})
    first.end()
    second = run("fluence")
    assert second.client.get(instance)["instance_status"] == "ENDED"
    assert second.client.cost(instance) == 3_000_000
    assert second.client.sim("GET", "balance") == {"micros": 5_000_000}


def test_a_box_that_ended_by_itself_is_not_started_again(run):
    first = run("vastai")
    instance = first.client.launch(args=["-c", "exit 0"])
    first.client.wait_phase(instance, "exited")
    first.end()
    second = run("vastai")
    assert second.client.get(instance)["actual_status"] == "exited"


def test_a_simulator_announces_itself_on_one_line(run):
    process = run("vastai")
    announced = process.announced
    url = announced["url"]
    assert announced == {
        "provider": "vastai",
        "url": url,
        "api_url": f"{url}/api",
        "api_key": KEY,
        "control_url": f"{url}/_sim",
    }
    assert url.startswith("http://127.0.0.1:")
    assert process.end(signal.SIGINT) == 0


def test_two_simulators_cannot_share_a_data_directory(run):
    run("fluence")
    assert run("fluence").process.wait(10) == 2


def test_a_taken_port_is_refused(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = run("fluence", "--port", str(taken.getsockname()[1]))
        assert process.process.wait(10) == 2


def test_a_bad_price_file_is_refused(run, tmp_path):
    prices = tmp_path / "prices.json"
    prices.write_text("{")
    assert run("vastai", "--price-file", str(prices)).process.wait(10) == 2


def test_a_simulator_ends_with_the_process_that_started_it(tmp_path, base):
    arguments = ["fluence", "--data", str(tmp_path / "f"), "--key", KEY]
    arguments += ["--base-cache", str(base.parent)]
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-m', 'local.providers', *{arguments!r}])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(1000)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=_ROOT, text=True
    ) as parent:
        pid = int(parent.stdout.readline())
        # The simulator writes to the same pipe once it serves.
        assert "url" in json.loads(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
        wait_for(lambda: not is_running(pid))
