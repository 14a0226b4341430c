"""Turns the engine's progress into what is reported to the control plane."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

from podferry_agent.snapshot import Progress


@dataclass(frozen=True, slots=True)
class ProgressReporter:
    """Callable with an engine `Progress`; hands the wire form on."""

    report: Callable[[dict[str, object]], None]

    def __call__(self, progress: Progress) -> None:
        self.report(asdict(progress))
