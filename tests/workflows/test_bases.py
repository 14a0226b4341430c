"""What a pod's machines begin as, and what captures of one image share."""

import json
from dataclasses import replace

import pytest
from invariants import check_at_rest, check_data
from saving_scenes import collect

from podferry.domain.command import CommandKind
from podferry.domain.errors import NoCapacityError, NotFoundError
from podferry.domain.offer import Requirements
from podferry.domain.operation import Cause
from podferry.domain.pod import PodState, RunSpec
from podferry.domain.snapshot import SnapshotKind, SnapshotState
from podferry.domain.volume import VersionRef
from podferry.ports.store import Update
from podferry.services.agent.objects import WantedObject
from podferry.services.environments.roll_back import Target
from podferry.services.pods import NewPod, PodChange

ENVIRONMENT = SnapshotKind.ENVIRONMENT
TOOL = "/opt/tool"


def stored(world, snapshot_id):
    prefix = f"{world.account.id}/{snapshot_id}/"
    return sorted(k for k in world.objects.keys(ENVIRONMENT) if k.startswith(prefix))


def stopped(world, tool, **spec):
    """A pod that was stopped with something installed."""
    pod = world.launch(**spec)
    world.box.builds_on_parent = True
    world.box.environment[TOOL] = tool
    world.stop(pod)
    return world.pod(pod)


# Which image


def test_every_machine_of_a_pod_begins_as_the_image_that_the_first_one_began_as(world):
    pod = world.launch()
    first = world.box.request.image
    assert first == world.pod(pod).base.pinned
    assert first.startswith("debian@sha256:")
    world.registries.moves += 1
    world.stop(pod)
    world.start(pod, providers=("beta",))
    assert world.box.request.image == first
    assert len(world.registries.asked) == 1
    world.stop(pod)
    check_at_rest(world, pod)


def test_a_registry_that_is_down_fails_no_launch_and_the_pod_says_why(world):
    world.registries.failure = "docker.io did not answer: ConnectTimeout"
    pod = world.launch()
    assert pod.state == PodState.RUNNING
    assert world.box.request.image == "debian:12"
    assert (pod.base.digest, pod.base.unresolved) == (None, world.registries.failure)
    assert "pod.base_unresolved" in world.events(pod)
    world.stop(pod)
    world.registries.failure = None
    world.start(pod)
    assert world.box.request.image == world.pod(pod).base.pinned != "debian:12"


def test_another_offer_in_the_same_launch_gets_the_same_image(world):
    world.alpha.create_raises = [NoCapacityError("sold out")]
    pod = world.launch()
    assert world.pod(pod).state == PodState.RUNNING
    assert len(world.registries.asked) == 1


def test_a_pod_whose_image_was_changed_before_it_was_captured_gets_the_new_one(world):
    world.alpha.has_stock = world.beta.has_stock = False
    pod = world.create()
    world.run()
    assert world.pod(pod).state == PodState.STOPPED
    row = world.pod(pod)
    changed = PodChange(spec=replace(row.spec, image="debian:11"))
    world.app.change_pod.change(world.account.id, pod.id, changed, None)
    world.alpha.has_stock = world.beta.has_stock = True
    world.start(pod)
    assert world.pod(pod).base.reference == "debian:11"
    assert world.box.request.image == world.pod(pod).base.pinned


# What captures of one image share


def test_the_first_capture_of_a_second_pod_of_an_image_builds_on_the_first_pods(world):
    first, second = stopped(world, "one"), stopped(world, "one")
    head = world.snapshot(second.environment_head)
    assert head.parent_id == first.environment_head
    assert stored(world, head.id) == [f"{world.account.id}/{head.id}/root"], "nothing else is new"
    check_data_of(world, second, "one")


def check_data_of(world, pod, tool):
    check_data(world, pod, {}, tool)
    world.stop(pod)


def test_pods_of_other_images_and_of_images_that_nobody_could_look_up_share_nothing(world):
    first = stopped(world, "one")
    world.registries.moves += 1
    moved = stopped(world, "one")
    world.registries.failure = "down"
    unknown = stopped(world, "one"), stopped(world, "one")
    for pod in (first, moved, *unknown):
        assert world.snapshot(pod.environment_head).parent_id is None


def test_accounts_share_nothing(world):
    first = stopped(world, "one")
    world.account, _, _ = world.app.accounts.create("other")
    foreign = stopped(world, "one")
    assert foreign.base.digest == first.base.digest
    assert world.snapshot(foreign.environment_head).parent_id is None


def test_what_a_second_pod_needs_outlives_the_pod_that_stored_it(world):
    first, second = stopped(world, "one"), stopped(world, "one")
    needed = stored(world, first.environment_head)
    world.app.delete_pod.delete(world.account.id, first.id)
    world.app.change_environment.delete(world.account.id, first.environment_id)
    collect(world, 7)
    kept = [key for key in needed if "/packs/" in key]
    assert kept
    assert set(kept) <= set(world.objects.keys(ENVIRONMENT))
    check_data_of(world, second, "one")


def test_a_capture_that_is_marked_to_go_is_not_built_on(world):
    first = stopped(world, "one")
    head = world.snapshot(first.environment_head)
    world.store.commit(Update(replace(head, state=SnapshotState.ABANDONED)))
    assert world.snapshot(stopped(world, "one").environment_head).parent_id is None


def test_promise_11_the_second_pods_machine_gets_lists_of_the_first_and_no_content(world):
    first = stopped(world, "one")
    second = world.launch()
    box = world.box
    head = world.snapshot(first.environment_head)
    pack = json.loads(world.objects.read(ENVIRONMENT, f"{world.account.id}/{head.id}/root"))
    name = f"packs/{pack['packs'][0]['sha256']}"

    def ask(what):
        principal = world.app.identify.who(box.token)
        return world.app.sign_downloads.sign(principal, head.id, [WantedObject(head.id, what)])

    for what in ("root", name):
        with pytest.raises(NotFoundError):
            ask(what)
    box.hangs.add(CommandKind.CAPTURE)
    world.app.stop_pod.ask(world.account.id, second.id, accept_loss=False, cause=Cause.USER)
    world.run(seconds=60)
    assert ask("root")
    with pytest.raises(NotFoundError):
        ask(name)


# Startup script and variables


def test_script_and_variables_travel_with_a_version(world):
    world.app.secrets.put(world.account.id, "hf", "a secret text")
    pod = stopped(
        world,
        "one",
        startup_script="exec serve",
        environment={"MODEL": "tiny"},
        secrets={"HF_TOKEN": "hf"},
    )
    version = world.app.keep_pod.keep(world.account.id, pod.id, None).version
    assert version.setup == pod.spec.setup
    assert version.base == pod.base
    other = launched_from(world, version, RunSpec(image=""))
    assert world.pod(other).spec == replace(pod.spec, on_stop_script=None)
    assert world.box.secrets == {"HF_TOKEN": "a secret text"}
    assert world.pod(other).base == pod.base


def launched_from(world, version, spec):
    ref = VersionRef(environment_id=version.environment_id, number=version.number)
    new = NewPod(name="x", spec=spec, requirements=Requirements(gpu_count=1), version=ref)
    pod, _ = world.app.create_pod.create(world.account.id, new)
    world.run()
    return pod


def test_what_is_given_with_a_launch_goes_before_the_versions(world):
    pod = stopped(world, "one", startup_script="exec serve", environment={"MODEL": "tiny"})
    version = world.app.keep_pod.keep(world.account.id, pod.id, None).version
    spec = RunSpec(image="", startup_script="exec other", environment={"A": "b"})
    other = world.pod(launched_from(world, version, spec))
    assert (other.spec.startup_script, other.spec.environment) == ("exec other", {"A": "b"})


def test_a_change_to_a_stopped_pod_is_kept_with_its_version(world):
    pod = stopped(world, "one", startup_script="exec serve")
    spec = replace(pod.spec, startup_script="exec better")
    world.app.change_pod.change(world.account.id, pod.id, PodChange(spec=spec), None)
    version = world.app.keep_pod.keep(world.account.id, pod.id, None).version
    assert version.setup.startup_script == "exec better"
    earlier = world.snapshot(pod.environment_head)
    assert earlier.setup.startup_script == "exec serve"


def test_going_back_to_a_version_brings_its_script_and_variables_back(world):
    pod = stopped(world, "one", startup_script="exec first", environment={"MODEL": "tiny"})
    world.app.keep_pod.keep(world.account.id, pod.id, None)
    spec = replace(pod.spec, startup_script="exec second", environment={})
    world.app.change_pod.change(world.account.id, pod.id, PodChange(spec=spec), None)
    world.start(pod)
    world.box.environment[TOOL] = "two"
    world.stop(pod)
    back = world.app.roll_back.to(world.account.id, pod.id, Target(version=1))
    assert back.spec.setup == pod.spec.setup
    forth = world.app.roll_back.to(world.account.id, pod.id, Target(version=2))
    assert forth.spec.setup == spec.setup
