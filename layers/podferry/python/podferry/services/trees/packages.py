"""Which packages two snapshots do not have in common."""

from collections.abc import Iterator

from podferry.domain.errors import InvalidRequestError
from podferry.domain.packages import (
    DPKG_STATUS,
    PackageChange,
    Place,
    dpkg_packages,
    package_changes,
    python_package,
)
from podferry.services.trees.contents import Contents
from podferry.services.trees.tree import SnapshotTree

LARGEST_STATUS = 32 * 1024 * 1024


def compare_packages(
    old: tuple[SnapshotTree, Contents], new: tuple[SnapshotTree, Contents], *, most_pages: int
) -> tuple[PackageChange, ...]:
    """Changes of dpkg's and Python's packages; pages that both have are not read.

    Raises:
        InvalidRequestError: more pages differ than may be read.
        SnapshotError: an object is missing or damaged.
    """
    shared = {page.sha256 for page in old[0].pages} & {page.sha256 for page in new[0].pages}
    todo = sum(1 for tree in (old[0], new[0]) for p in tree.pages if p.sha256 not in shared)
    if todo > most_pages:
        raise InvalidRequestError(
            f"{todo} pages of names differ between the two, and {most_pages} can be compared; "
            "compare states that are closer to each other"
        )
    sides = [_packages(tree, contents, shared) for tree, contents in (old, new)]
    return package_changes(*sides)


def _packages(tree: SnapshotTree, contents: Contents, shared: set[str]) -> dict[Place, str]:
    found = dict(_of_python(tree, shared))
    status = tree.find(DPKG_STATUS)
    if status is not None and status.kind == "file":
        if status.size > LARGEST_STATUS:
            raise InvalidRequestError(
                f"/var/lib/dpkg/status has {status.size} bytes, more than {LARGEST_STATUS}"
            )
        found |= dpkg_packages(contents.read(status, 0, status.size))
    return found


def _of_python(tree: SnapshotTree, shared: set[str]) -> Iterator[tuple[Place, str]]:
    for number, ref in enumerate(tree.pages):
        if ref.sha256 not in shared:
            for entry in tree.page(number).entries:
                package = python_package(entry.path)
                if package is not None:
                    yield package
