"""What an exec writes, chunk by chunk."""

from collections.abc import Sequence
from dataclasses import dataclass

from podferry.domain.command import Command, CommandKind, OutputChunk
from podferry.domain.errors import ConflictError, NotFoundError
from podferry.domain.principal import Principal
from podferry.ports.store import Create
from podferry.services.agent.membership import current_machine
from podferry.services.records import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """`data` is base64; `sequence` numbers are unique in a command."""

    sequence: int
    stream: str
    data: str


@dataclass(frozen=True, slots=True)
class AppendOutput:
    """Chunks may arrive twice; each is stored once."""

    records: Records

    def append(self, principal: Principal, command_id: str, chunks: Sequence[Chunk]) -> None:
        """Store the chunks.

        Raises:
            NotFoundError: no such exec on this machine.
            EpochStaleError: the machine is no longer its pod's.
        """
        machine = current_machine(self.records, principal)
        command = self.records.store.find(Command, command_id)
        if command is None or (command.machine_id, command.kind) != (machine.id, CommandKind.EXEC):
            raise NotFoundError(f"no exec {command_id} on machine {machine.id}")
        for chunk in chunks:
            self._store(command, chunk)

    def _store(self, command: Command, chunk: Chunk) -> None:
        row = OutputChunk(
            id=f"{command.id}_{chunk.sequence:08d}",
            account_id=command.account_id,
            created_at=self.records.now(),
            command_id=command.id,
            sequence=chunk.sequence,
            stream=chunk.stream,
            data=chunk.data,
            expires_at=command.expires_at,
        )
        try:
            self.records.store.commit(Create(row))
        except ConflictError:
            # It arrived before: the agent did not hear our answer and sent it again.
            return
