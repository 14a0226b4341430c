# Names here are bytes, which pathlib does not take.
# ruff: noqa: PTH101, PTH102, PTH103, PTH108, PTH112, PTH114, PTH123, PTH211
"""Random trees and random changes: every captured moment can be restored onto anything."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podferry_agent.snapshot import pages, statestore
from podferry_agent.snapshot.manifest import load_root
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench, CountingStore

NAMES = st.sampled_from([b"a", b"b", b"lib", b"x\xff", b"new\nline", b"a b"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
SIZES = st.sampled_from([0, 1, 100, 4096, 70_000, 1_200_000])
Action = Callable[[bytes], None]


def new_file(path: bytes) -> BinaryIO:
    """Never an existing one: opening a FIFO would wait for its other end."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return open(path, "xb")


def write(path: bytes, size: int, seed: int) -> Action:
    def action(root: bytes) -> None:
        with new_file(root + path) as file:
            file.write((b"%d" % seed * size)[:size])

    return action


def overwrite(path: bytes, seed: int) -> Action:
    def action(root: bytes) -> None:
        with open(root + path, "r+b") as file:
            file.write(b"%d" % seed)

    return action


def sparse(path: bytes, at: int) -> Action:
    def action(root: bytes) -> None:
        with new_file(root + path) as file:
            file.truncate(1 << 20)
            file.seek(at)
            file.write(b"data")

    return action


def remove(path: bytes) -> Action:
    def action(root: bytes) -> None:
        if os.path.islink(root + path) or not os.path.isdir(root + path):
            os.unlink(root + path)
        else:
            shutil.rmtree(root + path)

    return action


def two(call: Callable[..., object], left: bytes, right: bytes, **more: object) -> Action:
    def action(root: bytes) -> None:
        call(root + left, root + right, **more)

    return action


SEEDS = st.integers(0, 9)
ACTIONS = st.one_of(
    st.builds(write, PATHS, SIZES, SEEDS),
    st.builds(write, PATHS, SIZES, SEEDS),
    st.builds(overwrite, PATHS, SEEDS),
    st.builds(sparse, PATHS, st.sampled_from([0, 8192, 500_000])),
    st.builds(remove, PATHS),
    PATHS.map(lambda p: lambda root: os.mkdir(root + p)),
    PATHS.map(lambda p: lambda root: os.makedirs(root + p)),
    PATHS.map(lambda p: lambda root: os.mkfifo(root + p)),
    st.builds(lambda target, p: lambda root: os.symlink(target, root + p), PATHS, PATHS),
    st.builds(lambda a, b: two(os.link, a, b, follow_symlinks=False), PATHS, PATHS),
    st.builds(lambda a, b: two(os.rename, a, b), PATHS, PATHS),
    st.builds(
        lambda p, m: lambda root: os.chmod(root + p, m),
        PATHS,
        st.sampled_from([0o700, 0o755, 0o4711, 0o1777]),
    ),
    st.builds(
        lambda p, t: lambda root: os.utime(root + p, ns=(t, t), follow_symlinks=False),
        PATHS,
        st.integers(-(10**18), 10**18),
    ),
    st.builds(
        lambda p, v: lambda root: os.setxattr(root + p, b"user.k", v), PATHS, st.binary(max_size=9)
    ),
)
CHANGES = st.lists(ACTIONS, max_size=25)


def apply(actions: list[Action], tree: Path) -> trees.Disk:
    for action in actions:
        with contextlib.suppress(OSError):
            action(os.fsencode(tree) + b"/")
    return trees.snapshot_of_disk(tree)


@given(first=CHANGES, second=CHANGES, third=CHANGES, pick=st.booleans(), forget=st.booleans())
@settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_promise_01_any_captured_moment_is_restored_onto_any_tree(
    first: list[Action], second: list[Action], third: list[Action], pick: bool, forget: bool
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="pf-random-"))
    try:
        bench = Bench(directory)
        tree = bench.make("pod")
        moments = {"snap_1": apply(first, tree)}
        bench.capture("pod", "snap_1")
        moments["snap_2"] = apply(second, tree)
        if forget:
            shutil.rmtree(directory / "state-pod")
        bench.capture("pod", "snap_2", parent="snap_1")
        apply(third, tree)
        wanted = "snap_1" if pick else "snap_2"
        bench.make("empty")
        for machine in ("empty", "pod"):
            outcome = bench.restore(machine, wanted)
            found = trees.snapshot_of_disk(bench.tree(machine))
            assert trees.differing(moments[wanted], found) == []
            assert outcome.warnings == []
            assert bench.verify(machine, wanted) == []
    finally:
        trees.remove(directory)


@given(changes=st.lists(CHANGES, min_size=2, max_size=3))
@settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_a_manifest_that_was_patched_is_the_one_that_a_capture_without_memory_makes(
    changes: list[list[Action]],
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="pf-random-"))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(statestore, "RACY_NS", 0)
            patch.setattr(pages, "_MIN_ENTRIES", 2)
            patch.setattr(pages, "_CUT_MASK", 1)
            patch_and_compare(Bench(directory), changes)
    finally:
        trees.remove(directory)


def patch_and_compare(bench: Bench, changes: list[list[Action]]) -> None:
    tree = bench.make("pod")
    for number in range(30):
        (tree / f"steady{number % 5}").mkdir(exist_ok=True)
        (tree / f"steady{number % 5}/{number}").write_bytes(b"%d" % number)
    parent = None
    for number, actions in enumerate(changes):
        apply(actions, tree)
        bench.capture("pod", f"snap_{number}", parent=parent)
        parent = f"snap_{number}"
        elsewhere = os.fsencode(bench.base / f"state-{number}")
        bench.capture("pod", f"whole_{number}", parent=parent, state_dir=elsewhere)
        store = bench.last_store
        assert isinstance(store, CountingStore)
        assert store.names == ["root"]
        assert load_root(store, f"whole_{number}").pages == load_root(store, parent).pages
