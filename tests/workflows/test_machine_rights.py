"""What a machine may read and write, and what a capture may refer to (promises 1, 5 and 11)."""

import hashlib
import json
from dataclasses import replace

import pytest
from scenes import ask, check_kept, once_at, prepared

from podferry.domain.command import Command, CommandKind, CommandState
from podferry.domain.errors import (
    EpochStaleError,
    ForbiddenError,
    NotFoundError,
    SnapshotCorruptError,
    SnapshotMissingError,
    WrongStateError,
)
from podferry.domain.pod import PodState
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState, StoredObject, object_key
from podferry.ports.store import Create, Update
from podferry.services.agent.heartbeat import Beat, CommandReport
from podferry.services.agent.objects import WantedObject
from podferry.services.agent.register import RegisterRequest
from podferry.services.run_command import ExecRequest

PACK = b"a pack"
DIGEST = hashlib.sha256(PACK).hexdigest()
UPLOAD = [StoredObject(name=f"packs/{DIGEST}", size=len(PACK), sha256=DIGEST)]


def open_snapshot(world, pod, **fields):
    """An open capture of the pod's volume by its present machine."""
    machine = world.machine(pod)
    named = {
        "kind": SnapshotKind.VOLUME,
        "subject_id": pod.volume_id,
        "pod_id": pod.id,
        "machine_id": machine.id,
        "epoch": machine.epoch,
        "operation_id": machine.operation_id,
        "parent_id": None,
    }
    snapshot = Snapshot(
        id=world.app.records.new_id(Snapshot),
        account_id=pod.account_id,
        created_at=world.clock.now(),
        **{**named, **fields},
    )
    world.store.commit(Create(snapshot))
    return snapshot


def captured(world, pod, packs, **fields):
    """A capture whose root names these packs: (snapshot id or None for its own, body)."""
    snapshot = open_snapshot(world, pod, **fields)
    entries = [
        {
            "snapshot_id": owner or snapshot.id,
            "sha256": hashlib.sha256(body).hexdigest(),
            "size": len(body),
        }
        for owner, body in packs
    ]
    root = json.dumps(
        {
            "format": 1,
            "kind": snapshot.kind,
            "snapshot_id": snapshot.id,
            "parent": snapshot.parent_id,
            "pages": [],
            "packs": entries,
            "counts": {"entries": 1, "files": 1, "bytes": 1},
        }
    ).encode()
    world.objects.put(snapshot.kind, object_key(pod.account_id, snapshot.id, "root"), root)
    stored = StoredObject(name="root", size=len(root), sha256=hashlib.sha256(root).hexdigest())
    world.store.commit(
        Update(replace(world.snapshot(snapshot.id), state=SnapshotState.CAPTURED, root=stored))
    )
    return world.snapshot(snapshot.id)


def verify(world, snapshot):
    return world.app.verify_snapshot.run([snapshot], None, trust_parents=True)


@pytest.fixture
def two(world):
    """Two pods of one account that run."""
    first, second = world.launch(), world.launch()
    boxes = {box.request.environment["PF_MACHINE"]: box for box in world.boxes()}
    return [(pod, boxes[world.machine(pod).id]) for pod in (first, second)]


def test_promise_11_a_machine_adds_objects_under_its_own_open_snapshot_only(world, two):
    (pod, box), (_, stranger) = two
    snapshot = open_snapshot(world, pod)
    own, other = (world.app.identify.who(b.token) for b in (box, stranger))
    assert len(world.app.sign_uploads.sign(own, snapshot.id, UPLOAD)) == 1
    with pytest.raises(NotFoundError):
        world.app.sign_uploads.sign(other, snapshot.id, UPLOAD)
    world.store.commit(Update(replace(world.snapshot(snapshot.id), state=SnapshotState.COMMITTED)))
    with pytest.raises(WrongStateError):
        world.app.sign_uploads.sign(own, snapshot.id, UPLOAD)


def test_promise_05_a_snapshot_of_another_epoch_takes_no_objects(world):
    pod = world.launch()
    snapshot = open_snapshot(world, pod, epoch=99)
    with pytest.raises(EpochStaleError):
        world.app.sign_uploads.sign(world.app.identify.who(world.box.token), snapshot.id, UPLOAD)


def test_promise_05_a_machine_that_is_given_up_takes_and_gives_nothing(world):
    pod = prepared(world, "stop")
    box = world.box
    operation = ask(world, pod, "stop")
    world.alpha.delete_says_ok_but_stands = 3
    world.run(until=lambda: world.alpha.delete_says_ok_but_stands == 2)
    who = world.app.identify.who(box.token)
    snapshot = open_snapshot(world, pod)
    head = world.volume(pod).head
    with pytest.raises(EpochStaleError):
        world.app.sign_uploads.sign(who, snapshot.id, UPLOAD)
    with pytest.raises(EpochStaleError):
        world.app.sign_downloads.sign(who, head, [WantedObject(head, "root")])
    world.store.commit(Update(replace(snapshot, state=SnapshotState.ABANDONED)))
    world.run()
    assert world.operation(operation).result["volume"]["snapshot_id"] == head
    check_kept(world, pod)


def test_promise_11_a_machine_reads_what_its_own_pods_snapshots_need_and_nothing_else(world, two):
    (pod, box), (_, stranger) = two
    box.volume = {"a": "1"}
    snapshot = captured(world, pod, [(None, PACK)])
    snapshot = replace(snapshot, state=SnapshotState.COMMITTED)
    world.store.commit(Update(snapshot))
    own, other = (world.app.identify.who(b.token) for b in (box, stranger))
    needed = [WantedObject(snapshot.id, f"packs/{DIGEST}")]
    assert len(world.app.sign_downloads.sign(own, snapshot.id, needed)) == 1
    with pytest.raises(NotFoundError):
        world.app.sign_downloads.sign(other, snapshot.id, needed)
    with pytest.raises(NotFoundError):
        world.app.sign_downloads.sign(own, snapshot.id, [WantedObject("snap_x", "root")])


def test_promise_11_a_hand_in_of_another_machines_root_is_not_found(world, two):
    (pod, _), (_, stranger) = two
    snapshot = captured(world, pod, [(None, PACK)])
    with pytest.raises(NotFoundError):
        world.app.record_capture.commit(
            world.app.identify.who(stranger.token), snapshot.id, snapshot.root, {}
        )


def test_promise_11_only_the_boot_token_of_the_very_machine_registers_it(world, two):
    (pod, box), (_, stranger) = two
    request = RegisterRequest(
        machine_id=world.machine(pod).id, token_sha256="0" * 64, agent_version="0", facts={}
    )
    for token in (box.token, stranger.request.environment["PF_TOKEN"]):
        with pytest.raises(ForbiddenError):
            world.app.register_agent.register(world.app.identify.who(token), request)


def test_promise_05_a_machine_that_is_not_its_pods_machine_any_more_is_told_so(world):
    pod = world.launch()
    box = world.box
    world.store.commit(Update(replace(world.pod(pod), machine_id="mach_other")))
    with pytest.raises(EpochStaleError):
        world.app.sign_downloads.sign(world.app.identify.who(box.token), "snap_x", [])


def test_promise_01_a_capture_that_refers_to_what_nobody_has_proven_is_not_good(world):
    pod = world.launch()
    with pytest.raises(SnapshotCorruptError, match="which its parent does not have"):
        verify(world, captured(world, pod, [("snap_foreign", PACK)]))


def test_promise_01_a_capture_on_a_parent_that_is_not_committed_is_not_good(world):
    pod = world.launch()
    parent = captured(world, pod, [])
    with pytest.raises(SnapshotCorruptError, match="its parent"):
        verify(world, captured(world, pod, [], parent_id=parent.id))


def test_promise_01_a_capture_whose_pack_is_missing_or_other_is_not_good(world):
    pod = world.launch()
    snapshot = captured(world, pod, [(None, PACK)])
    with pytest.raises(SnapshotMissingError):
        verify(world, snapshot)
    key = object_key(pod.account_id, snapshot.id, f"packs/{DIGEST}")
    world.objects.put(snapshot.kind, key, PACK[::-1])
    with pytest.raises(SnapshotCorruptError):
        verify(world, snapshot)
    world.objects.put(snapshot.kind, key, PACK)
    assert verify(world, snapshot).cursor is None


def test_promise_10_a_running_execution_is_left_alone_and_a_dead_one_replaced_once(world):
    pod = prepared(world, "stop")
    world.box.hangs.add(CommandKind.QUIESCE)
    operation = ask(world, pod, "stop")
    world.run(seconds=5)
    assert world.reconcile() == {"restarted": 0}
    world.engine.kill_all()

    def second_reconciler():
        world.store.before_commit = lambda: None
        world.reconcile()

    world.store.before_commit = second_reconciler
    world.reconcile()
    assert world.operation(operation).execution == 2
    world.box.hangs.clear()
    world.settle()
    check_kept(world, pod)


@pytest.mark.parametrize("late", [CommandState.RUNNING, CommandState.FAILED])
def test_promise_10_of_two_reports_at_once_the_end_that_is_written_first_stays(world, late):
    pod = world.launch()
    box = world.box
    command = world.app.run_command.ask(pod.account_id, pod.id, ExecRequest(argv=("true",)))

    def report(state):
        said = CommandReport(id=command.id, state=state)
        beat = Beat(boot_id="boot", workload={}, metrics={}, reports=(said,))
        world.app.heartbeat.beat(world.app.identify.who(box.token), beat)

    def succeed():
        world.store.before_commit = lambda: None
        report(CommandState.SUCCEEDED)

    world.store.before_commit = succeed
    report(late)
    assert world.row(Command, command.id).state == CommandState.SUCCEEDED


def test_a_stopping_pod_takes_no_command_and_a_running_one_is_not_deleted(world):
    pod = world.launch()
    with pytest.raises(WrongStateError):
        world.app.delete_pod.delete(pod.account_id, pod.id)
    ask(world, pod, "stop")
    with pytest.raises(WrongStateError):
        world.app.run_command.ask(pod.account_id, pod.id, ExecRequest(argv=("true",)))


def test_promise_03_a_start_does_not_end_while_its_machine_stands(world):
    pod = world.create()
    once_at(world, "after_step", "Rent", lambda operation: world.step_again("FailStart", operation))
    world.settle()
    assert world.pod(pod).state == PodState.RUNNING


def test_promise_01_captures_are_verified_in_shares_to_the_very_last_object(world):
    pod = world.launch()
    bodies = [b"%d" % number for number in range(4)]
    large = captured(world, pod, [(None, body) for body in bodies])
    small = captured(world, pod, [(None, PACK)])
    needed = [one.name for one in world.app.verify_snapshot.read_root(large).needed]
    bodies.sort(key=lambda body: needed.index(f"packs/{hashlib.sha256(body).hexdigest()}"))

    def put(snapshot, body):
        name = f"packs/{hashlib.sha256(body).hexdigest()}"
        world.objects.put(snapshot.kind, object_key(pod.account_id, snapshot.id, name), body)

    def go_on(cursor):
        return world.app.verify_snapshot.run([large, small], cursor, trust_parents=True, share=3)

    for body in bodies[:-1]:
        put(large, body)
    first = go_on(None)
    assert first.as_state() == {
        "is_done": False,
        "cursor": {"snapshot": 0, "objects": 3},
        "proven": 3,
    }
    with pytest.raises(SnapshotMissingError, match=large.id):
        go_on(first.cursor)
    put(large, bodies[-1])
    with pytest.raises(SnapshotMissingError, match=small.id):
        go_on(first.cursor)
    put(small, PACK)
    assert go_on(first.cursor).as_state()["is_done"]
