"""The ladder takes the strongest isolation that works, says why, and never gives up silently."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.boxes import ladder as ladder_module
from local.boxes.box import Box, BoxStartError
from local.boxes.ladder import Ladder, NoIsolationError, Rung, find_isolation
from local.boxes.spec import BoxSpec, Isolation
from local.boxes.user_namespace import subordinate_range

_ROOT = Path(__file__).resolve().parents[3]
_USER = 54321
_NO_NAMESPACES = "echo 0 > /proc/sys/user/max_user_namespaces"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
needs_nesting = pytest.mark.skipif(
    not (shutil.which("unshare") and shutil.which("setpriv")), reason="needs util-linux"
)


def run_ladder_nested(base: Path, before: str, wrapper: str = "") -> str:
    """Run the ladder in a user namespace of its own, where limits harm nobody."""
    script = f"{before} && exec {wrapper} {sys.executable} -m local.boxes.ladder {base.parent}"
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_strongest_isolation_here_has_namespaces(base):
    found = find_isolation(base)
    assert found.isolation.has_namespaces
    assert found.isolation is (Isolation.ROOT if os.geteuid() == 0 else found.isolation)
    assert f"isolation {found.isolation.value}" in found.describe()


def test_the_answer_is_found_once(base):
    assert find_isolation(base) is find_isolation(base)


def test_probing_leaves_nothing_behind(base):
    find_isolation(base)
    assert list(base.parent.glob("box-probe-*")) == []


@needs_nesting
def test_without_user_namespaces_root_falls_back_to_chroot_and_says_why(base):
    text = run_ladder_nested(base, _NO_NAMESPACES)
    assert "isolation chroot" in text
    assert "No space left on device" in text
    assert "see the host's processes" in text


@needs_nesting
def test_without_chroot_too_only_a_directory_is_left_and_it_shouts(base):
    text = run_ladder_nested(base, _NO_NAMESPACES, "setpriv --bounding-set -sys_chroot")
    assert "isolation directory" in text
    assert "NO ISOLATION" in text


def test_a_plain_directory_is_never_used_without_consent(base, monkeypatch):
    refused = Ladder((Rung(Isolation.ROOT, "refused here"), Rung(Isolation.DIRECTORY)))
    monkeypatch.setitem(ladder_module._found, (base, os.getuid()), refused)
    with pytest.raises(NoIsolationError, match="refused here"):
        find_isolation(base)
    assert find_isolation(base, allow_no_isolation=True) is refused


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_a_chroot_box_has_its_own_files_and_leaves_no_process(make_box, base):
    box = make_box("setsid sleep 4321 & sleep infinity", isolation=Isolation.CHROOT)
    box.start()
    assert box.run(["touch", "/opt/mine"]).exit_code == 0
    assert (box.spec.root / "opt/mine").exists()
    assert not (base / "opt/mine").exists()
    assert box.run(["sh", "-c", "echo x > /dev/null"]).exit_code == 0
    box.kill()
    sleepers = subprocess.run(["pgrep", "-f", "^sleep 4321"], capture_output=True, check=False)
    assert sleepers.stdout == b""


def test_a_directory_box_runs_in_its_directory(make_box):
    box = make_box("pwd; exit 3", isolation=Isolation.DIRECTORY)
    box.start()
    assert box.wait(5).code == 3
    assert box.log_path.read_text().strip() == str(box.spec.root)


@pytest.fixture(scope="module")
def public_directory() -> Iterator[Path]:
    """A directory that another user can reach, with the code in it; pytest's own is private."""
    directory = Path(tempfile.mkdtemp(prefix="ordinary-user-"))
    directory.chmod(0o755)
    ignore = shutil.ignore_patterns("__pycache__", "aws", "providers")
    shutil.copytree(_ROOT / "local", directory / "code/local", ignore=ignore)
    shutil.copy(Path(__file__).with_name("ordinary_user.py"), directory / "code")
    (directory / "data").mkdir()
    if os.geteuid() == 0:
        os.chown(directory / "data", _USER, _USER)
    yield directory
    shutil.rmtree(directory)


def python_for_everybody() -> str:
    """This interpreter may live in a private home; the system's one does not."""
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        command = [candidate, "-c", "import sys; assert sys.version_info >= (3, 11)"]
        try:
            done = subprocess.run(command, user=_USER, capture_output=True, check=False)
        except PermissionError:
            continue
        if done.returncode == 0:
            return candidate
    pytest.skip("no Python 3.11 that another user can run")


def live_as_ordinary_user(directory: Path, prefix: list[str], **identity: object) -> dict:
    python = python_for_everybody() if os.geteuid() == 0 else sys.executable
    script = str(directory / "code/ordinary_user.py")
    done = subprocess.run(
        [*prefix, python, "-B", script, str(directory / "data")],
        capture_output=True,
        text=True,
        cwd=directory,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(directory / "code")},
        check=False,
        **identity,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_ordinary_user_gets_a_whole_life_of_a_box(public_directory):
    identity = {}
    if os.geteuid() == 0:
        identity = {"user": _USER, "group": _USER, "extra_groups": []}
    seen = live_as_ordinary_user(public_directory, [], **identity)
    assert seen["isolation"] in ("single", "range")
    assert seen["uid"] == "0"
    assert seen["write_usr"] == 0
    assert seen["runs"] == "2"
    assert seen["vm"] == "container of 0"
    assert seen["left"] == ["cache"]


@needs_root
@pytest.mark.skipif(
    not (shutil.which("newuidmap") and Path("/etc/subuid").exists() and shutil.which("setpriv")),
    reason="needs newuidmap, /etc/subuid and setpriv",
)
def test_a_user_with_subordinate_ids_can_change_owners(public_directory):
    ranges, users = public_directory / "ranges", public_directory / "passwd"
    ranges.write_text(f"{_USER}:200000:65536\n")
    users.write_text(Path("/etc/passwd").read_text() + f"ordinary:x:{_USER}:{_USER}::/:/bin/sh\n")
    # In a mount namespace of its own, the host's files stay as they are.
    script = (
        f"mount --bind {ranges} /etc/subuid && mount --bind {ranges} /etc/subgid && "
        f"mount --bind {users} /etc/passwd && "
        f'exec setpriv --reuid {_USER} --regid {_USER} --clear-groups "$@"'
    )
    seen = live_as_ordinary_user(public_directory, ["unshare", "-m", "sh", "-c", script, "sh"])
    assert seen["isolation"] == "range"
    assert seen["chown"] == 0
    assert seen["runs"] == "2"
    assert seen["left"] == ["cache"]


@pytest.mark.parametrize(
    ("lines", "start"),
    [
        (f"other:1:65536\n{os.getuid()}:300000:65536\n", 300000),
        (f"{os.getuid()}:300000:1000\n", None),
        (f"{os.getuid()}:not-a-number\n", None),
        ("", None),
    ],
)
def test_ranges_are_found_by_number_and_must_be_large(tmp_path, lines, start):
    (tmp_path / "subuid").write_text(lines)
    found = subordinate_range("subuid", tmp_path)
    assert (found.start if found else None) == start


def test_no_file_with_ranges_means_no_range(tmp_path):
    assert subordinate_range("subuid", tmp_path) is None


@needs_root
def test_a_refused_namespace_is_reported_with_the_kernels_reason(base, tmp_path):
    spec = BoxSpec(tmp_path / "box", base, Isolation.RANGE, ("/bin/true",))
    if subordinate_range("subuid") is not None:
        pytest.skip("root has subordinate ids here")
    with pytest.raises(BoxStartError, match=r"id maps refused.*subuid"):
        Box(spec).start()


@needs_nesting
def test_root_of_a_container_with_few_ids_gets_namespaces_too(base):
    assert "isolation root" in run_ladder_nested(base, "true")
