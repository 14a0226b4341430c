"""Installed packages, as the files of package managers tell of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

DPKG_STATUS = b"var/lib/dpkg/status"
_DIST_INFO = re.compile(rb"(?:(.*)/)?([^/]+)-([^/-]+)\.dist-info/METADATA")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A package of one manager; Python has one place for each environment."""

    manager: str
    where: str
    name: str


@dataclass(frozen=True, slots=True)
class PackageChange:
    """`old` is `None` for a package that was added, `new` for one that was removed."""

    place: Place
    old: str | None
    new: str | None


def dpkg_packages(status: bytes) -> dict[Place, str]:
    """Versions of what is installed, from `/var/lib/dpkg/status`; of several architectures all."""
    found = {}
    for paragraph in status.decode("utf-8", "replace").split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in paragraph.splitlines()
            if ": " in line and not line.startswith((" ", "\t"))
        )
        if fields.get("Status", "").endswith(" installed") and "Package" in fields:
            name = f"{fields['Package']}:{fields.get('Architecture', 'all')}"
            found[Place("dpkg", "/", name)] = fields.get("Version", "")
    return found


def python_package(path: bytes) -> tuple[Place, str] | None:
    """The package that a file of this path stands for: `<name>-<version>.dist-info/METADATA`."""
    match = _DIST_INFO.fullmatch(path)
    if match is None:
        return None
    where, name, version = (part.decode("utf-8", "replace") for part in match.groups(b""))
    return Place("pip", f"/{where}", re.sub(r"[-_.]+", "-", name).lower()), version


def package_changes(
    old: Mapping[Place, str], new: Mapping[Place, str]
) -> tuple[PackageChange, ...]:
    """What is not the same on both sides, in order."""
    places = sorted(place for place in old.keys() | new.keys() if old.get(place) != new.get(place))
    return tuple(PackageChange(place, old.get(place), new.get(place)) for place in places)
