"""Pushes of a provider: a doorbell, and no proof of anything."""

from dataclasses import replace

import pytest
from fake_cloud import FakeCloud
from invariants import check_at_rest
from recovery_scenes import (
    evidence,
    machine_row,
    recoveries,
    saved_pod,
    say,
    silence,
    take_away,
    until_running_elsewhere,
)
from saving_scenes import saves

from podferry.domain.machine import Machine, NoticeKind
from podferry.domain.pod import PodState
from podferry.domain.saving import SaveKind
from podferry.ports.gpu_cloud import ViewState
from podferry.steps.rounds import sweep

WARNING = "EC2 Spot Instance Interruption Warning"
CHANGE = "EC2 Instance State-change Notification"


@pytest.fixture
def pod(world):
    """One on a machine of EC2, which is the cheapest."""
    cloud = FakeCloud(world, "ec2")
    cloud.price, cloud.id_prefix = 100_000, "eu-west-1.i-0"
    world.clouds.add(cloud)
    return saved_pod(world)


def push(world, detail_type, machine, **detail):
    event = {
        "version": "0",
        "source": "aws.ec2",
        "detail-type": detail_type,
        "region": "eu-west-1",
        "detail": {"instance-id": machine.provider_id.rpartition(".")[2], **detail},
    }
    return sweep(world.app, event)


def test_promise_08_an_interruption_that_only_the_provider_tells_of_has_the_volume_saved(
    world, pod
):
    machine = world.machine(pod)
    push(world, WARNING, machine, **{"instance-action": "terminate"})
    world.watch(0.3)
    assert saves(world, pod)[-1].save_kind == SaveKind.RECLAIM
    notice = machine_row(world, machine.id).notice
    assert (notice.kind, notice.source) == (NoticeKind.RECLAIM, "ec2 event")
    assert evidence(world, pod, "machine.notice")["deadline_seconds"] == 120.0


def test_promise_03_a_push_alone_proves_nothing(world, pod):
    machine = world.machine(pod)
    for state in ("stopping", "shutting-down", "terminated"):
        push(world, CHANGE, machine, state=state)
    assert world.pod(pod).state == PodState.RUNNING
    assert recoveries(world, pod) == []
    check_at_rest(world, pod)


def test_promise_10_the_same_push_twice_is_one_notice(world, pod):
    machine = world.machine(pod)
    for _ in range(2):
        push(world, WARNING, machine, **{"instance-action": "terminate"})
    assert [e for e in world.events(pod) if e == "machine.notice"] == ["machine.notice"]


def test_a_push_about_a_machine_that_is_gone_finds_the_loss_before_the_next_round(world, pod):
    machine, box = world.machine(pod), world.box
    world.sweep()
    silence(box)
    say(world, box, ViewState.GONE, "terminated")
    world.idle(62)
    take_away(world, box)
    push(world, CHANGE, machine, state="terminated")
    assert world.pod(pod).state == PodState.RECOVERING
    until_running_elsewhere(world, pod, machine.id)


def test_events_of_instances_that_are_not_ours_begin_no_round(world, pod):
    stranger = replace(world.machine(pod), provider_id="i-0stranger")
    assert push(world, CHANGE, stranger, state="terminated") == {"rung": 0}
    assert push(world, WARNING, replace(stranger, provider_id="")) == {"rung": 0}


def test_a_schedule_begins_a_round(world, pod):
    assert "ghosts" in sweep(world.app, {"source": "aws.events", "detail-type": "Scheduled Event"})
    assert world.row(Machine, pod.machine_id).notice is None
