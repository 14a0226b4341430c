"""A root of its own without /proc: a chroot, as on machines that allow no namespaces."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from podferry_agent.snapshot import CaptureSpec, RestoreHooks, RestoreSpec, capture, restore
from podferry_agent.snapshot.restore import run_ldconfig
from tests.agent.snapshot import trees
from tests.agent.snapshot.children import MemoryStore, in_child
from tests.agent.snapshot.conftest import Bench, ignore

pytestmark = pytest.mark.skipif(not trees.IS_ROOT, reason="needs root for chroot(2)")


def in_chroot(root: Path, action: Callable[[], str]) -> str:
    """What the action says in a child whose root directory is `root`."""

    def enter() -> str:
        os.chroot(root)
        os.chdir("/")
        return action()

    return in_child(enter)


def test_a_whole_root_is_captured_and_restored_from_inside_without_proc(environment: Bench) -> None:
    objects: dict[tuple[str, str], bytes] = {}
    old = environment.root("old")
    trees.make_torture(old)
    (old / "sock").unlink()
    for name in ("proc", "tmp", "workspace", "etc"):
        (old / name).mkdir(mode=0o755)
    os.utime(old / "etc", ns=(1, 1))
    (old / "tmp/not-kept").write_bytes(b"x")
    fields = {"kind": "environment", "chunk_key": trees.KEY, "snapshot_id": "snap_1"}

    def both() -> str:
        spec = CaptureSpec(**fields)  # type: ignore[arg-type]
        store = MemoryStore(objects, "snap_1")
        capture(spec, store, ignore, threading.Event())
        os.fchdir(outside)
        os.chroot(".")
        os.chroot(new)
        os.chdir("/")
        ran: list[str] = []

        def ldconfig() -> None:
            ran.append("ldconfig")
            Path("/etc/ld.so.cache").write_bytes(b"of this machine")

        hooks = RestoreHooks(ldconfig=ldconfig)
        restore(RestoreSpec(**fields), store, ignore, threading.Event(), hooks)  # type: ignore[arg-type]
        return ",".join(ran)

    new = environment.make("new")
    (new / "base-only").write_bytes(b"x")
    outside = os.open("/", os.O_RDONLY)
    assert in_chroot(old, both) == "ldconfig"
    os.close(outside)
    left, right = (trees.snapshot_of_disk(environment.tree(name)) for name in ("old", "new"))
    for disk in (left, right):
        for path in [p for p in disk if p.startswith((b".podferry", b"tmp/", b"etc/ld.so.cache"))]:
            disk.pop(path)
    left.pop(b"")
    right.pop(b"")
    assert trees.differing(left, right) == []


def test_a_box_without_ldconfig_needs_none(base: Path) -> None:
    assert in_chroot(base, lambda: str(run_ldconfig())) == "None"


def test_a_failing_ldconfig_is_reported(base: Path) -> None:
    for name in ("sbin", "dev"):
        (base / name).mkdir()
    os.mknod(base / "dev/null", 0o20666, os.makedev(1, 3))
    (base / "sbin/ldconfig").write_bytes(b"no program")
    (base / "sbin/ldconfig").chmod(0o755)
    assert "Exec format error" in in_chroot(base, lambda: str(run_ldconfig()))
