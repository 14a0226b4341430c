"""Extended attributes, ACLs, capabilities, flags, modes and times: exact, and none from elsewhere."""

import errno
import os
import stat
from pathlib import Path

import pytest

from podferry_agent.snapshot import SnapshotCorruptError
from podferry_agent.snapshot.directorystore import DirectoryStore
from podferry_agent.snapshot.manifest import load_root
from tests.agent.snapshot import trees
from tests.agent.snapshot.children import CAP_LINUX_IMMUTABLE, give_up_capability, in_child
from tests.agent.snapshot.conftest import Bench

needs_root = pytest.mark.skipif(not trees.IS_ROOT, reason="needs root")
NODUMP, NOATIME, IMMUTABLE, APPEND = 0x40, 0x80, 0x10, 0x20


def needs_flags(bench: Bench) -> None:
    if not (trees.IS_ROOT and trees.supports_flags(bench.base)):
        pytest.skip("this filesystem or this user cannot set inode flags")


def set_or_skip(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EPERM):
            raise
        pytest.skip(f"this filesystem does not take {name}: {error}")


def round_trip(bench: Bench) -> None:
    bench.capture("pod", "snap_1")
    bench.make("new")
    outcome = bench.restore("new", "snap_1")
    assert bench.differences("pod", "new") == []
    assert outcome.warnings == []


@needs_root
@pytest.mark.parametrize("kind", ["file", "directory", "symlink", "fifo", "device"])
def test_case_s11_attributes_of_every_namespace_come_back(bench: Bench, kind: str) -> None:
    path = bench.make("pod") / "name"
    {
        "file": lambda: path.write_bytes(b"x"),
        "directory": path.mkdir,
        "symlink": lambda: path.symlink_to("nowhere"),
        "fifo": lambda: os.mkfifo(path),
        "device": lambda: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3)),
    }[kind]()
    for name in ("trusted.note", "security.note", "trusted.empty"):
        set_or_skip(path, name, b"" if name.endswith("empty") else b"\0v\xff" * 20)
    if kind in ("file", "directory"):
        set_or_skip(path, "user.note", b"u")
        set_or_skip(path, "system.posix_acl_access", trees.acl())
    round_trip(bench)


@needs_root
def test_attributes_that_another_machine_put_there_are_taken_away(bench: Bench) -> None:
    for machine in ("pod", "new"):
        tree = bench.make(machine)
        (tree / "file").write_bytes(b"same")
        (tree / "link").symlink_to("nowhere")
        (tree / "directory").mkdir()
    new = bench.tree("new")
    for name in ("file", "link", "directory"):
        set_or_skip(new / name, "trusted.stranger", b"x")
    set_or_skip(new / "directory", "system.posix_acl_default", trees.acl())
    round_trip(bench)


@needs_root
def test_a_capability_and_setuid_survive_a_change_of_the_owner(bench: Bench) -> None:
    for machine, owner in (("pod", 1234), ("new", 0)):
        path = bench.make(machine) / "tool"
        path.write_bytes(b"same content")
        os.chown(path, owner, owner)
        path.chmod(0o6755)
    set_or_skip(bench.tree("pod") / "tool", "security.capability", trees.CAP_NET_RAW)
    (bench.tree("pod") / "tool").chmod(0o6755)
    round_trip(bench)
    status = (bench.tree("new") / "tool").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o6755, 1234)
    assert os.getxattr(bench.tree("new") / "tool", "security.capability") == trees.CAP_NET_RAW


@pytest.mark.parametrize("size", [4096, 20_000, 60_000])
def test_attributes_over_four_kibibytes_come_back(roomy: Bench, size: int) -> None:
    tree = roomy.make("pod")
    (tree / "file").write_bytes(b"x")
    (tree / "directory").mkdir()
    for name in ("file", "directory"):
        os.setxattr(tree / name, "user.large", os.urandom(size))
    round_trip(roomy)
    os.setxattr(tree / "file", "user.large", b"now small")
    roomy.capture("pod", "snap_2", parent="snap_1")
    roomy.restore("new", "snap_2")
    assert roomy.differences("pod", "new") == []


def test_case_30_large_attributes_are_stored_once_and_not_in_pages(roomy: Bench) -> None:
    tree = roomy.make("pod")
    value = os.urandom(60_000)
    for number in range(20):
        (tree / f"file{number}").write_bytes(b"x")
        os.setxattr(tree / f"file{number}", "user.large", value)
    (tree / "directory").mkdir()
    os.setxattr(tree / "directory", "user.large", value)
    stored = roomy.capture("pod", "snap_1").summary.stored_bytes
    assert stored < 2 * len(value)
    (tree / "file7").chmod(0o640)
    second = roomy.capture("pod", "snap_2", parent="snap_1").summary
    assert second.new_bytes == 0
    assert second.stored_bytes < 4_000  # the page is written again, the value is not
    roomy.make("new")
    roomy.restore("new", "snap_2")
    assert roomy.differences("pod", "new") == []
    assert roomy.verify("new", "snap_2") == []


def test_case_30_the_pack_of_a_large_attribute_is_one_that_the_snapshot_needs(roomy: Bench) -> None:
    """Else the garbage collector would take it away."""
    path = roomy.make("pod") / "empty"
    path.touch()
    os.setxattr(path, "user.large", os.urandom(60_000))
    roomy.capture("pod", "snap_1")
    path.chmod(0o600)
    roomy.capture("pod", "snap_2", parent="snap_1")
    for snapshot in ("snap_1", "snap_2"):
        root = load_root(DirectoryStore(roomy.store_directory), snapshot)
        assert [pack.snapshot_id for pack in root.packs] == ["snap_1"]
        assert root.pages[0].packs == [0]


def test_case_30_a_damaged_large_attribute_is_an_error_that_names_the_file(roomy: Bench) -> None:
    tree = roomy.make("pod")
    (tree / "with").write_bytes(b"content")
    os.setxattr(tree / "with", "user.large", os.urandom(60_000))
    roomy.capture("pod", "snap_1")
    (tree / "with").unlink()
    (tree / "without").write_bytes(os.urandom(1000))
    roomy.capture("pod", "snap_2", parent="snap_1")
    os.setxattr(tree / "without", "user.large", os.urandom(60_000))
    roomy.capture("pod", "snap_3", parent="snap_2")
    (pack,) = (roomy.store_directory / "snap_3/packs").iterdir()
    body = bytearray(pack.read_bytes())
    body[30_000] ^= 1
    pack.write_bytes(body)
    roomy.make("new")
    with pytest.raises(SnapshotCorruptError) as caught:
        roomy.restore("new", "snap_3")
    assert caught.value.files == ["without"]
    assert not list(roomy.tree("new").iterdir())
    outcome = roomy.restore("new", "snap_3", best_effort=True)
    assert [(each.path, each.object_name) for each in outcome.damaged] == [
        ("without", f"packs/{pack.name}")
    ]
    assert outcome.status == "damaged: 1 files"
    assert (roomy.tree("new") / "without").read_bytes() == (tree / "without").read_bytes()
    assert os.listxattr(roomy.tree("new") / "without") == []


def test_large_attributes_are_spread_over_pages_of_bounded_size(bench: Bench) -> None:
    tree = bench.make("pod")
    for number in range(1600):
        path = tree / f"file{number}"
        path.touch()
        set_or_skip(path, "user.large", os.urandom(3500))
    bench.capture("pod", "snap_1")
    sizes = [path.stat().st_size for path in (bench.store_directory / "snap_1/pages").iterdir()]
    assert len(sizes) >= 2
    assert max(sizes) < 5 << 20
    bench.make("new")
    bench.restore("new", "snap_1")
    assert bench.differences("pod", "new") == []


def test_a_default_acl_above_the_tree_and_in_the_live_tree_does_not_leak(bench: Bench) -> None:
    """On what is made anew, whether file, directory or node, in every way it can be made."""
    pod, live = bench.make("pod"), bench.make("live")
    for name in ("kept", "kept/new-directory", "other"):
        (pod / name).mkdir()
    for name in ("kept/file", "kept/new-directory/file", "other/file"):
        (pod / name).write_bytes(name.encode())
    os.mkfifo(pod / "kept/fifo")
    os.mknod(pod / "kept/socket", 0o600 | stat.S_IFSOCK)
    (pod / "kept/link").symlink_to("file")
    os.link(pod / "kept/file", pod / "other/hard")
    (live / "kept").mkdir()
    (live / "other").symlink_to("kept")
    for path in (bench.root("live"), live, live / "kept"):
        set_or_skip(path, "system.posix_acl_default", trees.acl())
    bench.capture("pod", "snap_1")
    outcome = bench.restore("live", "snap_1")
    assert bench.differences("pod", "live") == []
    assert outcome.warnings == []


@needs_root
@pytest.mark.parametrize("flag", [NODUMP, NOATIME], ids=["nodump", "noatime"])
def test_flags_of_the_top_directory_do_not_leak_onto_what_is_restored(
    bench: Bench, flag: int
) -> None:
    """Files inherit them from the directory they are made in, also from that of the stage."""
    needs_flags(bench)
    pod = bench.make("pod")
    (pod / "file").write_bytes(b"made before the flag")
    (pod / "empty").touch()
    (pod / "big").write_bytes(os.urandom(5 << 20))
    (pod / "below").mkdir()
    (pod / "below/file").write_bytes(b"x")
    (pod / "with-attribute").write_bytes(b"x")
    os.setxattr(pod / "with-attribute", "user.k", b"v")
    trees.set_inode_flags(os.fsencode(pod), flag)
    bench.capture("pod", "snap_1")
    live = bench.make("live")
    trees.set_inode_flags(os.fsencode(live), flag)
    bench.restore("live", "snap_1")
    assert bench.differences("pod", "live") == []


@needs_root
@pytest.mark.parametrize("flag", [IMMUTABLE, APPEND], ids=["immutable", "append-only"])
def test_a_locked_top_directory_is_restored_onto_and_locked_again(bench: Bench, flag: int) -> None:
    needs_flags(bench)
    pod = bench.make("pod")
    (pod / "file").write_bytes(b"one")
    trees.set_inode_flags(os.fsencode(pod), flag)
    bench.capture("pod", "snap_1")
    live = bench.make("live")
    bench.restore("live", "snap_1")
    assert bench.differences("pod", "live") == []
    trees.set_inode_flags(os.fsencode(live), 0)
    (live / "file").write_bytes(b"changed")
    (live / "extra").write_bytes(b"x")
    trees.set_inode_flags(os.fsencode(live), flag)
    outcome = bench.restore("live", "snap_1")
    assert outcome.warnings == []
    assert bench.differences("pod", "live") == []
    bench.restore("live", "snap_1")  # with nothing to do
    assert bench.differences("pod", "live") == []


@needs_root
def test_flags_are_set_and_cleared_over_a_tree_with_others(bench: Bench) -> None:
    needs_flags(bench)
    values = (0, NODUMP, IMMUTABLE, APPEND, NODUMP | NOATIME)
    for machine, order in (("pod", 0), ("live", 1)):
        tree = bench.make(machine)
        for pair in [(a, b) for a in values for b in values]:
            for path in (tree / f"file{pair}", tree / f"directory{pair}"):
                path.mkdir() if path.name.startswith("d") else path.write_bytes(b"x")
                os.utime(path, ns=(1, 1))
                trees.set_inode_flags(os.fsencode(path), pair[order])
    bench.capture("pod", "snap_1")
    outcome = bench.restore("live", "snap_1")
    assert outcome.warnings == []
    assert bench.differences("pod", "live") == []


@needs_root
def test_case_s4_what_a_machine_cannot_unlock_is_reported_and_the_rest_is_restored(
    bench: Bench,
) -> None:
    needs_flags(bench)
    pod, live = bench.make("pod"), bench.make("live")
    (pod / "locked/deeper").mkdir(parents=True)
    for name in ("locked/file", "locked/deeper/file", "locked-file", "after"):
        (pod / name).write_bytes(b"new")
    (pod / "locked/symlink").symlink_to("file")
    os.mkfifo(pod / "locked/fifo")
    os.link(pod / "after", pod / "locked/hard")
    (live / "locked").mkdir()
    (live / "locked/extra").write_bytes(b"old")
    (live / "locked-file").write_bytes(b"old")
    for name in ("locked/extra", "locked", "locked-file"):
        trees.set_inode_flags(os.fsencode(live / name), IMMUTABLE)
    bench.capture("pod", "snap_1")

    def restore() -> str:
        give_up_capability(CAP_LINUX_IMMUTABLE)
        return "\n".join(bench.restore("live", "snap_1").warnings)

    warnings = in_child(restore)
    for kind, name in (
        ("not_replaced", "locked-file"),
        ("not_replaced", "locked/file"),
        ("not_replaced", "locked/symlink"),
        ("not_replaced", "locked/fifo"),
        ("not_replaced", "locked/hard"),
        ("not_replaced", "locked/deeper"),
        ("not_deleted", "locked/extra"),
    ):
        assert f"{kind}: {name}: EPERM" in warnings
    assert (live / "after").read_bytes() == b"new"
    assert (live / "locked-file").read_bytes() == b"old"


TIMES = [-(2**31), -86400 * 10**9 + 5, -1, 0, 1, 1700000000123456789, 4102444800 * 10**9 + 1]


def test_times_before_1970_after_2100_and_to_the_nanosecond_come_back(bench: Bench) -> None:
    tree = bench.make("pod")
    for number, ns in enumerate([-(2**31) * 10**9, *TIMES]):
        for kind in ("file", "directory", "symlink", "fifo"):
            path = tree / f"{kind}{number}"
            {
                "file": path.touch,
                "directory": path.mkdir,
                "symlink": lambda path=path: path.symlink_to("nowhere"),
                "fifo": lambda path=path: os.mkfifo(path),
            }[kind]()
            os.utime(path, ns=(5, ns), follow_symlinks=False)
            if path.lstat().st_mtime_ns != ns:
                pytest.skip("this filesystem does not have such times")
    round_trip(bench)


def test_every_mode_of_files_and_directories_comes_back(bench: Bench) -> None:
    tree = bench.make("pod")
    for mode in (0o0, 0o111, 0o444, 0o600, 0o777, 0o1777, 0o2755, 0o4755, 0o6711, 0o7777):
        (tree / f"file{mode:o}").write_bytes(b"x")
        (tree / f"file{mode:o}").chmod(mode)
        if trees.IS_ROOT or mode & 0o500 == 0o500:
            (tree / f"directory{mode:o}").mkdir()
            (tree / f"directory{mode:o}/inside").touch()
            (tree / f"directory{mode:o}").chmod(mode)
    if not trees.IS_ROOT:
        for mode in (0o0, 0o111):
            (tree / f"file{mode:o}").unlink()
    round_trip(bench)


@needs_root
def test_owners_without_an_account_come_back(bench: Bench) -> None:
    tree = bench.make("pod")
    for number, owner in enumerate((1, 65534, 65535, 100_000, 2**31, 2**32 - 2)):
        (tree / f"file{number}").touch()
        (tree / f"link{number}").symlink_to("nowhere")
        for kind in ("file", "link"):
            os.chown(tree / f"{kind}{number}", owner, owner, follow_symlinks=False)
    round_trip(bench)


@needs_root
@pytest.mark.parametrize(
    ("owner", "mode", "is_believed"),
    [(1000, 0o4755, False), (0, 0o4775, False), (0, 0o4757, False), (0, 0o4755, True)],
)
def test_a_wish_that_someone_else_can_have_written_makes_no_setuid_program_of_roots(
    bench: Bench, owner: int, mode: int, is_believed: bool
) -> None:
    path = bench.make("pod") / "shell"
    path.write_bytes(b"#!")
    os.chown(path, owner, owner)
    path.chmod(mode)
    set_or_skip(path, "user.podferry.owner", b"0:7")
    set_or_skip(path, "user.podferry.xattr.trusted.note", b"forged")
    bench.capture("pod", "snap_1")
    bench.make("new")
    bench.restore("new", "snap_1")
    restored = bench.base / "new" / path.relative_to(bench.base / "pod")
    status = restored.stat()
    assert (status.st_uid, status.st_gid) == ((0, 7) if is_believed else (owner, owner))
    assert ("trusted.note" in os.listxattr(restored)) == is_believed
