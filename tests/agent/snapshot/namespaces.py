"""Scripts that mount things, each in a mount namespace of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOT_ALLOWED = "unshare failed"


def run_apart(script: str, base: Path, *, lacking: tuple[str, ...] = (NOT_ALLOWED,)) -> str:
    """What the script printed; it must succeed.

    `lacking` are the words of `unshare` and `mount` with which the test is skipped: this machine
    does not have, or does not allow, what it needs.
    """
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", script, str(base)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    refusal = next((words for words in lacking if words in done.stderr), None)
    if refusal is not None:
        pytest.skip(f"mounts in a namespace are not allowed here: {refusal}")
    assert done.returncode == 0, done.stderr
    return done.stdout
