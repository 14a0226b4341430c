"""The script that a VM starts with, by a real shell with tools that tell what they were asked."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from podferry.adapters.providers.vm_launch import MAX_BOOTSTRAP, SMALLEST_LIMIT, user_data
from podferry.domain import errors
from tests.unit.providers.support import a_launch, an_offer

OFFER = an_offer("ec2", {})
SECRET = "canary-token\nof two lines 'and' quotes"
GOOD_DOCKER = """
case $1 in
  inspect) exit 1 ;;
  run) echo "$@" > "$LOG/run"; echo "$PF_TOKEN" > "$LOG/token"; exit ${CODE:-0} ;;
esac
"""


class Machine:
    """A directory of tools that is all the VM has, and what it wrote."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._tools = directory / "tools"
        self._tools.mkdir()
        self.tool("sleep", "")
        self.tool("shutdown", 'echo "$@" >> "$LOG/shutdown"')
        self.tool("systemctl", 'echo "$@" >> "$LOG/systemctl"')
        self.tool("grep", "exit 1")
        self.tool("awk", "echo 16000000")

    def tool(self, name: str, script: str) -> None:
        path = self._tools / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def boot(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = self._directory / "user-data"
        path.write_text(script)
        return subprocess.run(
            ["/bin/sh", str(path)],
            env={"PATH": str(self._tools), "LOG": str(self._directory), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def wrote(self, name: str) -> str:
        path = self._directory / name
        return path.read_text() if path.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_container_gets_its_values_and_no_command_line_shows_them(machine: Machine) -> None:
    machine.tool("docker", GOOD_DOCKER)
    script = user_data(a_launch(OFFER, environment={"PF_TOKEN": SECRET, "PF_API": "https://a"}))

    done = machine.boot(script)

    assert machine.wrote("token") == f"{SECRET}\n"
    command = machine.wrote("run")
    assert "canary" not in command
    for part in (
        "--name podferry",
        "--network host",
        "--restart no",
        "-e PF_TOKEN -e PF_API",
        "--memory 14400000k --shm-size 8000000k",
        "docker.io/example/gpu-base:1 -c exec /.podferry/start",
    ):
        assert part in command
    assert "--gpus" not in command
    assert (done.stdout, done.stderr) == ("", "")


def test_the_machine_shuts_down_when_its_container_has_ended(machine: Machine) -> None:
    machine.tool("docker", GOOD_DOCKER)

    done = machine.boot(user_data(a_launch(OFFER)), CODE="7")

    assert machine.wrote("shutdown") == "-h now\n"
    assert "the container ended with 7" in done.stderr


def test_an_nvidia_gpu_is_waited_for_and_given_to_the_container(machine: Machine) -> None:
    machine.tool("docker", GOOD_DOCKER)
    machine.tool("grep", "exit 0")
    machine.tool("nvidia-smi", 'echo x >> "$LOG/asked"; [ $(wc -l < "$LOG/asked") -gt 2 ]')
    machine.tool("wc", "n=0; while read x; do n=$((n+1)); done; echo $n")

    machine.boot(user_data(a_launch(OFFER)))

    assert "--gpus all" in machine.wrote("run")
    assert machine.wrote("asked").count("x") == 3


@pytest.mark.parametrize(
    ("docker", "says"),
    [
        (None, "no docker here"),
        ("echo 'cannot connect' >&2; exit 1", "docker does not answer: cannot connect"),
        (
            "case $1 in version) ;; *) echo 'manifest unknown' >&2; exit 1 ;; esac",
            "cannot pull the image: manifest unknown",
        ),
    ],
)
def test_what_is_missing_is_said_on_the_console_and_ends_the_machine(
    machine: Machine, docker: str | None, says: str
) -> None:
    if docker is not None:
        machine.tool("docker", docker)

    done = machine.boot(user_data(a_launch(OFFER)))

    assert f"podferry-vm: {says}" in done.stderr
    assert machine.wrote("shutdown") == "-h now\n"
    assert machine.wrote("run") == ""


def test_a_driver_that_does_not_work_ends_the_machine(machine: Machine) -> None:
    machine.tool("docker", GOOD_DOCKER)
    machine.tool("grep", "exit 0")
    machine.tool("nvidia-smi", "echo 'no devices'; exit 9")

    done = machine.boot(user_data(a_launch(OFFER)))

    assert "the GPU's driver does not work: no devices" in done.stderr
    assert machine.wrote("run") == ""


def test_a_container_that_is_there_already_goes_on(machine: Machine) -> None:
    machine.tool("docker", 'echo "$@" >> "$LOG/asked"')

    machine.boot(user_data(a_launch(OFFER)))

    assert machine.wrote("asked").splitlines()[-1] == "start -a podferry"


@pytest.mark.parametrize(("ports", "is_stopped"), [((22, 8443), True), ((8443,), False)])
def test_port_22_belongs_to_the_pod_if_it_asks_for_it(
    machine: Machine, ports: tuple[int, ...], is_stopped: bool
) -> None:
    machine.tool("docker", GOOD_DOCKER)

    machine.boot(user_data(a_launch(OFFER, ports=ports)))

    stopped = machine.wrote("systemctl").splitlines()
    assert ("stop sshd" in stopped) is is_stopped
    assert "stop unattended-upgrades" in stopped


def test_a_script_that_is_too_long_is_refused_with_both_numbers() -> None:
    launch = a_launch(OFFER, environment={"PF_CA": "x" * SMALLEST_LIMIT})

    with pytest.raises(errors.ProviderRefusedError, match=r"has 1\d{4} bytes, at most 16384"):
        user_data(launch)

    assert len(user_data(launch, 256 * 1024)) > SMALLEST_LIMIT


def test_a_bootstrap_that_is_longer_than_an_argument_may_be_is_refused_on_every_vm() -> None:
    launch = a_launch(OFFER, bootstrap=":" * (MAX_BOOTSTRAP + 1))

    with pytest.raises(errors.ProviderRefusedError, match="has 131072 bytes, at most 131071"):
        user_data(launch, 1_000_000)

    assert user_data(replace(launch, bootstrap=":" * MAX_BOOTSTRAP), 1_000_000)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"environment": {"1A": "x"}}, "words of a shell"),
        ({"environment": {"LD_PRELOAD": "/x.so"}}, "Docker does not use, not \\['LD_PRELOAD'\\]"),
        ({"environment": {"DOCKER_HOST": "tcp://x"}}, "Docker does not use"),
        ({"environment": {"A": "x\0"}}, "zero byte"),
        ({"image": "--privileged"}, "not the name of an image"),
        ({"image": "a b"}, "not the name of an image"),
    ],
)
def test_what_cannot_be_part_of_the_script_is_refused(values: dict[str, object], says: str) -> None:
    with pytest.raises(errors.ProviderRefusedError, match=says):
        user_data(a_launch(OFFER, **values))


def test_a_usual_launch_leaves_room_in_the_smallest_limit() -> None:
    boot = Path(__file__).parents[3] / "agent/podferry_agent/bootstrap.sh"
    environment = {"PF_BUNDLE_URL": "https://b.test/?" + "s" * 2000, "PF_TOKEN": "t" * 100}

    text = user_data(a_launch(OFFER, bootstrap=boot.read_text(), environment=environment))

    assert len(text.encode()) < SMALLEST_LIMIT / 2
    assert text.endswith("\nshutdown -h now\n")
