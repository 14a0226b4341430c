"""An agent's first words, with the one-time token that its machine was booted with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.errors import AlreadyRegisteredError, ForbiddenError
from podferry.domain.machine import Machine, MachineState
from podferry.domain.pod import Pod
from podferry.domain.principal import Principal, PrincipalKind
from podferry.ports.store import Change, Update
from podferry.ports.surroundings import Signals
from podferry.services.agent.membership import current_machine
from podferry.services.boot_keys import spent
from podferry.services.records import Records

BUSY_HEARTBEAT_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterRequest:
    """`token_sha256` is of the machine token that the agent made for itself."""

    machine_id: str
    token_sha256: str
    agent_version: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What the agent needs to know from then on."""

    machine_id: str
    pod_id: str
    epoch: int
    heartbeat_seconds: float


@dataclass(frozen=True, slots=True)
class RegisterAgent:
    """Bind the agent's own token to its machine and epoch; the boot token is spent by it.

    The agent makes the machine token and sends only its digest: a lost reply can be asked for
    again, and the token never passes through us.
    """

    records: Records
    signals: Signals

    def register(self, principal: Principal, request: RegisterRequest) -> Registration:
        """Register; the same digest again gets the same answer.

        Raises:
            ForbiddenError: not a boot token, or another machine's.
            AlreadyRegisteredError: another process registered this machine.
            EpochStaleError: the machine is no longer wanted.
        """
        if principal.kind != PrincipalKind.BOOT or principal.machine_id != request.machine_id:
            raise ForbiddenError("registration needs the boot token of this very machine")
        self._watch(request.machine_id)
        self.records.apply(lambda: self._plan(principal, request))
        machine = self.records.store.get(Machine, request.machine_id)
        return Registration(
            machine_id=machine.id,
            pod_id=machine.pod_id,
            epoch=machine.epoch,
            heartbeat_seconds=BUSY_HEARTBEAT_SECONDS,
        )

    def _watch(self, machine_id: str) -> None:
        """A listing that settles later than its provider says hides a machine that costs money."""
        if self.records.store.get(Machine, machine_id).state == MachineState.RELEASED:
            self.signals.count("ReleasedMachineAlive")

    def _plan(self, principal: Principal, request: RegisterRequest) -> Sequence[Change]:
        # Asked in each try: a machine that is given up meanwhile must not come back to life.
        machine = current_machine(self.records, principal)
        if machine.token_sha256 == request.token_sha256:
            return []
        if machine.token_sha256 is not None:
            raise AlreadyRegisteredError(
                f"machine {machine.id} is registered; its boot token is used up"
            )
        pod = self.records.store.get(Pod, machine.pod_id)
        registered = replace(
            machine,
            token_sha256=request.token_sha256,
            state=MachineState.BOOTING,
            registered_at=self.records.now(),
            facts={**request.facts, "agent_version": request.agent_version},
        )
        event = self.records.pod_event(pod, "machine.registered", None, machine_id=machine.id)
        return [Update(registered), *spent(self.records, machine), event]
