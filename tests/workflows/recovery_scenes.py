"""Machines that are lost, return, haunt, or say that they will go."""

from dataclasses import replace

from invariants import rows

from podferry.domain.event import Event
from podferry.domain.machine import Machine, NoticeKind
from podferry.domain.operation import Operation, OperationKind
from podferry.domain.pod import PodState
from podferry.ports.gpu_cloud import ViewState
from podferry.services.agent.notice import Announcement


def saved_pod(world, **spec):
    """A pod whose newest save has `work`, and whose volume has more since."""
    pod = world.launch(**spec)
    world.box.has_timer = True
    world.watch(0.1)
    world.box.volume["work"] = "saved"
    world.watch(6)
    world.box.volume["work"] = "not saved"
    return world.pod(pod)


def silence(box):
    """The box stands and its agent says nothing more."""
    box.is_dead = True


def take_away(world, box=None):
    """The provider ends the machine and says so."""
    box = box or world.box
    box.is_dead = box.is_gone = True
    box.cloud.words[box.provider_id] = (ViewState.GONE, "terminated")
    return box


def say(world, box, state, raw_status):
    """What the box's provider says of it from then on."""
    box.cloud.words[box.provider_id] = (state, raw_status)


def until_running_elsewhere(world, pod, machine_id, minutes=30):
    def is_there():
        seen = world.pod(pod)
        return seen.state == PodState.RUNNING and seen.machine_id != machine_id

    world.watch(minutes, until=is_there)
    assert is_there(), (world.pod(pod), world.events(pod))


def recoveries(world, pod):
    """Recover operations, oldest first."""
    listed = rows(world, Operation, pod.id)
    return [o for o in reversed(listed) if o.kind == OperationKind.RECOVER]


def evidence(world, pod, event_type):
    """Of the newest event of the type."""
    return next(e for e in rows(world, Event, pod.id) if e.type == event_type).evidence


def announce(world, box, kind=NoticeKind.RECLAIM, seconds=None):
    """What the agent does at a notice: tell, then make the save that it is given."""
    principal = world.app.identify.who(box.token)
    said = Announcement(kind=kind, source="test", deadline_seconds=seconds)
    turn = world.app.take_notice.take(principal, said)
    if turn.command is not None:
        box._obey(world.app, turn.command)
    return turn


def offers_with(cloud, **change):
    """What the provider has, changed."""
    listed = cloud.list_offers
    cloud.list_offers = lambda wanted: [replace(o, **change) for o in listed(wanted)]


def machine_row(world, machine_id):
    return world.row(Machine, machine_id)
