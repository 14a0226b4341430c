"""`python -m local forget` deletes what nobody uses, and nothing else."""

import subprocess
import sys
from pathlib import Path

from local.aws.data_dir import DataDir, lock
from local.processes import REPOSITORY


def forget(data: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "local", "forget", "--data", str(data)]
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60
    )


def a_state(data: Path) -> Path:
    kept = data / "aws/state"
    kept.mkdir(parents=True)
    (kept / "table").write_text("pods")
    return kept / "table"


def test_data_that_a_stack_holds_is_not_deleted_though_it_does_not_answer(tmp_path: Path) -> None:
    """It starts at this moment, or is too busy to answer."""
    kept = a_state(tmp_path)
    with lock(DataDir(tmp_path)):
        done = forget(tmp_path)
    assert done.returncode == 1
    assert "is in use by process" in done.stderr
    assert kept.read_text() == "pods"


def test_data_that_nobody_holds_is_deleted(tmp_path: Path) -> None:
    a_state(tmp_path / "data")
    done = forget(tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "data").exists()


def test_a_directory_without_state_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    done = forget(tmp_path)
    assert (done.returncode, (tmp_path / "letter").read_text()) == (1, "dear")
    assert "holds no state" in done.stderr
