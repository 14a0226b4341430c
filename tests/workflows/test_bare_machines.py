"""Machines that are rented bare: our bootstrap is brought to them over SSH."""

import pytest
from asl import StateError
from crashing_store import Crash
from invariants import check_at_rest, check_data, rows
from scenes import DATA, cancel_after
from world import World

from podferry.domain.boot_key import BootKey
from podferry.domain.errors import BootFailedError, PodferryError
from podferry.domain.event import Event
from podferry.domain.machine import Machine, MachineState
from podferry.domain.operation import Operation, OperationState
from podferry.domain.pod import PodState

SECRETS = ("private-", "pfb_")


@pytest.fixture
def bare(world: World) -> World:
    """Both providers lend bare machines only."""
    world.alpha.rents_bare()
    world.beta.rents_bare()
    return world


def machines(world, pod):
    """Every machine of the pod, the oldest first."""
    return sorted(rows(world, Machine, pod.id), key=lambda machine: machine.epoch)


def keys_left(world, pod):
    found = (world.store.find(BootKey, machine.id) for machine in machines(world, pod))
    return [key for key in found if key is not None]


def check_runs_on_its_only_machine(world, pod):
    assert world.pod(pod).state == PodState.RUNNING
    assert world.alpha.creates + world.beta.creates == 1
    assert list(world.installer.starts.values()) == [1]
    assert keys_left(world, pod) == []
    check_at_rest(world, pod)


def check_runs_on_its_second_machine(world, pod, why):
    assert world.pod(pod).state == PodState.RUNNING
    first, second = machines(world, pod)
    assert (first.state, second.state) == (MachineState.RELEASED, MachineState.READY)
    (returned,) = [e for e in rows(world, Event, pod.id) if e.type == "machine.returned"]
    assert why in returned.evidence["detail"]
    assert keys_left(world, pod) == []
    check_at_rest(world, pod)


def test_a_pod_lives_on_bare_machines(bare):
    pod = bare.launch(ports=(8000,))
    machine = bare.machine(pod)
    assert [(p.internal, p.external) for p in machine.ports] == [(22, 22), (8000, 8000)]
    assert bare.events(pod).count("machine.reached") == 1
    check_runs_on_its_only_machine(bare, pod)
    bare.box.volume = dict(DATA)
    bare.box.environment["/opt/tool"] = "installed"
    bare.stop(pod)
    check_data(bare, pod, DATA, "installed")


def test_the_way_is_one_short_call_after_the_other(bare):
    pod = bare.launch()
    assert bare.installer.calls == ["greet", "upload", "start"]
    (operation,) = rows(bare, Operation, pod.id)
    visited = bare.visited(operation)
    assert visited.index("InstallAgent") < visited.index("AwaitAgent")


def test_a_machine_that_takes_a_bootstrap_is_not_logged_in_to(world):
    pod = world.launch()
    assert world.installer.calls == []
    (operation,) = rows(world, Operation, pod.id)
    assert "InstallAgent" not in world.visited(operation)
    assert keys_left(world, pod) == []


def test_promise_11_each_launch_has_a_key_of_its_own_that_goes_with_the_registration(bare):
    pod = bare.create()
    bare.run(until=lambda: len(bare.boxes()) == 1)
    (key,) = keys_left(bare, pod)
    assert "private" not in repr(key)
    assert bare.box.request.ssh_public_key == key.public_key
    bare.run()
    assert keys_left(bare, pod) == []
    bare.stop(pod)
    bare.start(pod)
    assert bare.box.request.ssh_public_key != key.public_key


def test_promise_11_no_event_and_no_machine_shows_key_or_token(bare):
    bare.installer.loses_answer["upload"] = 1
    pod = bare.launch()
    told = [*rows(bare, Event, pod.id), *machines(bare, pod), *rows(bare, Operation, pod.id)]
    assert not [row for row in told if any(secret in repr(row) for secret in SECRETS)]


def test_ssh_that_is_late_is_waited_for(bare):
    bare.installer.unreachable = 40
    check_runs_on_its_only_machine(bare, bare.launch())


@pytest.mark.parametrize("call", ["greet", "upload", "start"])
def test_case_p4_a_call_that_broke_off_is_repeated_and_nothing_runs_twice(bare, call):
    bare.installer.loses_answer[call] = 1
    check_runs_on_its_only_machine(bare, bare.launch())


def test_case_p10_steps_that_run_twice_start_one_agent(bare):
    bare.repeats = True
    check_runs_on_its_only_machine(bare, bare.launch())


def test_case_p3_a_machine_that_nobody_reaches_goes_back_at_the_deadline_of_its_kind(bare):
    bare.alpha.rents_bare(deadline_seconds=1200)
    pod = bare.create()
    bare.run(until=lambda: len(bare.boxes()) == 1)
    bare.box.is_dead = True
    bare.run(1190, until=lambda: bare.alpha.creates == 2)
    assert bare.alpha.creates == 1
    bare.run()
    check_runs_on_its_second_machine(bare, pod, "over SSH: nobody answers")


def test_case_p3_a_machine_that_refuses_our_key_goes_back_after_five_minutes(bare):
    bare.installer.refuses = True
    pod = bare.create()
    bare.run(290)
    assert bare.alpha.creates == 1
    bare.run(60, until=lambda: bare.alpha.creates == 2)
    bare.installer.refuses = False
    bare.run()
    check_runs_on_its_second_machine(bare, pod, "does not take our key")


def test_images_that_let_keys_in_late_are_waited_for(bare):
    bare.installer.refuses = True
    pod = bare.create()
    bare.run(120)
    bare.installer.refuses = False
    bare.run()
    check_runs_on_its_only_machine(bare, pod)
    assert bare.machine(pod).install.refused_since is None


@pytest.mark.parametrize("call", ["upload", "start"])
def test_a_machine_with_another_host_key_gets_nothing_and_goes_back(bare, call):
    bare.installer.changes_key = {call}
    pod = bare.create()
    bare.run(until=lambda: call in bare.installer.calls)
    bare.installer.changes_key = set()
    bare.run()
    first = machines(bare, pod)[0]
    assert bare.installer.starts[first.provider_id] == 0
    check_runs_on_its_second_machine(bare, pod, "another host key")


def test_a_machine_that_its_provider_ends_meanwhile_is_not_waited_for(bare):
    bare.installer.unreachable = 10_000
    pod = bare.create()
    bare.run(60)
    bare.box.is_gone = True
    bare.installer.unreachable = 0
    began = bare.seconds
    bare.run(until=lambda: bare.alpha.creates == 2)
    assert bare.seconds - began < 60
    bare.run()
    check_runs_on_its_second_machine(bare, pod, "gone")


def test_a_launch_that_is_cancelled_on_the_way_leaves_neither_machine_nor_key(bare):
    bare.installer.unreachable = 10_000
    pod = bare.create()
    cancel_after(bare, "InstallAgent")
    bare.run()
    assert bare.pod(pod).state == PodState.STOPPED
    assert bare.boxes() == []
    assert keys_left(bare, pod) == []
    check_at_rest(bare, pod)


def test_a_run_that_outlived_its_launch_brings_nothing_to_a_machine_that_goes_back(bare):
    bare.installer.unreachable = 10_000
    pod = bare.create()
    bare.run(30)
    (operation,) = rows(bare, Operation, pod.id)
    bare.app.cancel_operation.ask(bare.account.id, operation.id)
    bare.run(until=lambda: "machine.returned" in bare.events(pod))
    bare.installer.unreachable = 0
    with pytest.raises(PodferryError):
        bare.app.install_agent.run(operation.id)
    assert "upload" not in bare.installer.calls


def test_a_machine_that_is_given_back_in_the_middle_is_not_noted_as_further(bare):
    pod = bare.create()
    bare.run(until=lambda: "greet" in bare.installer.calls)
    (operation,) = rows(bare, Operation, pod.id)
    machine = bare.machine(pod)
    give_up = {"Error": "BootFailedError", "Cause": "told to"}

    def upload_late(_access, _request):
        bare.step_again("ReturnMachine", operation.id, error=give_up)

    bare.installer.upload = upload_late
    with pytest.raises(BootFailedError, match="given back"):
        bare.app.install_agent.run(operation.id)
    assert bare.row(Machine, machine.id).install.uploaded_at is None


def lose_the_answer(_):
    raise StateError("Lambda.Unknown", "the answer was lost on the way")


@pytest.mark.parametrize("run", range(1, 4))
def test_case_p10_a_step_whose_answer_is_lost_goes_on_from_the_rows(bare, run):
    seen = []

    def sometimes(operation_id):
        seen.append(operation_id)
        if len(seen) == run:
            lose_the_answer(operation_id)

    bare.after_step = lambda step, operation: (
        sometimes(operation) if step == "InstallAgent" else None
    )
    check_runs_on_its_only_machine(bare, bare.launch())


def commits_of_a_launch() -> int:
    world = World()
    world.alpha.rents_bare()
    world.store.commits = 0
    world.launch()
    return world.store.commits


@pytest.mark.parametrize("after_writing", [False, True])
@pytest.mark.parametrize("number", range(1, commits_of_a_launch() + 1))
def test_a_crash_at_any_commit_of_a_launch_makes_one_agent_and_leaves_no_key(
    bare, number, after_writing
):
    bare.store.commits = 0
    bare.store.crash_at, bare.store.crash_after_writing = number, after_writing
    try:
        pod = bare.create()
    except Crash:
        pod = bare.pods()[0] if bare.pods() else bare.create()
    bare.settle()
    assert bare.pod(pod).state == PodState.RUNNING
    assert max(bare.installer.starts.values()) == 1
    assert len(bare.boxes()) == 1
    assert keys_left(bare, pod) == []
    (operation,) = rows(bare, Operation, pod.id)
    assert operation.state == OperationState.SUCCEEDED
