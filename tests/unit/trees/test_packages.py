"""Which packages were added, removed and replaced between two snapshots."""

from pathlib import Path

from podferry.domain.packages import DPKG_STATUS
from podferry.services.trees.look import MOST_PAGES_FOR_PACKAGES
from tests.unit.trees.shelf import Shelf
from tests.unit.trees.test_changes import many

A_PARAGRAPH = """\
Package: {name}
Status: install ok {state}
Priority: optional
Architecture: {arch}
Version: {version}
Description: what it is
 and Version: 9 is not its version

"""


def dpkg(tree: Path, *packages: tuple[str, str, str, str]) -> None:
    path = tree / DPKG_STATUS.decode()
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ("name", "version", "arch", "state")
    path.write_text(
        "".join(A_PARAGRAPH.format(**dict(zip(names, p, strict=True))) for p in packages)
    )


def pip(tree: Path, where: str, name: str, version: str) -> Path:
    info = tree / where / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    return info


def changes(shelf: Shelf, old: str, new: str) -> list[tuple[str, str, str | None, str | None]]:
    reply = shelf.user.get(f"/v1/snapshots/{new}/package-changes", query={"since": old})
    assert reply.status == 200, reply.text
    return [
        (f"{row['manager']} {row['where']}", row["name"], row["before"], row["after"])
        for row in reply.json["data"]
    ]


def test_packages_of_dpkg_and_pip_are_compared(shelf: Shelf) -> None:
    tree = shelf.tree
    dpkg(
        tree,
        ("gone", "1", "amd64", "installed"),
        ("libc6", "2.36-9", "amd64", "installed"),
        ("same", "3", "all", "installed"),
    )
    pip(tree, "venv/lib/python3.11/site-packages", "torch", "2.8.0")
    old_numpy = pip(tree, "venv/lib/python3.11/site-packages", "numpy", "1.26")
    old = shelf.capture()
    dpkg(
        tree,
        ("libc6", "2.36-10", "amd64", "installed"),
        ("libc6", "2.36-10", "i386", "installed"),
        ("same", "3", "all", "installed"),
        ("half", "1", "all", "config-files"),
    )
    for path in (old_numpy / "METADATA", old_numpy):
        path.unlink() if path.is_file() else path.rmdir()
    pip(tree, "venv/lib/python3.11/site-packages", "numpy", "2.1")
    pip(tree, "other/dist-packages", "My_Package.Name", "1.0+cu124")
    new = shelf.capture()
    site = "pip /venv/lib/python3.11/site-packages"
    assert changes(shelf, old, new) == [
        ("dpkg /", "gone:amd64", "1", None),
        ("dpkg /", "libc6:amd64", "2.36-9", "2.36-10"),
        ("dpkg /", "libc6:i386", None, "2.36-10"),
        ("pip /other/dist-packages", "my-package-name", None, "1.0+cu124"),
        (site, "numpy", "1.26", "2.1"),
    ]
    assert changes(shelf, new, new) == []


def test_a_directory_that_pip_left_without_metadata_is_no_package(shelf: Shelf) -> None:
    shelf.tree.mkdir(exist_ok=True)
    old = shelf.capture()
    (shelf.tree / "site-packages/leftover-1.0.dist-info").mkdir(parents=True)
    assert changes(shelf, old, shelf.capture()) == []


def test_states_that_are_too_far_from_each_other_are_refused(shelf: Shelf) -> None:
    old = shelf.made_of(many(1000), page_bits=2)
    new = shelf.made_of(many(1000), page_bits=2, salt="other")
    reply = shelf.user.get(f"/v1/snapshots/{new}/package-changes", query={"since": old})
    assert (reply.status, reply.code) == (400, "invalid_request")
    assert str(MOST_PAGES_FOR_PACKAGES) in reply.json["detail"]
