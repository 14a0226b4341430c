"""Goes through the bytes of one file, piece by piece, and tells where they look like a secret."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from podferry.domain.share import MOST_HITS, Hit
from podferry.services.sharing.scan_rules import ASSIGNMENT_HINT, RULES, Rule, is_assignment

OVERLAP = 8 * 1024
"""What a piece shows of the one before it: a secret that is cut in two is seen whole."""
_AROUND = 512
_AFTER_KEY = 4096
_LONGEST_LINE = 4096
_PACKAGES = re.compile(
    r"^/(?:usr|lib|lib64|bin|sbin|boot)/|/(?:site-packages|dist-packages|node_modules|conda/pkgs)/"
    r"|^/opt/(?:conda|miniconda3?|nvidia|intel)/|^/var/lib/(?:dpkg|apt)/|/\.cache/pip/"
    r"|/lib/python\d|/share/(?:jupyter|doc)/"
)


def is_installed(path: str) -> bool:
    """Whether the path belongs to installed packages, where assignments are code and samples.

    Tokens, keys and URLs are looked for there as everywhere.
    """
    return _PACKAGES.search(path) is not None


@dataclass(slots=True)
class FileScan:
    """One file. Feed its bytes in their order, then read `hits`."""

    path: str
    member: str | None = None
    hits: list[Hit] = field(default_factory=list)
    _seen: set[tuple[int, str]] = field(default_factory=set)
    _tail: bytes = b""
    _lines_before: int = 0
    _is_binary: bool | None = None

    def feed(self, piece: bytes) -> None:
        """The next bytes; the end of them is looked at again with the next piece."""
        if self._is_binary is None:
            self._is_binary = b"\0" in piece[:8192]
        data = self._tail + piece
        for rule in RULES:
            self._look(rule, data)
        if not self._is_binary and not is_installed(self.path):
            self._look_for_assignments(data)
        cut = max(0, len(data) - OVERLAP)
        self._lines_before += data.count(b"\n", 0, cut)
        self._tail = data[cut:]

    def _look(self, rule: Rule, data: bytes) -> None:
        for at in _places(rule.literals, data):
            if len(self.hits) >= MOST_HITS:
                return
            if rule.matches(_around(data, at, rule)):
                self._note(data, at, rule.name, rule.kind)

    def _look_for_assignments(self, data: bytes) -> None:
        end = -1
        for hint in ASSIGNMENT_HINT.finditer(data):
            if hint.start() < end or len(self.hits) >= MOST_HITS:
                continue
            start, end = _line(data, hint.start(), _LONGEST_LINE)
            if is_assignment(data[start:end].decode("utf-8", "replace")):
                self._note(data, hint.start(), "assignment", "assignment")

    def _note(self, data: bytes, at: int, rule: str, kind: str) -> None:
        line = 0 if self._is_binary else self._lines_before + data.count(b"\n", 0, at) + 1
        if (line, rule) not in self._seen:
            self._seen.add((line, rule))
            self.hits.append(Hit(line=line, rule=rule, kind=kind, member=self.member))


def scan_bytes(path: str, pieces: Iterable[bytes], member: str | None = None) -> list[Hit]:
    """All at once, for what is in memory."""
    scan = FileScan(path, member)
    for piece in pieces:
        scan.feed(piece)
    return scan.hits


def _places(literals: tuple[bytes, ...], data: bytes) -> Iterator[int]:
    for literal in literals:
        at = data.find(literal)
        while at >= 0:
            yield at
            at = data.find(literal, at + len(literal))


def _around(data: bytes, at: int, rule: Rule) -> str:
    if rule.kind == "key":
        return data[max(0, at - _AROUND) : at + _AFTER_KEY].decode("latin-1")
    start, end = _line(data, at, _AROUND)
    if rule.name == "netrc-password":
        end = min(len(data), at + _AROUND)  # its words may stand on lines of their own
    return data[start:end].decode("latin-1")


def _line(data: bytes, at: int, most: int) -> tuple[int, int]:
    """The line around a place, cut to `most` bytes on either side."""
    start = data.rfind(b"\n", max(0, at - most), at) + 1 or max(0, at - most)
    end = data.find(b"\n", at, at + most)
    return start, end if end >= 0 else min(len(data), at + most)
