"""The figures of a heartbeat."""

import time
from dataclasses import dataclass
from pathlib import Path

from podferry_agent import system
from podferry_agent.gpus import GpuSampler


@dataclass(slots=True)
class Metrics:
    """Remembers the previous reading, because CPU use is a difference of two."""

    root: Path
    gpus: GpuSampler
    _cpu_seconds: float | None = None
    _read_at: float = 0.0
    _cpu_percent: float | None = None

    def read(self) -> dict[str, object]:
        total, free = system.disk(self.root)
        received, sent = system.known(system.network_bytes) or (None, None)
        return {
            "cpu_percent": self._read_cpu(),
            "memory_used_bytes": system.known(system.memory_used),
            "memory_total_bytes": system.known(system.memory_total),
            "disk_used_bytes": None if total is None or free is None else total - free,
            "disk_total_bytes": total,
            "net_rx_bytes": received,
            "net_tx_bytes": sent,
            "gpus": self.gpus.figures(),
        }

    def _read_cpu(self) -> float | None:
        """Percent of all cores, over at least half a second: less would be mostly noise."""
        now, used = time.monotonic(), system.known(system.cpu_seconds)
        elapsed = now - self._read_at
        if self._cpu_seconds is not None and elapsed < 0.5:
            return self._cpu_percent
        if used is not None and self._cpu_seconds is not None:
            share = (used - self._cpu_seconds) / (elapsed * system.cpu_count())
            self._cpu_percent = round(min(100.0, max(0.0, share * 100)), 1)
        self._cpu_seconds, self._read_at = used, now
        return self._cpu_percent
