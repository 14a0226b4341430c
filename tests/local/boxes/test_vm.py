"""A box that stands for a virtual machine: user data, and a `docker` with a real box inside."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local.boxes.box import Box, BoxStartError
from local.boxes.spec import GPU, Isolation
from local.boxes.vm import VirtualMachine, in_container, vm_spec

RUN = "docker run --name pod --network host --restart no --entrypoint /bin/sh"
MakeVm = Callable[..., Box]


@pytest.fixture
def make_vm(base: Path, isolation: Isolation, tmp_path: Path) -> Iterator[MakeVm]:
    made: list[Box] = []

    def make(user_data: str, **settings: object) -> Box:
        vm = VirtualMachine(user_data, f"vm-{len(made)}", **settings)
        box = Box(vm_spec(tmp_path / f"vm-{len(made)}", base, isolation, vm))
        made.append(box)
        box.start()
        return box

    yield make
    for box in made:
        box.destroy()


def said(box: Box) -> str:
    return box.log_path.read_text()


def test_the_container_is_a_root_of_its_own_inside_the_machine(make_vm, eventually):
    gpu = GPU("NVIDIA L4", 23034, count=2)
    script = "touch /only-here; nvidia-smi -L; df -k /dev/shm; echo up; sleep infinity"
    vm = make_vm(f"#!/bin/sh\n{RUN} --gpus all --shm-size 2048k img -c '{script}'\n", gpu=gpu)

    assert eventually(lambda: "up\n" in said(vm)), said(vm)
    assert said(vm).count("NVIDIA L4") == 2
    assert "2048 " in said(vm)
    assert vm.run(["test", "-e", "/only-here"]).exit_code == 1
    assert vm.run(in_container(["test", "-e", "/only-here"])).exit_code == 0
    assert vm.run(in_container(["cat", "/proc/1/comm"])).stdout == b"sh\n"


def test_two_machines_have_gpus_of_their_own(make_vm, eventually):
    user_data = f"#!/bin/sh\n{RUN} --gpus all img -c 'nvidia-smi -L; sleep infinity'\n"
    vms = [make_vm(user_data, gpu=GPU("NVIDIA L4", 23034)) for _ in range(2)]

    assert eventually(lambda: all("GPU-" in said(vm) for vm in vms))
    assert said(vms[0]) != said(vms[1])


def test_a_value_of_the_environment_may_have_lines_and_shows_on_no_command_line(
    make_vm, eventually
):
    script = 'printf "%s|up" "$CA"; sleep infinity'
    user_data = (
        f"#!/bin/sh\nexport CA='a secret\nof lines'\n{RUN} -e CA -e NONE img -c '{script}'\n"
    )
    vm = make_vm(user_data)

    assert eventually(lambda: "|up" in said(vm))
    assert said(vm) == "a secret\nof lines|up"
    assert b"a secret" not in vm.run(["ps", "axww"]).stdout


def test_the_wish_to_end_reaches_the_container_and_its_end_is_the_machines(make_vm, eventually):
    script = 'trap "echo saved; exit 3" TERM; echo up; while :; do sleep 0.05; done'
    vm = make_vm(
        f"#!/bin/sh\n{RUN} img -c '{script}' & p=$!\ntrap 'kill -TERM $p' TERM\n"
        "wait $p; wait $p; echo $?\nshutdown -h now\n"
    )
    assert eventually(lambda: "up" in said(vm))

    vm.terminate()

    assert vm.wait(10) is not None
    assert said(vm).splitlines()[-2:] == ["saved", "3"]


def test_a_machine_whose_user_data_has_ended_stands_until_it_is_shut_down(make_vm, eventually):
    standing = make_vm("#!/bin/sh\necho done\n")
    shut_down = make_vm("#!/bin/sh\nshutdown -h now\n")
    not_a_script = make_vm("#cloud-config\n")

    assert shut_down.wait(10) is not None
    assert eventually(lambda: "done" in said(standing))
    assert standing.is_alive
    assert not_a_script.is_alive
    standing.terminate()
    assert standing.wait(10) is not None


@pytest.mark.parametrize(("at_each_boot", "runs"), [(False, 1), (True, 2)])
def test_user_data_runs_at_the_first_boot_or_at_each(make_vm, eventually, at_each_boot, runs):
    vm = make_vm("#!/bin/sh\necho run\n", at_each_boot=at_each_boot)
    assert eventually(lambda: "run" in said(vm))
    vm.kill()

    vm.start()

    assert eventually(lambda: said(vm).count("run") == runs)
    assert vm.is_alive


def test_a_container_goes_on_with_its_files_after_a_reboot(make_vm, eventually):
    script = "echo boot >> /boots; wc -l < /boots; sleep infinity"
    vm = make_vm(
        f"#!/bin/sh\nif docker inspect pod; then docker start -a pod; else {RUN} img -c '{script}'; fi",
        at_each_boot=True,
    )
    assert eventually(lambda: "1\n" in said(vm))
    vm.kill()

    vm.start()

    assert eventually(lambda: said(vm).endswith("2\n")), said(vm)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("docker build .", "invalid choice"),
        ("docker run -d --name pod --network host --entrypoint sh img", "unrecognized"),
        ("docker run --name pod --entrypoint sh img", "--network"),
        ("docker run --name pod --network host -e A=secret --entrypoint sh img", "only names"),
        ("docker run --name pod --network host --gpus all --entrypoint sh img", "device driver"),
        ("docker pull broken/nonexistent:1", "manifest unknown"),
        ("docker start -a other", "No such object"),
        ("docker exec pod true", "No such object"),
    ],
)
def test_what_the_simulated_docker_cannot_do_it_refuses(make_vm, command, says):
    vm = make_vm("#!/bin/sh\n")

    done = vm.run(["/bin/sh", "-c", command])

    assert done.exit_code == 125
    assert says in done.stderr.decode()


def test_a_rung_without_mounts_says_that_it_cannot_hold_a_machine(base, tmp_path):
    spec = vm_spec(tmp_path / "vm", base, Isolation.DIRECTORY, VirtualMachine("#!/bin/sh\n", "vm"))
    box = Box(dataclasses.replace(spec))

    with pytest.raises(BoxStartError, match="isolation directory has no mounts"):
        box.start()
