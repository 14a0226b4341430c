"""What belongs to the machine is never captured, never written and never deleted."""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from podferry_agent.snapshot import machine_paths
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench

DRIVER_NAMES = (
    "libcuda.so",
    "libcuda.so.1",
    "libcuda.so.550.54.14",
    "libnvidia-ml.so.1",
    "libnvidia-ptxjitcompiler.so.550.54.14",
    "libnvcuvid.so.1",
    "libGLX_nvidia.so.0",
    "nvidia-smi",
    "nvidia-cuda-mps-control",
)
DRIVER_DIRECTORIES = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib64",
    "lib/aarch64-linux-gnu",
    "usr/bin",
    "usr/local/nvidia/lib64",
)
OF_THE_POD = (
    "usr/local/cuda/compat/libcuda.so.1",
    "usr/local/cuda/lib64/stubs/libcuda.so",
    "opt/venv/lib/python3.11/site-packages/nvidia/libnvidia-thing.so",
    "etc/hosts.allow",
    "root/.ssh/config",
    "root/.ssh/id_ed25519",
    "var/tmp/kept",
    "var/lib/dpkg/status",
    "etc/ld.so.conf",
)


def concrete(pattern: str) -> str:
    """A path that a pattern of the table names."""
    return pattern.lstrip("/").replace("**", "deep/inner").replace("*", "x")


def machine_owned() -> Iterator[str]:
    patterns = [pattern for pattern, _ in (*machine_paths.FIXED, *machine_paths.default_table())]
    yield from (concrete(p) for p in patterns if not p.startswith("/.podferry"))
    yield from map("/".join, itertools.product(DRIVER_DIRECTORIES, DRIVER_NAMES))


def write_all(tree: Path, names: Iterable[str], text: bytes, inside: str = "") -> None:
    for name in names:
        path = tree / name / inside if inside else tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text + name.encode())


@pytest.mark.parametrize("inside", ["", "inner/file"], ids=["as a file", "as a directory"])
def test_no_path_of_the_machine_travels_and_all_stay(environment: Bench, inside: str) -> None:
    names = sorted(set(machine_owned()))
    assert len(names) > 100
    pod, live, empty = (environment.make(name) for name in ("pod", "live", "empty"))
    write_all(pod, names, b"of the old machine: ", inside)
    write_all(pod, OF_THE_POD, b"of the pod: ")
    write_all(live, names, b"of this machine: ", inside)
    environment.capture("pod", "snap_1")
    for machine in ("live", "empty"):
        environment.restore(machine, "snap_1")
        for name in OF_THE_POD:
            assert (
                environment.tree(machine) / name
            ).read_bytes() == b"of the pod: " + name.encode()
    for name in names:
        path = live / name / inside if inside else live / name
        assert path.read_bytes() == b"of this machine: " + name.encode()
        assert not (empty / name).exists(), name


def test_a_snapshot_of_almost_nothing_deletes_nothing_of_the_machine(environment: Bench) -> None:
    names = sorted(set(machine_owned()))
    environment.make("pod")
    environment.capture("pod", "snap_1")
    live = environment.make("live")
    write_all(live, names, b"of this machine: ")
    write_all(live, OF_THE_POD, b"of the base image: ")
    environment.restore("live", "snap_1")
    left = {p.relative_to(live).as_posix() for p in live.rglob("*") if p.is_file()}
    assert left == set(names)


def test_empty_driver_files_and_dangling_links_to_them_do_not_travel(environment: Bench) -> None:
    """What is left in an image whose container had the driver bound in."""
    pod = environment.make("pod")
    libraries = pod / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (libraries / "libcuda.so.535.54.03").touch()
    (libraries / "libnvidia-ml.so.535.54.03").touch()
    (libraries / "libcuda.so.1").symlink_to("libcuda.so.535.54.03")
    (libraries / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.495.00")
    (libraries / "libcudnn.so.9").touch()
    environment.capture("pod", "snap_1")
    environment.make("new")
    environment.restore("new", "snap_1")
    found = [name.rpartition(b"/")[2] for name in trees.snapshot_of_disk(environment.tree("new"))]
    assert [name for name in found if b".so" in name] == [b"libcudnn.so.9"]


def test_neighbours_of_the_tree_are_never_touched(bench: Bench) -> None:
    """Deleting goes by the tree, not by a prefix of its path."""
    (bench.make("pod") / "file").write_bytes(b"x")
    bench.capture("pod", "snap_1")
    live = bench.make("live")
    for name in ("workspace2/file", "workspace-old/file", "file", "etc/app"):
        (bench.root("live") / name).parent.mkdir(exist_ok=True)
        (bench.root("live") / name).write_bytes(b"not of the volume")
    (live / "extra").write_bytes(b"x")
    bench.restore("live", "snap_1")
    for name in ("workspace2/file", "workspace-old/file", "file", "etc/app"):
        assert (bench.root("live") / name).read_bytes() == b"not of the volume"
    assert not (live / "extra").exists()


def test_a_volume_that_is_a_link_on_the_old_machine_is_a_directory_on_the_new_one(
    environment: Bench,
) -> None:
    """Where a provider keeps the volume is the machine's: the link does not travel."""
    pod = environment.make("pod")
    (pod / "mnt/disk").mkdir(parents=True)
    (pod / "mnt/disk/file").write_bytes(b"x")
    (pod / "workspace").symlink_to("mnt/disk")
    environment.capture("pod", "snap_1")
    for machine, names in (("empty", ()), ("full", ("work",)), ("linked", ())):
        live = environment.make(machine)
        if machine == "linked":
            (live / "srv").mkdir()
            (live / "workspace").symlink_to("srv")
        else:
            (live / "workspace").mkdir()
        write_all(live / "workspace", names, b"of the volume: ")
        environment.restore(machine, "snap_1")
        assert (live / "workspace").is_symlink() is (machine == "linked")
        assert (live / "mnt/disk/file").read_bytes() == b"x"
        if machine != "linked":
            assert [path.name for path in (live / "workspace").iterdir()] == list(names)
