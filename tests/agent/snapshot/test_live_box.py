"""A box that lives on while it is restored: running programs, mapped libraries, its own C library."""

import mmap
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from podferry_agent.snapshot import RestoreHooks, RestoreSpec, restore
from tests.agent.snapshot import trees
from tests.agent.snapshot.children import MemoryStore, in_child
from tests.agent.snapshot.conftest import Bench, ignore

needs_root = pytest.mark.skipif(not trees.IS_ROOT, reason="needs root for chroot(2)")


def test_a_file_that_is_mapped_keeps_its_old_content_when_it_gets_shorter(bench: Bench) -> None:
    """Written in place, a page beyond the new end would be a SIGBUS."""
    (bench.make("pod") / "library.so").write_bytes(b"short")
    bench.capture("pod", "snap_1")
    path = bench.make("live") / "library.so"
    path.write_bytes(b"old" * 10_000)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        bench.restore("live", "snap_1")
        assert mapped[:] == b"old" * 10_000
        assert path.read_bytes() == b"short"


def test_a_program_that_runs_is_replaced_and_runs_on(bench: Bench) -> None:
    pod, live = bench.make("pod"), bench.make("live")
    (pod / "tool").write_bytes(b"#!/bin/sh\necho new\n")
    (pod / "tool").chmod(0o755)
    bench.capture("pod", "snap_1")
    shutil.copy2("/bin/cat", live / "tool")
    with subprocess.Popen(
        [live / "tool"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b"before\n")
        running.stdin.flush()
        assert running.stdout.readline() == b"before\n"
        bench.restore("live", "snap_1")
        running.stdin.write(b"after\n")
        running.stdin.flush()
        assert running.stdout.readline() == b"after\n"
        running.stdin.close()
    assert running.returncode == 0
    assert subprocess.check_output([live / "tool"]) == b"new\n"


def _libraries(program: str) -> list[Path]:
    lines = subprocess.check_output(["ldd", program], text=True).splitlines()
    words = (word for line in lines for word in line.split() if word.startswith("/"))
    return [Path(word) for word in words]


MARKS = (b"of the snapshot", b"of another base")


def stored_objects(bench: Bench) -> dict[tuple[str, str], bytes]:
    files = (path for path in bench.store_directory.rglob("*") if path.is_file())
    found = ((path.relative_to(bench.store_directory).as_posix(), path) for path in files)
    return {(name.partition("/")[0], name.partition("/")[2]): p.read_bytes() for name, p in found}


def make_system(root: Path, mark: bytes) -> None:
    """A root with a shell and cat; `mark` makes its libraries other files than another system's."""
    for directory in ("bin", "etc", "proc", "tmp", "workspace"):
        (root / directory).mkdir(parents=True)
    for program in ("/bin/sh", "/bin/cat"):
        shutil.copy2(Path(program).resolve(), root / program[1:])
        for library in _libraries(program):
            target = root / str(library)[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(library.read_bytes() + mark)
            target.chmod(0o755)
    (root / "etc/release").write_bytes(mark)


@pytest.fixture
def two_roots(environment: Bench) -> Bench:
    make_system(environment.root("pod"), MARKS[0])
    make_system(environment.root("live"), MARKS[1])
    (environment.root("live") / "bin/extra").write_bytes(b"x")
    environment.capture("pod", "snap_1")
    return environment


def last_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-len(MARKS[0]), os.SEEK_END)
        return file.read()


@needs_root
def test_the_c_library_under_a_running_shell_is_replaced_in_its_own_root(two_roots: Bench) -> None:
    """From inside, as the agent does it: nothing is executed or loaded between the renames."""
    live = two_roots.root("live")
    libraries = [Path(f"/{path.relative_to(live)}") for path in sorted(live.rglob("*.so*"))]
    store = MemoryStore(stored_objects(two_roots), "")
    script = "while read -r line; do if [ $line = run ]; then cat etc/release; fi; echo $line; done"

    def inside() -> str:
        os.chroot(live)
        os.chdir("/")
        replaced: list[str] = []

        def step(name: str) -> None:
            if name == "place":
                found = [p for p in libraries if last_bytes(p) == MARKS[0]]
                replaced.extend(p.name for p in found if p.name not in replaced)

        spec = RestoreSpec(kind="environment", chunk_key=trees.KEY, snapshot_id="snap_1")
        hooks = RestoreHooks(step=step, ldconfig=lambda: None)
        restore(spec, store, ignore, threading.Event(), hooks)
        return ",".join(replaced)

    command = ["chroot", str(live), "/bin/sh", "-c", script]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write("one\n")
        running.stdin.flush()
        assert running.stdout.readline() == "one\n"
        order = in_child(inside).split(",")
        running.stdin.write("run\n")
        running.stdin.close()
        assert running.stdout.read() == f"{MARKS[0].decode()}run\n"
    assert running.returncode == 0
    assert sorted(order) == sorted({path.name for path in libraries})
    assert all(name.startswith(("ld-linux", "libc.so")) for name in order[:2])
    assert not (live / "bin/extra").exists()
