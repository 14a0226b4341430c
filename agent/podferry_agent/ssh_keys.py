"""Puts the account's SSH keys into root's authorized_keys, beside what the provider put there."""

from collections.abc import Sequence
from pathlib import Path

from podferry_agent.errors import CommandError
from podferry_agent.state import replace_file

_BEGIN = "# podferry: begin (this block is rewritten at every start)"
_END = "# podferry: end"


def write_authorized_keys(root: Path, keys: Sequence[str]) -> None:
    """Rewrite our block only; lines outside it are the provider's or the user's.

    Raises:
        CommandError: A key is not one line of text.
    """
    lines = [_checked(key) for key in keys]
    folder = root / "root" / ".ssh"
    path = folder / "authorized_keys"
    try:
        present = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        present = []
        if not lines:
            return
    content = [*_outside_block(present), *([_BEGIN, *lines, _END] if lines else [])]
    _make_private(folder)
    text = "".join(f"{line}\n" for line in content)
    replace_file(path, text.encode("utf-8", "surrogateescape"), mode=0o600)


def _checked(key: str) -> str:
    line = key.strip()
    if not line or "\n" in line or "\r" in line or line.startswith("#"):
        raise CommandError(
            "invalid_arguments", "each SSH key must be one line: type base64 comment"
        )
    return line


def _outside_block(lines: Sequence[str]) -> list[str]:
    kept, inside = [], False
    for line in lines:
        if line == _BEGIN:
            inside = True
        if not inside:
            kept.append(line)
        if line == _END:
            inside = False
    return kept


def _make_private(folder: Path) -> None:
    created = not folder.is_dir()
    folder.mkdir(parents=True, exist_ok=True)
    if created:
        # sshd ignores keys in a directory that others may write to.
        folder.chmod(0o700)
