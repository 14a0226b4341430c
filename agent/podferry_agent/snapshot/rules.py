"""Decides for each path whether it belongs to the pod, to the machine, or is left out.

The same rules hold for capture and restore: machine-owned paths are never captured, never written
and never deleted; left-out paths are not captured and not deleted.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from podferry_agent.snapshot import machine_paths
from podferry_agent.snapshot.errors import InvalidRuleError
from podferry_agent.snapshot.globs import literal_prefix, pattern_to_regex
from podferry_agent.snapshot.model import TreeSpec, display
from podferry_agent.snapshot.mounts import mount_points_below, swap_files

_ACTIONS = ("exclude", "include", "machine")


class Verdict(Enum):
    KEEP = "keep"
    BARE = "bare"  # a directory that is made if missing; its metadata and contents are not ours
    EXCLUDE = "exclude"
    MACHINE = "machine"


@dataclass(frozen=True)
class Explanation:
    verdict: Verdict
    rule: str
    reason: str


@dataclass(frozen=True)
class UserRule:
    action: str
    pattern: str
    regex: re.Pattern[bytes]

    @property
    def verdict(self) -> Verdict:
        return Verdict.KEEP if self.action == "include" else Verdict(self.action)

    @property
    def text(self) -> str:
        return f"{self.action} {self.pattern}"


def parse_rule(text: str) -> UserRule:
    """Reads `exclude /var/cache/**`; raises `InvalidRuleError` that says what is wrong."""
    action, _, pattern = text.strip().partition(" ")
    pattern = pattern.strip()
    if action not in _ACTIONS or not pattern:
        raise InvalidRuleError(
            f"the rule {text!r} cannot be read; write one of {', '.join(_ACTIONS)}, a space, "
            "and a path, such as: exclude /var/cache/**"
        )
    return UserRule(action, pattern, re.compile(pattern_to_regex(pattern), re.DOTALL))


class Rules:
    """The rules of one tree. Paths are those of the pod: absolute, as a program in it sees them."""

    def __init__(
        self,
        user_rules: Sequence[str] = (),
        *,
        with_defaults: bool = True,
        mounts: Iterable[bytes] = (),
        fixed: Iterable[tuple[str, str]] = (),
        extra_defaults: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.user = [parse_rule(text) for text in user_rules]
        self.mounts = frozenset(mounts)
        self.bare = frozenset(machine_paths.BARE_DIRECTORIES if with_defaults else ()) | self.mounts
        own = machine_paths.FIXED if with_defaults else machine_paths.FIXED[-1:]
        self._fixed = [*own, *fixed]
        table = [*machine_paths.default_table(), *extra_defaults] if with_defaults else []
        self._machine = table
        self._not_kept = list(machine_paths.NOT_KEPT) if with_defaults else []
        self._with_drivers = with_defaults
        self._fixed_regex = _union([p for p, _ in self._fixed])
        self._machine_regex = _union([p for p, _ in self._machine])
        self._not_kept_regex = _union([p for p, _ in self._not_kept])
        prefixes = (literal_prefix(r.pattern) for r in self.user if r.action == "include")
        self._include_prefixes = [p for p in prefixes if p is not None]

    def fingerprint(self) -> bytes:
        """Equal for rules that judge every path alike."""
        facts = [
            [rule.text for rule in self.user],
            sorted(map(display, self.mounts)),
            sorted(map(display, self.bare)),
            self._fixed,
            self._machine,
            self._not_kept,
            machine_paths.DRIVER_FILE.pattern.decode() if self._with_drivers else "",
        ]
        return hashlib.sha256(json.dumps(facts).encode()).digest()

    def judge(self, path: bytes, *, directory: bool) -> Verdict:
        """The verdict for a path itself; what is in a directory is judged by its own path."""
        if self.mounts and self._on_mount(path):
            return Verdict.BARE if directory and path in self.mounts else Verdict.MACHINE
        if directory and path in self.bare:
            return Verdict.BARE
        subject = path + b"/" if directory else path
        if self._fixed_regex.match(subject):
            return Verdict.MACHINE
        verdict = self._by_user(subject) if self.user else None
        return verdict or self._by_default(path, subject)

    def opens(self, path: bytes) -> bool:
        """Whether a user's `include` may reach into a directory that is otherwise closed."""
        if self._on_mount(path) or self._fixed_regex.match(path + b"/."):
            return False
        return any(
            p == path or _inside(p, path) or _inside(path, p) for p in self._include_prefixes
        )

    def explain(self, path: bytes, *, directory: bool = False) -> Explanation:
        """The verdict with the rule that made it, for people."""
        verdict = self.judge(path, directory=directory)
        rule, reason = self._deciding(path, path + b"/" if directory else path)
        return Explanation(verdict, rule, reason)

    def protects_below(self, path: bytes) -> list[bytes]:
        """Mount points in a directory: it can be neither removed nor replaced."""
        return sorted(m for m in self.mounts if _inside(m, path))

    def _on_mount(self, path: bytes) -> bool:
        if path in self.mounts:
            return True
        parent = path.rpartition(b"/")[0]
        while parent:
            if parent in self.mounts:
                return True
            parent = parent.rpartition(b"/")[0]
        return False

    def _by_user(self, subject: bytes) -> Verdict | None:
        for rule in reversed(self.user):
            if rule.regex.match(subject):
                return rule.verdict
        return None

    def _by_default(self, path: bytes, subject: bytes) -> Verdict:
        if self._machine_regex.match(subject) or self._is_driver(path):
            return Verdict.MACHINE
        return Verdict.EXCLUDE if self._not_kept_regex.match(subject) else Verdict.KEEP

    def _is_driver(self, path: bytes) -> bool:
        return self._with_drivers and machine_paths.DRIVER_FILE.match(path) is not None

    def _deciding(self, path: bytes, subject: bytes) -> tuple[str, str]:
        if self._on_mount(path):
            return "mount point", "mounted on this machine"
        if path in self.bare and subject.endswith(b"/"):
            return display(path), "made if missing, otherwise left to the machine"
        if found := _first(self._fixed, subject):
            return found
        for rule in reversed(self.user):
            if rule.regex.match(subject):
                return rule.text, "your rule"
        if self._is_driver(path):
            return "GPU driver names", machine_paths.DRIVER_REASON
        default = ("default", "belongs to the pod")
        return _first([*self._machine, *self._not_kept], subject) or default


def rules_for(spec: TreeSpec, captured: Sequence[str] | None = None) -> Rules:
    """The rules of a spec on this machine, with its mounts, swap files and users' homes.

    A restore passes the rules of the capture: what they left out can neither be missing from the
    snapshot nor be deleted. The pod's present `machine` rules hold besides.
    """
    user_rules = spec.user_rules
    if captured is not None:
        present = (parse_rule(text) for text in spec.user_rules)
        user_rules = (*captured, *(rule.text for rule in present if rule.action == "machine"))
    mounts = {spec.pod_prefix + path for path in mount_points_below(spec.tree_root)}
    if spec.kind == "volume":
        return Rules(user_rules, with_defaults=False, mounts=mounts)
    volume = _literal(spec.volume_path)
    rules = Rules(
        user_rules,
        mounts=mounts - {spec.volume_path},
        fixed=[
            (f"{volume}/**", "the volume has its own snapshots"),
            (volume, "where this machine keeps the volume"),  # a link to some disk, maybe
        ],
        extra_defaults=[*_swap_rules(spec.root), *_home_rules(spec.root)],
    )
    rules.bare |= {spec.volume_path}
    return rules


def _swap_rules(root: bytes) -> list[tuple[str, str]]:
    if root != b"/":
        return []
    return [(_literal(path), "used as swap") for path in sorted(swap_files())]


def _home_rules(root: bytes) -> list[tuple[str, str]]:
    """authorized_keys of users whose home is neither /root nor in /home."""
    try:
        fd = os.open(root.rstrip(b"/") + b"/etc/passwd", os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return []
    with os.fdopen(fd, "rb") as file:
        lines = file.read(1 << 20).splitlines()
    homes = {f[5].rstrip(b"/") for line in lines if len(f := line.split(b":")) > 5}
    return [
        (f"{_literal(home)}/.ssh/authorized_keys*", "who may log in here")
        for home in sorted(homes)
        if home.startswith(b"/")
    ]


def _literal(path: bytes) -> str:
    return re.sub(r"([*?\[\\])", r"\\\1", os.fsdecode(path))


def _union(patterns: Sequence[str]) -> re.Pattern[bytes]:
    if not patterns:
        return re.compile(rb"(?!)")
    return re.compile(b"(?:" + b"|".join(map(pattern_to_regex, patterns)) + b")", re.DOTALL)


def _first(rows: Sequence[tuple[str, str]], subject: bytes) -> tuple[str, str] | None:
    for pattern, reason in rows:
        if re.match(pattern_to_regex(pattern), subject, re.DOTALL):
            return pattern, reason
    return None


def _inside(path: bytes, directory: bytes) -> bool:
    return path.startswith(directory + b"/")
