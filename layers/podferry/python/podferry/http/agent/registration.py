"""An agent's first message and the answer to it."""

from typing import Annotated

from pydantic import Field

from podferry.http.agent.fields import AgentInput, Count, Sha256, Text, Texts
from podferry.http.models.fields import Flag, Integer, Output
from podferry.services.agent.register import RegisterRequest, Registration


class GpuFacts(AgentInput):
    """One GPU of the box."""

    name: Text | None = None
    memory_mib: Count | None = None
    driver_version: Text | None = None
    uuid: Text | None = None


class Facts(AgentInput):
    """What the agent found out about its box; `null` is what the box does not tell."""

    kernel: Text | None = None
    arch: Text | None = None
    distro_id: Text | None = None
    distro_version: Text | None = None
    libc: Text | None = None
    hostname: Text | None = None
    cpu_count: Count | None = None
    memory_bytes: Count | None = None
    disk_total_bytes: Count | None = None
    disk_free_bytes: Count | None = None
    gpus: Annotated[tuple[GpuFacts, ...], Field(max_length=64)] | None = None
    cuda_version: Text | None = None
    is_pid1: Flag | None = None
    is_root: Flag | None = None
    can_chown: Flag | None = None
    can_mknod: Flag | None = None
    mount_points: Texts | None = None


class RegisterBody(AgentInput):
    """The agent's own token comes as its digest only."""

    machine_id: Annotated[str, Field(min_length=1, max_length=64)]
    token_sha256: Sha256
    agent_version: Text
    facts: Facts

    def to_request(self) -> RegisterRequest:
        return RegisterRequest(
            machine_id=self.machine_id,
            token_sha256=self.token_sha256,
            agent_version=self.agent_version,
            facts=self.facts.model_dump(mode="json"),
        )


class RegisterReply(Output):
    """What the agent needs to know."""

    machine_id: str
    pod_id: str
    epoch: Integer
    heartbeat_seconds: float

    @classmethod
    def of(cls, registration: Registration) -> "RegisterReply":
        return cls(**{name: getattr(registration, name) for name in cls.model_fields})
