"""Many pods may have a volume: one writes it, the others work on copies of its head."""

from dataclasses import replace

import pytest
from invariants import rows
from saving_scenes import ask_save, lose_machine, saves, shown
from volume_scenes import box_of, changed_to, files_of, pod_on, stopped_with
from world import World

from podferry.domain.command import CommandKind
from podferry.domain.errors import EpochStaleError, NotFoundError, VolumeBusyError, WrongStateError
from podferry.domain.operation import Cause, OperationState
from podferry.domain.pod import OnReclaim, PodState
from podferry.domain.saving import SaveState
from podferry.domain.snapshot import Snapshot, SnapshotKind
from podferry.domain.use_of_volume import MOST_READERS, Attachment
from podferry.domain.volume import Volume
from podferry.ports.store import Update
from podferry.services.pods import PodChange


@pytest.fixture
def world():
    return World()


@pytest.fixture
def writer(world):
    """A stopped pod with a saved volume."""
    return stopped_with(world, work="common")


def a_reader(world, writer):
    reader, operation = pod_on(world, writer.volume_id, is_reader=True)
    assert operation.state == OperationState.SUCCEEDED
    return reader


def attach(world, pod, volume_id, *, is_reader=False):
    wanted = Attachment(volume_id=volume_id, is_reader=is_reader)
    return world.app.change_pod.change(world.account.id, pod.id, PodChange(volume=wanted), None)


def test_readers_run_beside_the_writer_and_have_its_head(world, writer):
    world.start(writer)
    readers = [a_reader(world, writer) for _ in range(2)]
    assert [box_of(world, pod).volume for pod in readers] == [{"work": "common"}] * 2
    volume = world.volume(writer)
    assert volume.lease.pod_id == writer.id
    assert volume.readers == tuple(pod.id for pod in readers)


def test_promise_05_a_reader_never_moves_the_head_and_does_not_fence_the_writer(world, writer):
    world.start(writer)
    epoch = world.volume(writer).epoch
    reader = a_reader(world, writer)
    box_of(world, reader).volume = {"work": "of the reader"}
    box_of(world, writer).volume = {"work": "of the writer"}
    head = world.volume(writer).head
    stopped = world.stop(reader)
    assert stopped.state == OperationState.SUCCEEDED
    assert (world.volume(writer).head, world.volume(writer).epoch) == (head, epoch)
    assert world.stop(writer).state == OperationState.SUCCEEDED
    assert files_of(world, writer) == {"work": "of the writer"}


def test_a_readers_stop_captures_the_environment_alone_and_says_so(world, writer):
    reader = a_reader(world, writer)
    box = box_of(world, reader)
    box.environment["/opt/tool"] = "installed"
    box.volume["scratch"] = "gone with the machine"
    operation = world.stop(reader)
    receipt = operation.result
    assert receipt["environment"]["snapshot_id"] == world.pod(reader).environment_head
    assert receipt["volume"] is None
    assert "/workspace" in receipt["not_captured"]
    assert operation.lost == ()
    assert world.pod(reader).recovered_from is None
    assert [box.done.count(CommandKind.CAPTURE), world.volume(writer).readers] == [1, ()]
    world.start(reader)
    assert box_of(world, reader).volume == {"work": "common"}
    assert box_of(world, reader).environment["/opt/tool"] == "installed"


def test_a_reader_is_never_saved(world, writer):
    reader = a_reader(world, writer)
    box = box_of(world, reader)
    box.has_timer = True
    before = len(rows(world, Snapshot, writer.volume_id))
    world.live(30)
    assert box.save_interval is None
    assert len(rows(world, Snapshot, writer.volume_id)) == before
    with pytest.raises(WrongStateError, match="only reads"):
        ask_save(world, reader)
    assert shown(world, reader).save_state == SaveState.SAVED
    assert not world.signals.counts["SavesFailing"]


def test_a_start_of_a_reader_has_what_the_writer_saved_meanwhile(world, writer):
    reader = a_reader(world, writer)
    world.stop(reader)
    changed_to(world, writer, work="newer")
    assert files_of(world, reader) == {"work": "newer"}


def test_a_reader_moves_and_its_writer_runs_on(world, writer):
    world.start(writer)
    reader = a_reader(world, writer)
    ask_save(world, writer)
    assert world.move(reader, providers=("beta",)).state == OperationState.SUCCEEDED
    assert box_of(world, reader).volume == {"work": "common"}
    assert world.volume(writer).readers == (reader.id,)
    assert world.pod(writer).state == PodState.RUNNING


@pytest.mark.parametrize("on_reclaim", list(OnReclaim))
def test_promise_05_the_loss_of_a_reader_leaves_the_writer_and_its_save_alone(
    world, writer, on_reclaim
):
    reader = a_reader(world, writer)
    change = PodChange(on_reclaim=on_reclaim)
    world.app.change_pod.change(world.account.id, reader.id, change, None)
    lose_machine(world)
    world.start(writer)
    box_of(world, writer).holds_saves = True
    ask_save(world, writer)
    world.run(5)
    lease, epoch = world.volume(writer).lease, world.volume(writer).epoch
    world.watch(10)
    volume, lost = world.volume(writer), world.pod(reader)
    assert (volume.lease, volume.epoch) == (lease, epoch)
    assert lost.recovered_from is None
    if on_reclaim == OnReclaim.STOP:
        assert (lost.state, volume.readers) == (PodState.STOPPED, ())
    else:
        assert (lost.state, volume.readers) == (PodState.RUNNING, (reader.id,))
        assert box_of(world, reader).volume == {"work": "common"}
    assert volume.saving_by(epoch).failures == 0


def test_a_machine_of_a_reader_that_was_replaced_cannot_commit_its_environment(world, writer):
    reader = a_reader(world, writer)

    def replace_machine(step, _):
        if step == "CommitHeads":
            fresh = world.pod(reader)
            epoch = machine.epoch + 1
            world.store.commit(Update(replace(fresh, reader_epoch=epoch)))

    machine = world.machine(reader)
    world.before_step = replace_machine
    assert world.stop(reader).error["code"] == EpochStaleError.code
    assert world.pod(reader).environment_head is None


def test_what_was_never_saved_cannot_be_read(world):
    pod = world.launch()
    with pytest.raises(WrongStateError, match="never saved"):
        pod_on(world, pod.volume_id, is_reader=True)
    assert [one.id for one in world.pods()] == [pod.id]


def test_promise_07_a_volume_is_not_deleted_while_a_reader_may_have_to_restore_it(world, writer):
    reader = a_reader(world, writer)
    with pytest.raises(VolumeBusyError, match=reader.id):
        world.app.keep_volume.trash(world.account.id, writer.volume_id)
    world.stop(reader)
    world.app.keep_volume.trash(world.account.id, writer.volume_id)


def test_a_start_of_a_reader_that_fails_is_forgotten_by_its_volume(world, writer):
    world.objects.delete(SnapshotKind.VOLUME, world.objects.keys(SnapshotKind.VOLUME))
    reader, operation = pod_on(world, writer.volume_id, is_reader=True)
    assert operation.state == OperationState.FAILED
    assert (reader.state, world.volume(writer).readers) == (PodState.STOPPED, ())


def test_a_volume_has_no_more_readers_than_its_row_can_name(world, writer):
    full = tuple(f"pod_{number}" for number in range(MOST_READERS))
    world.store.commit(Update(replace(world.volume(writer), readers=full)))
    with pytest.raises(VolumeBusyError, match=f"{MOST_READERS} pods"):
        pod_on(world, writer.volume_id, is_reader=True)


def test_a_stopped_pod_gets_another_volume_and_the_old_one_stays(world, writer):
    other = stopped_with(world, work="other")
    own = other.volume_id
    world.app.delete_pod.delete(world.account.id, writer.id)
    attach(world, other, writer.volume_id)
    assert files_of(world, other) == {"work": "common"}
    attach(world, world.pod(other), own)
    assert files_of(world, other) == {"work": "other"}


def test_promise_05_two_pods_that_may_write_a_volume_do_not_run_at_once(world, writer):
    other = stopped_with(world, work="other")
    attach(world, other, writer.volume_id)
    world.start(writer)
    with pytest.raises(VolumeBusyError, match=writer.id):
        world.start(other)
    assert world.pod(other).state == PodState.STOPPED


def test_a_start_can_name_the_volume(world, writer):
    other = stopped_with(world, work="other")
    wanted = Attachment(volume_id=writer.volume_id, is_reader=True)
    world.app.start_pod.ask(world.account.id, other.id, None, Cause.USER, wanted)
    world.run()
    assert box_of(world, other).volume == {"work": "common"}
    assert (world.pod(other).volume_id, world.pod(other).is_reader) == (writer.volume_id, True)


def test_only_a_stopped_pod_gets_another_volume(world, writer):
    running = world.launch()
    with pytest.raises(WrongStateError, match="stop it first"):
        attach(world, running, writer.volume_id)
    with pytest.raises(NotFoundError):
        attach(world, writer, "vol_none")
    own = world.store.get(Volume, writer.volume_id)
    world.app.keep_volume.trash(world.account.id, own.id)
    with pytest.raises(WrongStateError, match="undelete"):
        attach(world, writer, own.id, is_reader=True)


def test_a_writer_that_becomes_a_reader_and_writer_again_goes_on_from_the_head(world, writer):
    attach(world, writer, writer.volume_id, is_reader=True)
    world.start(writer)
    box_of(world, writer).volume = {"work": "only a try"}
    world.stop(writer)
    attach(world, world.pod(writer), writer.volume_id)
    changed_to(world, writer, work="kept")
    assert files_of(world, writer) == {"work": "kept"}
    assert len(saves(world, writer)) == 3
