"""What holds for every pod at rest, however it got there."""

from collections import Counter
from typing import Any

from world import World

from podferry.domain.event import Event
from podferry.domain.ghost import Ghost
from podferry.domain.ledger import LedgerEntry, Payer
from podferry.domain.machine import Machine
from podferry.domain.metering import Meter
from podferry.domain.operation import Cause, Operation, OperationState
from podferry.domain.pod import Desired, Pod, PodState
from podferry.domain.snapshot import Snapshot, SnapshotState
from podferry.services.giving_up import machine_cost

ENDS = {
    "pod.running",
    "pod.stopped",
    "pod.moved",
    "pod.saved",
    "pod.verified",
    *(
        f"pod.{kind}_{end}"
        for kind in ("start", "stop", "move", "save", "verify")
        for end in ("failed", "cancelled")
    ),
}
AT_REST = {(PodState.STOPPED, Desired.STOPPED), (PodState.DELETED, Desired.DELETED)}


def rows(world: World, kind: type[Any], owner: str) -> list[Any]:
    return list(world.store.list_owned(kind, owner, limit=1000).items)


def check_at_rest(world: World, pod: Pod) -> None:
    """No operation is left, and pod, machines, lease, heads and audit log agree."""
    pod = world.pod(pod)
    assert list(world.store.list_active(Operation)) == [], "every operation is terminal"
    assert pod.operation_id is None
    _check_machines(world, pod)
    _check_snapshots(world, pod)
    for operation in rows(world, Operation, pod.id):
        _check_operation(operation)
    _check_events(world, pod)
    _check_schedule(world)
    check_bill(world, pod)


def check_bill(world: World, pod: Pod) -> None:
    """What ended is metered to its end, to the micro-USD, and the balance is the sum of its rows.

    Once the schedule has looked: it does so here.
    """
    world.meter()
    ledger = rows(world, LedgerEntry, world.account.id)
    for machine in rows(world, Machine, pod.id):
        charged = sum(r.amount_microusd for r in ledger if r.rented.machine_id == machine.id)
        meter = world.row(Meter, machine.id)
        assert meter.charged_microusd == charged
        assert meter.is_active or not machine.is_active
        if not machine.is_active:
            assert not meter.is_active
            assert charged == machine_cost(machine), machine
    owed = sum(row.amount_microusd for row in ledger if row.payer == Payer.ACCOUNT)
    assert world.app.read_bills.balance(world.account.id).microusd == -owed


def check_data(world: World, pod: Pod, volume: dict[str, str], tool: str) -> None:
    """The pod has its data, on its machine or after a start."""
    if world.pod(pod).state == PodState.STOPPED:
        world.app.start_pod.ask(world.account.id, pod.id, None, Cause.USER)
        world.settle()
    assert world.pod(pod).state == PodState.RUNNING
    assert world.box.volume == volume
    assert world.box.environment["/opt/tool"] == tool


def _check_machines(world: World, pod: Pod) -> None:
    machines = {m.id: m for m in rows(world, Machine, pod.id)}
    alive = [m for m in machines.values() if m.is_active]
    boxes = [b for b in world.boxes() if b.request.environment.get("PF_MACHINE") in machines]
    assert len(boxes) == len(alive) <= 1, "no ghost, no double, no orphan"
    assert len(world.boxes()) == len(list(world.store.list_active(Machine)))
    if pod.state == PodState.RUNNING:
        assert pod.desired == Desired.RUNNING
        assert [m.id for m in alive] == [pod.machine_id]
        assert alive[0].clearance is None
        assert alive[0].provider_id == boxes[0].provider_id
        assert not boxes[0].is_paused
        assert world.volume(pod).epoch == alive[0].epoch
    else:
        assert (pod.state, pod.desired) in AT_REST
        assert alive == []
        assert pod.machine_id is None
        lease = world.volume(pod).lease
        assert lease is None or lease.pod_id != pod.id


def _check_snapshots(world: World, pod: Pod) -> None:
    heads = {pod.environment_head, world.volume(pod).head} - {None}
    for subject in (pod.environment_id, pod.volume_id):
        for snapshot in rows(world, Snapshot, subject):
            assert snapshot.state in {SnapshotState.COMMITTED, SnapshotState.ABANDONED}
    assert all(world.snapshot(head).state == SnapshotState.COMMITTED for head in heads)


def _check_operation(operation: Operation) -> None:
    moments = [m.at for m in operation.milestones]
    assert moments == sorted(moments)
    assert operation.ended_at is not None
    assert operation.ended_at >= moments[-1]
    is_good = operation.state == OperationState.SUCCEEDED
    assert (operation.error is None) == is_good


def _check_events(world: World, pod: Pod) -> None:
    ends = Counter(
        e.operation_id for e in rows(world, Event, pod.id) if e.type in ENDS and e.operation_id
    )
    expected = {o.id: 1 for o in rows(world, Operation, pod.id)}
    assert dict(ends) == expected, "one end for each operation, told once"


def _check_schedule(world: World) -> None:
    world.reconcile()
    kinds = (Operation, Machine, Pod, Ghost, Meter)
    is_busy = any(list(world.store.list_active(kind)) for kind in kinds)
    assert world.schedules.is_enabled == is_busy
