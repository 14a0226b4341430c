"""Pods that run for a while and are saved, and what became of their saves."""

from datetime import timedelta
from functools import partial
from types import SimpleNamespace

from invariants import rows
from scenes import DATA

from podferry.domain.pod import PodState
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.ports.gpu_cloud import ViewState
from podferry.services.pods import PodChange


def running(world, **box_settings):
    pod = world.launch()
    for name, value in box_settings.items():
        setattr(world.box, name, value)
    world.live(0.2)
    return pod


def saved_each_minute(world, minutes):
    """A pod with data and a tool, that has run for so long."""
    pod = world.launch()
    world.box.volume = dict(DATA)
    world.box.environment["/opt/tool"] = "installed"
    world.box.has_timer = True
    change = PodChange(save_interval_seconds=60)
    world.app.change_pod.change(world.account.id, pod.id, change, revision=None)
    world.live(minutes)
    return pod


def saves(world, pod):
    """Committed saves, oldest first."""
    listed = rows(world, Snapshot, pod.volume_id)
    return [s for s in reversed(listed) if s.state == SnapshotState.COMMITTED]


def collect(world, days=1):
    """Garbage is collected once a day."""
    for _ in range(days):
        world.clock.advance(timedelta(days=1))
        world.app.collect_garbage.run(lambda: True)


def shown(world, pod):
    return world.app.browse.whole_pod(world.account.id, pod.id)


def ask_save(world, pod, label=None):
    return world.app.save_pod.ask(world.account.id, pod.id, label)


def put_around(world, use_case, method, around):
    """Let `around` be called with the use case's own method and what it is called with."""
    inner = getattr(getattr(world.app, use_case), method)
    stand_in = SimpleNamespace(**{method: partial(around, inner)})
    world.app.__dict__[use_case] = stand_in


def lose_machine(world):
    box = world.box
    box.is_dead = True
    box.is_gone = True
    world.clouds.get(box.cloud.name).words[box.provider_id] = (ViewState.GONE, "terminated")


def stop_and_accept(world, pod):
    operation = world.stop(pod, accept_loss=True)
    assert world.pod(pod).state == PodState.STOPPED
    return operation
