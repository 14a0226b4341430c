"""The boot script as it is given to providers: without what only people need."""

from pathlib import Path

from .errors import BundleError

# Vast.ai and RunPod take start commands of limited length, and the settings need room, too.
LONGEST = 1200


def render(template: Path) -> str:
    """Raises: BundleError if it is too long."""
    lines = [line.strip() for line in template.read_text(encoding="utf-8").splitlines()]
    text = "\n".join(line for line in lines if line and not line.startswith("#")) + "\n"
    if len(text) > LONGEST:
        raise BundleError(f"{template} has {len(text)} characters, {LONGEST} are the limit")
    return text
