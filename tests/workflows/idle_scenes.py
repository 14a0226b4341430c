"""Pods that are to be stopped when nobody uses them."""

from invariants import rows
from scenes import DATA

from podferry.domain.activity import IdlePolicy
from podferry.domain.event import Event
from podferry.domain.operation import Operation, OperationKind
from podferry.services.pods import PodChange

WARN, STOP = 5, 12
POLICY = IdlePolicy(warn_after_minutes=WARN, stop_after_minutes=STOP)
SLACK = 2.5
"""Minutes: the first look, and a stop's own time."""


def set_policy(world, pod, policy):
    change = PodChange(idle=policy)
    world.app.change_pod.change(world.account.id, pod.id, change, revision=None)


def watched_pod(world, policy=POLICY):
    """A pod with data and a tool, whose policy has just been set."""
    pod = world.launch()
    world.box.volume = dict(DATA)
    world.box.environment["/opt/tool"] = "installed"
    set_policy(world, pod, policy)
    return world.pod(pod)


def happened(world, pod, event_type):
    """Events of the type, oldest first."""
    return [e for e in reversed(rows(world, Event, pod.id)) if e.type == event_type]


def stops(world, pod):
    """Stop operations, oldest first."""
    listed = rows(world, Operation, pod.id)
    return [o for o in reversed(listed) if o.kind == OperationKind.STOP]
