"""New directories are staged whole and moved in by one rename each, whatever stands around them."""

import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from podferry_agent.snapshot import CancelledByCallerError, Progress, RestoreHooks, rules_for
from podferry_agent.snapshot.branches import BranchFinder
from podferry_agent.snapshot.live import LiveTree
from podferry_agent.snapshot.model import Entry, RestoreSpec
from podferry_agent.snapshot.tree import Tree
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench

needs_root = pytest.mark.skipif(not trees.IS_ROOT, reason="needs root")


def fill(tree: Path) -> None:
    for directory in ("a/deep/er", "b", "c"):
        (tree / directory).mkdir(parents=True)
        for number in range(4):
            (tree / directory / f"f{number}").write_bytes(b"%d" % number * 100)
    (tree / "a/link").symlink_to("deep")
    (tree / "top").write_bytes(b"a file at the top")
    os.link(tree / "a/deep/er/f0", tree / "b/hard")
    os.mkfifo(tree / "c/fifo")
    (tree / "b").chmod(0o2751)
    os.utime(tree / "a/deep", ns=(5, 5))


@pytest.fixture
def captured(bench: Bench) -> Bench:
    fill(bench.make("pod"))
    bench.capture("pod", "snap_1")
    return bench


def steps_of(bench: Bench, machine: str) -> list[str]:
    steps: list[str] = []
    bench.restore(machine, "snap_1", hooks=RestoreHooks(step=steps.append))
    assert bench.differences("pod", machine) == []
    return steps


def test_an_empty_tree_is_filled_by_one_rename_for_each_directory_at_its_top(
    captured: Bench,
) -> None:
    captured.make("new")
    steps = steps_of(captured, "new")
    assert steps.count("branch") == 3
    assert steps.count("place") == 1
    assert "mkdir" not in steps


def test_only_what_is_new_is_moved_whole(captured: Bench) -> None:
    live = captured.make("live")
    (live / "a").mkdir()
    (live / "b").mkdir()
    (live / "b/f1").write_bytes(b"1" * 100)
    steps = steps_of(captured, "live")
    assert steps.count("branch") == 2  # a/deep and c
    assert steps.count("place") == 1 + 1 + 4  # top, a/link, and what b lacks


def test_something_that_comes_to_stand_in_the_way_meanwhile_is_kept_or_replaced(
    captured: Bench,
) -> None:
    live = captured.make("live")
    made: list[str] = []

    def disturb(step: str) -> None:
        if step == "stage" and not made:
            made.append(step)
            (live / "a").mkdir()
            (live / "a/of another program").write_bytes(b"x")
            (live / "c").write_bytes(b"a file in the way")

    outcome = captured.restore("live", "snap_1", hooks=RestoreHooks(step=disturb))
    assert captured.differences("pod", "live") == []
    assert outcome.warnings == []


def test_an_empty_directory_that_comes_to_stand_in_the_way_is_replaced(captured: Bench) -> None:
    live = captured.make("live")
    steps: list[str] = []

    def disturb(step: str) -> None:
        if not steps:
            (live / "a").mkdir(mode=0o700)
        steps.append(step)

    captured.restore("live", "snap_1", hooks=RestoreHooks(step=disturb))
    assert steps.count("branch") == 3
    assert captured.differences("pod", "live") == []


def test_a_name_linked_to_a_kept_file_joins_its_branch_only_in_the_swap(captured: Bench) -> None:
    live = captured.make("live")
    (live / "a/deep/er").mkdir(parents=True)
    kept = live / "a/deep/er/f0"
    source = captured.tree("pod") / "a/deep/er/f0"
    kept.write_bytes(source.read_bytes())
    os.utime(kept, ns=(1, source.stat().st_mtime_ns))
    inode = kept.stat().st_ino
    linked: list[int] = []

    def look(step: str) -> None:
        if step == "stage":
            linked.append(kept.stat().st_nlink)

    captured.restore("live", "snap_1", hooks=RestoreHooks(step=look))
    assert set(linked) == {1}
    assert kept.stat().st_ino == inode == (live / "b/hard").stat().st_ino
    assert captured.differences("pod", "live") == []


def test_directories_too_deep_for_one_system_call_are_branches_of_their_own(bench: Bench) -> None:
    bench.root("pod").mkdir()
    trees.make_torture(bench.tree("pod"))
    bench.capture("pod", "snap_1")
    bench.make("new")
    steps = steps_of(bench, "new")
    with os.scandir(bench.tree("pod")) as found:
        tops = [entry for entry in found if entry.is_dir(follow_symlinks=False)]
    assert steps.count("branch") > len(tops)


def test_a_socket_of_the_machine_where_a_directory_belongs_becomes_one(environment: Bench) -> None:
    """The walk of an environment shows no sockets, so only a look at the name tells."""
    (environment.make("pod") / "opt").mkdir()
    (environment.tree("pod") / "opt/tool").write_bytes(b"tool")
    environment.capture("pod", "snap_1")
    live = environment.make("live")
    os.mknod(live / "opt", 0o600 | stat.S_IFSOCK)
    outcome = environment.restore("live", "snap_1")
    assert (live / "opt/tool").read_bytes() == b"tool"
    assert outcome.warnings == []


def stop_before_the_swap(bench: Bench, machine: str, snapshot: str) -> None:
    cancelled = threading.Event()

    def stop(progress: Progress) -> None:
        if progress.phase == "swap":
            cancelled.set()

    with pytest.raises(CancelledByCallerError):
        bench.restore(machine, snapshot, progress=stop, cancelled=cancelled)


def test_what_another_snapshot_staged_does_not_come_in(captured: Bench) -> None:
    """Names that were linked there are two files here; some are not there at all."""
    captured.make("live")
    stop_before_the_swap(captured, "live", "snap_1")
    assert list((captured.tree("live") / ".~pfr-stage").iterdir())
    pod = captured.tree("pod")
    (pod / "b/hard").unlink()
    (pod / "b/hard").write_bytes(b"no link any more" * 10)
    (pod / "a/deep/er/f1").unlink()
    (pod / "c").rename(pod / "d")
    (pod / "a/link").unlink()
    (pod / "a/link").mkdir()
    captured.capture("pod", "snap_2")
    captured.restore("live", "snap_2")
    assert captured.differences("pod", "live") == []


def test_what_was_staged_completely_is_taken_over_by_the_next_run(captured: Bench) -> None:
    captured.make("live")
    stop_before_the_swap(captured, "live", "snap_1")
    outcome = captured.restore("live", "snap_1")
    assert outcome.written_bytes == 100  # the file with two names is not trusted
    assert captured.differences("pod", "live") == []


@needs_root
def test_a_group_that_the_top_directory_hands_down_does_not_stay(captured: Bench) -> None:
    live = captured.make("live")
    os.chown(live, 0, 4321)
    live.chmod(0o2777)
    captured.restore("live", "snap_1")
    assert captured.differences("pod", "live") == []


def test_nothing_is_moved_whole_from_another_filesystem(captured: Bench) -> None:
    captured.make("live")
    spec = RestoreSpec(**captured.fields("live", "snap_1"))
    entries = {b"": Entry(b"", 0o40755), b"a": Entry(b"a", 0o40755), b"a/b": Entry(b"a/b", 0o40755)}
    with Tree(spec.tree_root) as tree:
        live = LiveTree(tree, rules_for(spec), spec, entries)
        device = live.nodes[b""].st_dev
        here = BranchFinder(tree, live, device).find([b"a", b"a/b"], entries)
        elsewhere = BranchFinder(tree, live, device + 1).find([b"a", b"a/b"], entries)
    assert here.roots == {b"a"}
    assert set(here.directories) == {b"a", b"a/b"}
    assert not elsewhere.directories


def test_the_tree_has_no_new_name_before_everything_is_staged(captured: Bench) -> None:
    live = captured.make("live")
    (live / "old").write_bytes(b"old")
    names: set[str] = set()

    def look(step: str) -> None:
        if step == "stage":
            names.update(path.name for path in live.iterdir())

    captured.restore("live", "snap_1", hooks=RestoreHooks(step=look))
    assert names == {"old", ".~pfr-stage"}
    assert captured.differences("pod", "live") == []


def test_a_listening_socket_in_a_volume_is_a_name_like_any_other(bench: Bench) -> None:
    pod = bench.make("pod")
    (pod / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(pod / "run")
        try:
            listening.bind("s")
        finally:
            os.chdir(here)
        bench.capture("pod", "snap_1")
    bench.make("new")
    assert steps_of(bench, "new").count("branch") == 1
    assert stat.S_ISSOCK((bench.tree("new") / "run/s").lstat().st_mode)
