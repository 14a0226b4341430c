"""One rented instance as a simulated provider remembers it, over restarts of the simulator too."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from local.boxes.door import Door
from local.boxes.spec import GPU


class Phase(StrEnum):
    """Where an instance is in its life. Each provider has its own words for these.

    provisioning -> pulling -> running -> exited | stopped | offline; failed; gone is final.
    """

    PROVISIONING = "provisioning"
    PULLING = "pulling"
    RUNNING = "running"
    EXITED = "exited"
    """The container ended by itself."""
    STOPPED = "stopped"
    """The provider or the customer stopped it; the disk stays."""
    OFFLINE = "offline"
    """The provider lost the host."""
    FAILED = "failed"
    GONE = "gone"

    @property
    def holds_stock(self) -> bool:
        return self not in (Phase.FAILED, Phase.GONE)


@dataclass(slots=True)
class Instance:
    """Everything about one instance. Changed only under the fleet's lock."""

    id: str
    name: str
    offer: str
    """Name of the catalog entry it was rented from."""
    image: str
    argv: list[str]
    environment: dict[str, str]
    ports: list[str]
    """As "22/tcp"."""
    gpu: GPU
    micros_per_hour: int
    """The price in the contract."""
    details: dict[str, Any] = field(default_factory=dict)
    """What only the provider's own code understands."""
    files: dict[str, str] = field(default_factory=dict)
    phase: Phase = Phase.PROVISIONING
    history: list[tuple[float, Phase]] = field(default_factory=list)
    external_ports: dict[str, int] = field(default_factory=dict)
    ssh_inside: int = 0
    """Where port 22 is in truth, on the network that its box shares with all others."""
    message: str = ""
    start_failed: bool = False
    user_data: str | None = None
    """Makes it a virtual machine, which runs this first; `argv` then says nothing."""
    runs_user_data_at_each_boot: bool = False
    is_real: bool = False
    """Nothing virtual: bare metal. To us it is a box like any other."""
    door: Door | None = None
    """Of a machine that comes up bare, and is logged in to."""

    @property
    def kind(self) -> str:
        """As an offer calls it."""
        if self.user_data is None:
            return "container"
        return "baremetal" if self.is_real else "vm"

    @property
    def created_at(self) -> float:
        return self.history[0][0]

    @property
    def changed_at(self) -> float:
        return self.history[-1][0]

    def entered_at(self, phase: Phase) -> float | None:
        """The first moment in a phase."""
        return next((time for time, entered in self.history if entered is phase), None)

    def seconds_in(self, *phases: Phase, now: float) -> float:
        ends = [time for time, _ in self.history[1:]] + [max(now, self.changed_at)]
        spans = zip(self.history, ends, strict=True)
        return sum(end - start for (start, phase), end in spans if phase in phases)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Instance:
        known = dict(values)
        known["gpu"] = GPU(**known["gpu"])
        known["door"] = Door(**known["door"]) if known.get("door") else None
        known["phase"] = Phase(known["phase"])
        known["history"] = [(time, Phase(phase)) for time, phase in known["history"]]
        return cls(**known)
