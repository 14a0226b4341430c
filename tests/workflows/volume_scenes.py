"""Pods that share volumes, and what becomes of both."""

from podferry.domain.offer import Requirements
from podferry.domain.pod import RunSpec
from podferry.domain.use_of_volume import Attachment
from podferry.services.pods import NewPod


def stopped_with(world, **files):
    """A stopped pod whose volume has these files."""
    pod = world.launch()
    world.box.volume = dict(files)
    world.stop(pod)
    return world.pod(pod)


def changed_to(world, pod, **files):
    """One more run, at whose end the volume has these files instead."""
    world.start(pod)
    world.box.volume = dict(files)
    world.stop(pod)


def restored(world, pod, snapshot_id):
    world.app.restore_volume.restore(world.account.id, pod.volume_id, snapshot_id)


def forked(world, pod, snapshot_id=None):
    return world.app.fork_volume.fork(world.account.id, pod.volume_id, snapshot_id, None)


def pod_on(world, volume_id, *, is_reader=False):
    """A new pod with a volume that exists, and its launch."""
    new = NewPod(
        name="other",
        spec=RunSpec(image="debian:12"),
        requirements=Requirements(gpu_count=1),
        volume=Attachment(volume_id=volume_id, is_reader=is_reader),
    )
    pod, operation = world.app.create_pod.create(world.account.id, new)
    world.run()
    return world.pod(pod), world.operation(operation)


def box_of(world, pod):
    """The machine that the pod runs on."""
    provider_id = world.machine(pod).provider_id
    return next(box for box in world.boxes() if box.provider_id == provider_id)


def files_of(world, pod):
    """What the pod has in /workspace when it is started."""
    world.start(pod)
    files = dict(box_of(world, pod).volume)
    world.stop(pod)
    return files


def at_commit(world, number, meanwhile):
    """Let something happen as a process is about to write for the n-th time."""
    left = [number]

    def before_commit():
        left[0] -= 1
        if left[0] == 0:
            world.store.before_commit = lambda: None
            meanwhile()

    world.store.before_commit = before_commit
