"""Runs one command and says what it cost: wall time, processor time, memory, stored bytes."""

import os
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """Of one whole process with all its children, start included."""

    tool: str
    tree: str
    step: str
    round: int
    wall: float
    cpu: float
    rss: int
    stored: int
    status: int
    error: str = ""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def run(
    command: str, environment: dict[str, str], limit: float, *, ahead: bool = False
) -> dict[str, float | int | str]:
    """`rss` is the peak of the largest process. `ahead`: before all else on the machine."""
    began = time.monotonic()
    priority = ["chrt", "--fifo", "5"] if ahead else []
    process = subprocess.Popen(
        [*priority, "timeout", str(limit), "sh", "-c", command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    with process.stderr as stream:
        text = stream.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "wall": round(time.monotonic() - began, 3),
        "cpu": round(usage.ru_utime + usage.ru_stime, 3),
        "rss": usage.ru_maxrss * 1024,
        "status": process.returncode,
        "error": text[-200:].decode(errors="replace") if process.returncode else "",
    }


def touch_room(directory: Path, size: int) -> None:
    """Write as much as will be restored, and delete it.

    A virtual machine gets memory from its host at the first touch, which is slow, and the kernel
    may have to give up other pages first: else the first tool would do that for all others.
    """
    path = directory / "room"
    block = b"\1" * (8 << 20)
    with path.open("wb", buffering=0) as file:
        for _ in range(0, size, len(block)):
            file.write(block)
    path.unlink()


def tree_bytes(directory: Path) -> int:
    return sum(
        os.lstat(os.path.join(path, name)).st_size  # noqa: PTH118 (many files)
        for path, _, names in os.walk(directory)
        for name in names
    )
