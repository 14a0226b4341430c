"""Secrets through a pod's whole life."""

import pytest
from invariants import check_at_rest
from recovery_scenes import recoveries, saved_pod, take_away

from podferry.domain.errors import SecretMissingError
from podferry.domain.machine import Machine
from podferry.domain.operation import OperationState
from podferry.domain.pod import PodState
from podferry.domain.secret import Secret, secret_id
from podferry.ports.store import Delete

CANARY = "planted-canary-73b1"


def a_pod_with_a_secret(world):
    world.app.secrets.put(world.account.id, "hf", CANARY)
    return world.launch(secrets={"HF_TOKEN": "hf"})


def lose(world):
    """The secret's row is gone, as if it had been deleted while the pod was made."""
    secret = world.row(Secret, secret_id(world.account.id, "hf"))
    world.store.commit(Delete(secret))


def test_a_pod_gets_its_secrets_and_the_next_start_gets_the_new_ones(world):
    pod = a_pod_with_a_secret(world)
    assert world.box.secrets == {"HF_TOKEN": CANARY}
    world.app.secrets.put(world.account.id, "hf", "rotated-canary-1")
    world.stop(pod)
    world.start(pod)
    assert world.box.secrets == {"HF_TOKEN": "rotated-canary-1"}
    world.stop(pod)
    check_at_rest(world, pod)


def test_case_x2_no_row_object_or_boot_environment_ever_holds_a_secret(world):
    pod = a_pod_with_a_secret(world)
    seen = [repr(world.box.request)]
    world.stop(pod)
    seen += [repr(vars(world.memory)), repr(vars(world.objects))]
    assert pod.id in "".join(seen), "the right things were searched"
    assert not [text for text in seen if CANARY in text]


def test_a_start_without_its_secret_is_refused_before_anything_is_rented(world):
    pod = a_pod_with_a_secret(world)
    world.stop(pod)
    lose(world)
    with pytest.raises(SecretMissingError, match="no secret hf"):
        world.start(pod)
    assert world.pod(pod).state == PodState.STOPPED
    assert world.boxes() == []


def test_a_move_without_its_secret_leaves_the_pod_running(world):
    pod = a_pod_with_a_secret(world)
    lose(world)
    with pytest.raises(SecretMissingError):
        world.move(pod, providers=("beta",))
    assert world.pod(pod).state == PodState.RUNNING


def test_a_secret_that_goes_during_a_start_fails_it_on_no_second_machine(world):
    world.app.secrets.put(world.account.id, "hf", CANARY)
    pod = world.create(secrets={"HF_TOKEN": "hf"})
    world.run(until=lambda: len(world.boxes()) == 1)
    lose(world)
    world.run()
    pod = world.pod(pod)
    assert (pod.state, pod.last_error.code) == (PodState.STOPPED, "secret_missing")
    assert "hf" in pod.last_error.detail
    assert world.boxes() == []
    assert len(list(world.store.list_owned(Machine, pod.id).items)) == 1


def test_a_pod_that_is_started_by_itself_says_which_secret_is_missing(world):
    world.app.secrets.put(world.account.id, "hf", CANARY)
    pod = saved_pod(world, secrets={"HF_TOKEN": "hf"})
    lose(world)
    take_away(world)
    world.watch(30, until=lambda: world.pod(pod).state == PodState.STOPPED)
    assert world.pod(pod).last_error.code == "secret_missing"
    assert recoveries(world, pod)[0].state == OperationState.FAILED
    assert world.boxes() == []
