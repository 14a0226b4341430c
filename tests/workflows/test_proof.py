"""The restore drill: what is whole is proven, what is damaged is named, nothing else is touched."""

from dataclasses import replace

import pytest
from crashing_store import Crash
from invariants import check_at_rest, check_data
from scenes import DATA
from world import World

from podferry.domain.errors import ConflictError, NotFoundError, WrongStateError
from podferry.domain.operation import OperationState
from podferry.domain.pod import Desired, PodState
from podferry.domain.proof import SAMPLE, ProofMode
from podferry.domain.snapshot import SnapshotKind, object_key
from podferry.ports.store import Update
from podferry.services.proof import prove

VOLUME = SnapshotKind.VOLUME


@pytest.fixture
def pod(world):
    return stopped_pod(world)


def stopped_pod(world, packs=5):
    pod = world.launch()
    world.box.volume = dict(DATA)
    world.box.environment["/opt/tool"] = "installed"
    world.box.packs = packs
    world.stop(pod)
    return world.pod(pod)


def verify(world, snapshot_id, mode=ProofMode.SAMPLE):
    operation = world.app.ask_proof.ask(world.account.id, snapshot_id, mode)
    world.run()
    return world.operation(operation)


def key_of(world, snapshot_id, number=0):
    needed = world.app.verify_snapshot.read_root(world.snapshot(snapshot_id)).needed
    return object_key(world.account.id, needed[number].snapshot_id, needed[number].name)


def counted(world, monkeypatch):
    """The keys that are read whole."""
    keys, hashed = [], world.objects.hashed

    def counting(kind, key):
        keys.append(key)
        return hashed(kind, key)

    monkeypatch.setattr(world.objects, "hashed", counting)
    return keys


@pytest.mark.parametrize("mode", ProofMode)
@pytest.mark.parametrize("kind", SnapshotKind)
def test_a_whole_snapshot_is_proven_and_says_when(world, pod, kind, mode):
    head = world.volume(pod).head if kind == VOLUME else pod.environment_head
    operation = verify(world, head, mode)
    assert operation.state == OperationState.SUCCEEDED
    proof = world.snapshot(head).proof
    assert proof.at == operation.ended_at
    assert (proof.mode, proof.objects, proof.objects_read) == (mode, 6, 6)
    stored = [key for key in world.objects.keys(kind) if f"/{head}/" in key]
    assert proof.bytes_read == sum(len(world.objects.read(kind, key)) for key in stored)
    assert operation.result["objects"] == 6
    assert {"pod.verify_asked", "pod.verified"} <= set(world.events(pod))
    check_at_rest(world, pod)


def test_a_sample_reads_some_and_looks_all_up_and_another_one_reads_others(world, monkeypatch):
    pod = stopped_pod(world, packs=4 * SAMPLE)
    head = world.volume(pod).head
    keys = counted(world, monkeypatch)
    operation = verify(world, head)
    assert world.snapshot(head).proof.objects == 4 * SAMPLE + 1
    assert world.snapshot(head).proof.objects_read == SAMPLE + 1
    first = set(keys)
    assert len(keys) == len(first) == SAMPLE
    verify(world, head)
    assert set(keys) != first
    assert operation.state == OperationState.SUCCEEDED


def test_a_large_snapshot_is_proven_in_shares_and_each_object_is_read_once(world, monkeypatch):
    monkeypatch.setitem(prove.SHARES, ProofMode.FULL, 2)
    pod = stopped_pod(world)
    keys = counted(world, monkeypatch)
    operation = verify(world, world.volume(pod).head, ProofMode.FULL)
    assert world.visited(operation).count("ProveSnapshot") == 3
    assert len(keys) == len(set(keys)) == 5
    assert operation.state == OperationState.SUCCEEDED


def lose(world, key):
    world.objects.remove(VOLUME, key)


def shorten(world, key):
    world.objects.put(VOLUME, key, b"short")


def rot(world, key):
    """Bytes that change under a checksum which the store goes on to tell."""
    facts = world.objects.facts(VOLUME, key)
    body = bytearray(world.objects.read(VOLUME, key))
    body[0] ^= 1
    world.objects.put(VOLUME, key, bytes(body))
    told = world.objects.facts
    world.objects.facts = lambda kind, at: facts if at == key else told(kind, at)


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize(
    ("damage", "code"),
    [(lose, "snapshot_missing"), (shorten, "snapshot_corrupt"), (rot, "snapshot_corrupt")],
)
def test_a_damaged_object_is_named_and_rings(world, pod, damage, code, number):
    head = world.volume(pod).head
    key = key_of(world, head, number)
    damage(world, key)
    operation = verify(world, head, ProofMode.FULL)
    assert operation.state == OperationState.FAILED
    assert operation.error["code"] == code
    assert key.partition(f"{head}/")[2] in operation.error["detail"]
    assert world.snapshot(head).proof is None
    assert world.signals.counts["SnapshotDamaged"] == 1
    assert "pod.verify_failed" in world.events(pod)


def test_a_damaged_root_fails_the_drill(world, pod):
    head = world.volume(pod).head
    world.objects.put(VOLUME, object_key(world.account.id, head, "root"), b"{}")
    operation = verify(world, head)
    assert operation.error["code"] == "snapshot_corrupt"
    assert "root" in operation.error["detail"]


def test_an_older_proof_stays_when_a_newer_drill_fails(world, pod):
    head = world.volume(pod).head
    verify(world, head)
    before = world.snapshot(head).proof
    lose(world, key_of(world, head))
    verify(world, head)
    assert world.snapshot(head).proof == before


def test_a_pod_runs_starts_and_stops_while_it_is_verified(world, pod):
    world.start(pod)
    operation = world.app.ask_proof.ask(world.account.id, world.volume(pod).head, ProofMode.FULL)
    world.stop(pod)
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert world.pod(pod).state == PodState.STOPPED
    check_data(world, pod, DATA, "installed")
    check_at_rest(world, pod)


def test_a_cancelled_drill_leaves_pod_and_snapshot_as_they_are(world, pod):
    head = world.volume(pod).head
    operation = world.app.ask_proof.ask(world.account.id, head, ProofMode.FULL)
    world.app.cancel_operation.ask(world.account.id, operation.id)
    world.run()
    assert world.operation(operation).state == OperationState.CANCELLED
    assert world.snapshot(head).proof is None
    assert world.signals.counts["SnapshotDamaged"] == 0
    assert world.pod(pod).desired == Desired.STOPPED
    check_at_rest(world, pod)


def test_of_one_snapshot_one_drill_runs_at_a_time(world, pod):
    head = world.volume(pod).head
    operation = world.app.ask_proof.ask(world.account.id, head, ProofMode.FULL)
    with pytest.raises(WrongStateError, match=operation.id):
        world.app.ask_proof.ask(world.account.id, head, ProofMode.SAMPLE)
    world.app.ask_proof.ask(world.account.id, pod.environment_head, ProofMode.SAMPLE)
    world.run()
    assert verify(world, head).state == OperationState.SUCCEEDED


def test_a_save_that_expires_at_the_moment_of_the_ask_is_not_verified(world, pod):
    save = world.snapshot(world.volume(pod).head)

    def expire():
        world.store.before_commit = lambda: None
        world.store.commit(Update(replace(save, expired_at=world.clock.now())))

    world.store.before_commit = expire
    with pytest.raises(ConflictError):
        world.app.ask_proof.ask(world.account.id, save.id, ProofMode.SAMPLE)
    with pytest.raises(NotFoundError, match="expired"):
        world.app.ask_proof.ask(world.account.id, save.id, ProofMode.SAMPLE)
    assert "pod.verify_asked" not in world.events(pod)


def test_what_was_never_committed_or_is_another_accounts_cannot_be_verified(world, pod):
    stranger, _, _ = world.app.accounts.create("stranger")
    with pytest.raises(NotFoundError):
        world.app.ask_proof.ask(stranger.id, world.volume(pod).head, ProofMode.SAMPLE)
    world.start(pod)
    world.after_capture = lambda kind, snapshot_id, _: seen.append(snapshot_id)
    seen: list[str] = []
    lost: list[Exception] = []

    def ask(step, _):
        if step == "VerifyCaptures" and not lost:
            with pytest.raises(NotFoundError, match="never committed") as caught:
                world.app.ask_proof.ask(world.account.id, seen[0], ProofMode.SAMPLE)
            lost.append(caught.value)

    world.before_step = ask
    world.stop(pod)
    assert lost


def commits_of_a_drill():
    world = World()
    pod = stopped_pod(world)
    world.store.commits = 0
    verify(world, world.volume(pod).head)
    return world.store.commits


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("after_writing", [False, True])
@pytest.mark.parametrize("number", range(1, commits_of_a_drill() + 1))
def test_promise_10_a_crash_at_any_commit_of_a_drill_heals(
    world, pod, number, after_writing, is_damaged
):
    head = world.volume(pod).head
    if is_damaged:
        lose(world, key_of(world, head))
    world.store.commits = 0
    world.store.crash_at = number
    world.store.crash_after_writing = after_writing
    try:
        operation = world.app.ask_proof.ask(world.account.id, head, ProofMode.FULL)
    except Crash:
        operation = None
    world.settle()
    if operation is not None:
        wanted = OperationState.FAILED if is_damaged else OperationState.SUCCEEDED
        assert world.operation(operation).state == wanted
    world.store.crash_at = None
    check_at_rest(world, pod)


def test_every_step_may_run_twice(world, pod):
    world.repeats = True
    operation = verify(world, world.volume(pod).head, ProofMode.FULL)
    assert operation.state == OperationState.SUCCEEDED
    check_at_rest(world, pod)


def test_an_execution_that_was_killed_is_started_again(world, pod):
    operation = world.app.ask_proof.ask(world.account.id, world.volume(pod).head, ProofMode.FULL)
    world.engine.kill_all()
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    check_at_rest(world, pod)
