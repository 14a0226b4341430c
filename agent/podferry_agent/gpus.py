"""What nvidia-smi says about the GPUs; nothing is claimed where it is missing or fails."""

import logging
import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from podferry_agent.box import Box

_LOG = logging.getLogger(__name__)
_TIMEOUT_SECONDS = 15
_SAMPLE_SECONDS = 10.0
_STALE_SECONDS = 60.0
_CUDA_VERSION = re.compile(r"CUDA Version:\s*([0-9]+(?:\.[0-9]+)*)")


def run_nvidia_smi(box: Box, arguments: Sequence[str]) -> str | None:
    """Its output; None if there is no such program, it fails or it hangs."""
    program = box.which("nvidia-smi")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *arguments],
            env=box.environment({}),
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _LOG.warning("nvidia_smi_failed", extra={"reason": type(error).__name__})
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def query(box: Box, columns: Sequence[str]) -> list[list[str]] | None:
    output = run_nvidia_smi(
        box, [f"--query-gpu={','.join(columns)}", "--format=csv,noheader,nounits"]
    )
    if output is None:
        return None
    rows = [[cell.strip() for cell in line.split(",")] for line in output.splitlines() if line]
    return [row for row in rows if len(row) == len(columns)]


def gpu_facts(box: Box) -> list[dict[str, object]]:
    rows = query(box, ("name", "memory.total", "driver_version", "uuid")) or []
    return [
        {"name": name, "memory_mib": whole(memory), "driver_version": driver, "uuid": uuid}
        for name, memory, driver, uuid in rows
    ]


def cuda_version(box: Box) -> str | None:
    found = _CUDA_VERSION.search(run_nvidia_smi(box, []) or "")
    return found.group(1) if found else None


def whole(text: str) -> int | None:
    """A figure of nvidia-smi; it writes [N/A] for what a GPU does not tell."""
    try:
        return round(float(text))
    except ValueError:
        return None


@dataclass(slots=True)
class GpuSampler:
    """Keeps the newest figures, read in a thread of its own because nvidia-smi can hang."""

    box: Box
    may_fork: Callable[[], bool]
    _figures: list[dict[str, object]] | None = None
    _sampled_at: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        threading.Thread(target=self._work, name="gpu-sampler", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def figures(self) -> list[dict[str, object]] | None:
        """None when they are unknown or too old to be believed."""
        is_fresh = time.monotonic() - self._sampled_at < _STALE_SECONDS
        return self._figures if is_fresh else None

    def _work(self) -> None:
        while not self._stop.is_set():
            if self.may_fork():
                self._figures, self._sampled_at = self._sample(), time.monotonic()
            self._stop.wait(_SAMPLE_SECONDS)

    def _sample(self) -> list[dict[str, object]] | None:
        if self.box.which("nvidia-smi") is None:
            return []
        rows = query(self.box, ("index", "utilization.gpu", "memory.used", "temperature.gpu"))
        if rows is None:
            return None
        return [
            {
                "index": whole(index),
                "utilization_percent": whole(utilization),
                "memory_used_mib": whole(memory),
                "temperature_c": whole(temperature),
            }
            for index, utilization, memory, temperature in rows
        ]
