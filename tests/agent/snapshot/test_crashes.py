"""SIGKILL at any step, then the same call again: the end is the same."""

import os
import random
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from podferry_agent.snapshot import ObjectNotFoundError, RestoreHooks
from podferry_agent.snapshot.manifest import load_root
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench, CountingStore


def killed_in(action: Callable[[Callable[[], None]], object]) -> bool:
    """Run an action in a child that dies of SIGKILL when it calls what it is given."""
    child = os.fork()
    if child == 0:
        try:
            action(lambda: os.kill(os.getpid(), signal.SIGKILL))
        except BaseException:  # noqa: BLE001
            os._exit(3)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, "the child failed by itself"
    return os.WIFSIGNALED(status)


def fill_old(tree: Path, rng: random.Random) -> None:
    for d in range(6):
        (tree / f"d{d}").mkdir(parents=True)
        for f in range(12):
            (tree / f"d{d}/f{f}").write_bytes(rng.randbytes(rng.choice([0, 10, 3000])))
        (tree / f"d{d}/link").symlink_to(f"f{d}")
    (tree / "merged").mkdir()
    (tree / "merged/tool").write_bytes(b"tool")
    (tree / "bin").symlink_to("merged")
    (tree / "split").mkdir()
    (tree / "split/tool").write_bytes(b"split tool")
    os.link(tree / "d0/f1", tree / "d1/hard")
    (tree / "big").write_bytes(rng.randbytes(6 << 20))


def change(tree: Path, rng: random.Random) -> None:
    """Another system over the same names: conversions both ways, deletions, new links."""
    for d in range(6):
        for f in range(12):
            path = tree / f"d{d}/f{f}"
            if rng.random() < 0.4:
                path.unlink()
            elif rng.random() < 0.6:
                path.unlink()
                path.write_bytes(rng.randbytes(2000))
    shutil.rmtree(tree / "d5")
    (tree / "d5").write_bytes(b"a file now")
    (tree / "bin").unlink()
    (tree / "bin/deeper").mkdir(parents=True)
    (tree / "bin/tool").write_bytes(b"tool in a real bin")
    shutil.copytree(tree / "split", tree / "whole")
    shutil.rmtree(tree / "split")
    (tree / "split").symlink_to("whole")
    os.mkfifo(tree / "fifo")
    (tree / "big").write_bytes(rng.randbytes(5 << 20))


@pytest.fixture
def two_systems(bench: Bench) -> Bench:
    """`snap_old` and `snap_new` of one tree, and machine `live` with the old one on it."""
    rng = random.Random(7)
    fill_old(bench.make("pod"), rng)
    bench.capture("pod", "snap_old")
    change(bench.tree("pod"), rng)
    bench.capture("pod", "snap_new", parent="snap_old")
    bench.make("live")
    bench.restore("live", "snap_old")
    return bench


def count_steps(bench: Bench) -> int:
    steps: list[str] = []
    bench.make("probe")
    bench.restore("probe", "snap_old")
    bench.restore("probe", "snap_new", hooks=RestoreHooks(step=steps.append))
    assert {"stage", "mkdir", "convert", "place", "replace", "delete", "metadata"} <= set(steps)
    return len(steps)


def killing_hooks(step: int, die: Callable[[], None]) -> RestoreHooks:
    done = 0

    def count(_: str) -> None:
        nonlocal done
        done += 1
        if done == step:
            die()

    return RestoreHooks(step=count)


def killed_restore(bench: Bench, step: int, die: Callable[[], None]) -> None:
    bench.restore("live", "snap_new", hooks=killing_hooks(step, die))


def test_a_restore_that_is_killed_at_any_step_and_run_again_ends_the_same(
    two_systems: Bench,
) -> None:
    bench = two_systems
    total = count_steps(bench)
    rng = random.Random(11)
    kills = 0
    for step in sorted({1, 2, total - 1, *rng.sample(range(3, total - 1), 9)}):
        for again in (step, rng.randrange(1, step + 1)):
            kills += killed_in(partial(killed_restore, bench, again))
        bench.restore("live", "snap_new")
        assert bench.differences("pod", "live") == []
        assert not list(bench.tree("live").glob(".~pfr-*"))
        bench.restore("live", "snap_old")
    assert kills >= 12


def test_a_staged_file_is_not_fetched_again_after_a_kill(two_systems: Bench) -> None:
    bench = two_systems
    plain = bench.make("plain")
    assert killed_in(lambda die: bench.restore("plain", "snap_new", hooks=killing_hooks(40, die)))
    staged = [path for path in (plain / ".~pfr-stage").rglob("*") if path.is_file()]
    assert len(staged) >= 20
    outcome = bench.restore("plain", "snap_new")
    assert outcome.written_bytes < outcome.bytes
    assert bench.differences("pod", "plain") == []


class DyingStore(CountingStore):
    """Dies before its n-th put."""

    def __init__(
        self, directory: Path, snapshot_id: str, puts: int, die: Callable[[], None]
    ) -> None:
        super().__init__(directory, snapshot_id)
        self._left = puts
        self._die = die

    def put(self, name: str, body: bytes | memoryview, sha256: str) -> None:
        self._left -= 1
        if self._left < 0:
            self._die()
        super().put(name, body, sha256)


def fill_packs(tree: Path) -> None:
    rng = random.Random(3)
    for number in range(10):
        (tree / f"f{number}").write_bytes(rng.randbytes(4 << 20))


@pytest.mark.parametrize("same_id", [True, False], ids=["same-id", "new-id"])
def test_a_capture_that_is_killed_leaves_no_snapshot_and_its_retry_is_whole(
    bench: Bench, same_id: bool
) -> None:
    tree = bench.make("pod")
    fill_packs(tree)

    def run(die: Callable[[], None]) -> None:
        bench.capture("pod", "snap_1", store=DyingStore(bench.store_directory, "snap_1", 4, die))

    # Four uploads run at once: before a fifth begins, one was confirmed.
    assert killed_in(run)
    with pytest.raises(ObjectNotFoundError):
        CountingStore(bench.store_directory, "snap_1").get("snap_1", "root")
    retry = "snap_1" if same_id else "snap_2"
    bench.capture("pod", retry)
    store = bench.last_store
    assert store is not None
    root = load_root(store, retry)
    assert {pack.snapshot_id for pack in root.packs} == {retry}
    if same_id:
        assert len(store.packs()) < len(root.packs)
    bench.make("new")
    bench.restore("new", retry)
    assert bench.differences("pod", "new") == []


def test_a_capture_killed_before_its_root_costs_the_next_one_nothing_that_the_parent_has(
    bench: Bench,
) -> None:
    tree = bench.make("pod")
    fill_packs(tree)
    bench.capture("pod", "snap_1")
    (tree / "more").write_bytes(b"more")
    assert killed_in(
        lambda die: bench.capture(
            "pod",
            "snap_2",
            parent="snap_1",
            store=DyingStore(bench.store_directory, "snap_2", 2, die),
        )
    )
    outcome = bench.capture("pod", "snap_3", parent="snap_1")
    assert outcome.summary.new_bytes == 4


def test_a_killed_run_leaves_its_state_readable(bench: Bench) -> None:
    tree = bench.make("pod")
    fill_packs(tree)
    bench.capture("pod", "snap_1")
    for path in (bench.base / "state-pod").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-3])
    outcome = bench.capture("pod", "snap_2", parent="snap_1")
    assert outcome.summary.new_bytes == 0
    bench.make("new")
    bench.restore("new", "snap_2")
    assert (
        trees.differing(trees.snapshot_of_disk(tree), trees.snapshot_of_disk(bench.tree("new")))
        == []
    )
