"""Restoring a merged /usr over a split one and back: directories that become links, and mounts."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from podferry_agent.snapshot import RestoreHooks
from tests.agent.snapshot import trees
from tests.agent.snapshot.conftest import Bench
from tests.agent.snapshot.namespaces import NOT_ALLOWED, run_apart

needs_root = pytest.mark.skipif(not trees.IS_ROOT, reason="needs root")


def make_merged(tree: Path) -> None:
    """A system whose /bin and /lib are symlinks into /usr."""
    for name in ("usr/bin/sh", "usr/bin/tool", "usr/lib/x/libc.so.6", "usr/lib/os", "etc/merged"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(b"merged " + name.encode())
    (tree / "bin").symlink_to("usr/bin")
    (tree / "lib").symlink_to("usr/lib")


def make_split(tree: Path) -> None:
    """The older layout, with directories of the same names."""
    for name in (
        "usr/bin/tool",
        "bin/sh",
        "bin/ls",
        "lib/x/libc.so.6",
        "lib/old/deep/er",
        "usr/lib/os",
        "etc/split",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(b"split " + name.encode())
    os.link(tree / "bin/ls", tree / "usr/bin/ls")


@pytest.mark.parametrize(
    ("source", "target"), [(make_merged, make_split), (make_split, make_merged)]
)
def test_a_merged_and_a_split_usr_are_restored_over_each_other(
    environment: Bench, source: Callable[[Path], None], target: Callable[[Path], None]
) -> None:
    source(environment.make("pod"))
    environment.capture("pod", "snap_1")
    target(environment.make("live"))
    outcome = environment.restore("live", "snap_1")
    assert environment.differences("pod", "live") == []
    assert outcome.warnings == []
    assert environment.verify("live", "snap_1") == []


def test_the_old_name_leads_to_a_file_at_every_moment_of_a_conversion(environment: Bench) -> None:
    make_split(environment.make("pod"))
    environment.capture("pod", "snap_1")
    live = environment.make("live")
    make_merged(live)
    missing: list[str] = []

    def look(step: str) -> None:
        if step != "stage" and not (live / "bin/sh").exists():
            missing.append(step)

    environment.restore("live", "snap_1", hooks=RestoreHooks(step=look))
    assert missing == []


_MOUNT_AND_RESTORE = """
import subprocess, sys
base = sys.argv[1]
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "--bind", f"{base}/driver", f"{base}/live/lib/x/libcuda.so.1"], check=True)
from pathlib import Path
from tests.agent.snapshot.conftest import Bench
outcome = Bench(Path(base), kind="environment").restore("live", "snap_1")
print(*outcome.warnings, sep="\\n")
for name in ("lib/x/libc.so.6", "lib/os", "bin/sh", "lib/x/libcuda.so.1"):
    print(name, Path(base, "live", name).read_bytes().decode())
"""


@needs_root
def test_a_directory_with_a_mount_in_it_stays_and_its_names_lead_to_the_new_files(
    environment: Bench,
) -> None:
    bench = environment
    make_merged(bench.make("pod"))
    bench.capture("pod", "snap_1")
    live = bench.make("live")
    make_split(live)
    (live / "lib/x/libcuda.so.1").write_bytes(b"")
    (bench.base / "driver").write_bytes(b"the driver")
    printed = run_apart(_MOUNT_AND_RESTORE, bench.base)
    assert "directory_kept: lib: it holds /lib/x/libcuda.so.1" in printed
    assert "lib/x/libc.so.6 merged usr/lib/x/libc.so.6" in printed
    assert "lib/os merged usr/lib/os" in printed
    assert "bin/sh merged usr/bin/sh" in printed
    assert "lib/x/libcuda.so.1 the driver" in printed
    assert not (live / "lib/old").exists()


_OVERLAY_AND_RESTORE = """
import subprocess, sys
from pathlib import Path
base = sys.argv[1]
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", f"{base}/layers"], check=True)
for name in ("upper", "work"):
    Path(base, "layers", name).mkdir()
options = f"lowerdir={base}/lower,upperdir={base}/layers/upper,workdir={base}/layers/work"
subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, f"{base}/live"], check=True)
from tests.agent.snapshot.conftest import Bench
bench = Bench(Path(base), kind="environment")
outcome = bench.restore("live", "snap_1")
assert outcome.warnings == [], outcome.warnings
assert bench.verify("live", "snap_1") == []
assert bench.differences("pod", "live") == [], bench.differences("pod", "live")
"""


@needs_root
@pytest.mark.parametrize(
    ("source", "target"), [(make_merged, make_split), (make_split, make_merged)]
)
def test_directories_of_an_overlays_lower_layer_are_converted_too(
    environment: Bench, source: Callable[[Path], None], target: Callable[[Path], None]
) -> None:
    """An overlay refuses to rename those: EXDEV."""
    bench = environment
    source(bench.make("pod"))
    bench.capture("pod", "snap_1")
    target(bench.make("lower"))
    for name in ("live", "layers"):
        bench.make(name)
    run_apart(_OVERLAY_AND_RESTORE, bench.base, lacking=(NOT_ALLOWED, "wrong fs type"))
