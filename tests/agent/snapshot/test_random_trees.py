"""Random trees and random changes: every captured moment can be restored onto anything.

`PODFERRY_TREE_EXAMPLES=2000 pytest tests/agent/snapshot/test_random_trees.py` looks for longer.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podferry_agent.snapshot import pages, statestore
from podferry_agent.snapshot.manifest import load_root
from tests.agent.snapshot import trees
from tests.agent.snapshot.changes import CHANGES, Change, apply, wait_for_a_new_ctime
from tests.agent.snapshot.conftest import Bench, CountingStore

EXAMPLES = int(os.environ.get("PODFERRY_TREE_EXAMPLES", "15"))
pytestmark = pytest.mark.timeout(120 + 10 * EXAMPLES)
bounded = settings(
    max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


@dataclass(frozen=True)
class Moment:
    """What happens before a capture."""

    changes: list[Change]
    forgets: bool  # the agent's state directory is lost


MOMENTS = st.lists(st.builds(Moment, CHANGES, st.booleans()), min_size=3, max_size=5)


@given(
    moments=MOMENTS,
    later=CHANGES,
    unrelated=CHANGES,
    pick=st.integers(0, 4),
    trusts=st.booleans(),
)
@bounded
def test_promise_01_any_captured_moment_is_restored_onto_any_tree(
    moments: list[Moment],
    later: list[Change],
    unrelated: list[Change],
    pick: int,
    trusts: bool,
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="pf-random-"))
    try:
        with pytest.MonkeyPatch.context() as patch:
            if trusts:
                patch.setattr(statestore, "RACY_NS", 0)
            bench = Bench(directory)
            disks = capture_all(bench, moments)
            wanted = pick % len(moments)
            apply(later, bench.tree("pod"))
            bench.make("empty")
            apply(unrelated, bench.make("other"))
            for machine in ("empty", "pod", "other"):
                restored(bench, machine, f"snap_{wanted}", disks[wanted])
    finally:
        trees.remove(directory)


def capture_all(bench: Bench, moments: list[Moment]) -> list[trees.Disk]:
    tree = bench.make("pod")
    disks = []
    parent = None
    for number, moment in enumerate(moments):
        disks.append(apply(moment.changes, tree))
        if moment.forgets and parent:
            shutil.rmtree(bench.base / "state-pod")
        outcome = bench.capture("pod", f"snap_{number}", parent=parent)
        assert outcome.summary.torn == outcome.summary.unreadable == outcome.summary.warnings == []
        parent = f"snap_{number}"
        wait_for_a_new_ctime(bench.base)
    return disks


def restored(bench: Bench, machine: str, snapshot: str, wanted: trees.Disk) -> None:
    outcome = bench.restore(machine, snapshot)
    assert trees.differing(wanted, trees.snapshot_of_disk(bench.tree(machine))) == []
    assert outcome.warnings == []
    assert bench.verify(machine, snapshot) == []
    # What is captured of it again is the same manifest, byte for byte.
    bench.capture(machine, f"{machine}_{snapshot}", parent=snapshot)
    assert isinstance(bench.last_store, CountingStore)
    assert bench.last_store.names == ["root"]


@given(changes=st.lists(CHANGES, min_size=2, max_size=3))
@bounded
def test_a_manifest_that_was_patched_is_the_one_that_a_capture_without_memory_makes(
    changes: list[list[Change]],
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


def patch_and_compare(bench: Bench, changes: list[list[Change]]) -> None:
    tree = bench.make("pod")
    for number in range(30):
        (tree / f"steady{number % 5}").mkdir(exist_ok=True)
        (tree / f"steady{number % 5}/{number}").write_bytes(b"%d" % number)
    parent = None
    for number, several in enumerate(changes):
        apply(several, tree)
        bench.capture("pod", f"snap_{number}", parent=parent)
        parent = f"snap_{number}"
        elsewhere = os.fsencode(bench.base / f"state-{number}")
        bench.capture("pod", f"whole_{number}", parent=parent, state_dir=elsewhere)
        store = bench.last_store
        assert isinstance(store, CountingStore)
        assert store.names == ["root"]
        assert load_root(store, f"whole_{number}").pages == load_root(store, parent).pages
        wait_for_a_new_ctime(bench.base)
