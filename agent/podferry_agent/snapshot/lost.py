"""What a best-effort restore has to do without: damaged files, and pages that are not readable."""

import stat
from bisect import bisect_right
from dataclasses import dataclass, field

from podferry_agent.snapshot.errors import DamageError
from podferry_agent.snapshot.manifest import ManifestReader, Root
from podferry_agent.snapshot.model import BARE, Damaged, Entry, display, is_below, sort_key
from podferry_agent.snapshot.plan import Action, Plan


@dataclass
class Lost:
    """Collected in one restore. Of names in `gaps` nothing is known, so none is deleted."""

    files: dict[bytes, str] = field(default_factory=dict)  # path -> name of the damaged object
    pages: list[Damaged] = field(default_factory=list)
    gaps: list[tuple[bytes, bytes | None]] = field(default_factory=list)  # sort keys between

    def add_files(self, plan: Plan, found: dict[bytes, str]) -> None:
        """Leave alone what could not be staged, with all names of the same inode."""
        for path, entry in plan.want.items():
            name = found.get(plan.leader_of(entry))
            if name is not None and plan.actions[path] is Action.MAKE:
                plan.actions[path] = Action.LEAVE
                self.files[path] = name

    def hides(self, path: bytes) -> bool:
        """Whether a path may be in the snapshot though no entry says so."""
        if is_below(path, self.files.keys()):
            return True
        key = sort_key(path)
        place = bisect_right(self.gaps, key, key=lambda gap: gap[0])
        if not place:
            return False
        before = self.gaps[place - 1][1]
        return before is None or key < before

    def damaged(self) -> list[Damaged]:
        """For the outcome: whole pages, then files by name."""
        return [*self.pages, *(Damaged(display(p), name) for p, name in sorted(self.files.items()))]


def read_what_is_whole(reader: ManifestReader, root: Root, lost: Lost) -> list[Entry]:
    """The entries of all pages that can be read; the others are noted in `lost`."""
    entries: list[Entry] = []
    is_gap = False
    for number, page in enumerate(root.pages):
        try:
            found = reader.page(number)
        except DamageError as error:
            where = error.files[0] if error.files else display(page.first.encode())
            lost.pages.append(Damaged(where, error.object_name, page.files))
            if not is_gap:
                lost.gaps.append((sort_key(entries[-1].path) if entries else b"", None))
            is_gap = True
            continue
        if is_gap and found:
            lost.gaps[-1] = (lost.gaps[-1][0], sort_key(found[0].path))
        is_gap = is_gap and not found
        entries += found
    return _with_directories(entries) if lost.pages else entries


def _with_directories(entries: list[Entry]) -> list[Entry]:
    """Directories whose own entry is lost are made if they are missing, and else left alone."""
    known = {entry.path for entry in entries}
    missing: set[bytes] = set()
    for entry in entries:
        path = entry.path
        while path:
            path = path.rpartition(b"/")[0]
            if path in known or path in missing:
                break
            missing.add(path)
    found = [Entry(path, stat.S_IFDIR | 0o755, bits=BARE) for path in missing]
    return sorted([*entries, *found], key=lambda entry: sort_key(entry.path))
