"""An agent whose own timer says that a save is due asks for it here (promise 8)."""

from dataclasses import dataclass

from podferry.domain.principal import Principal
from podferry.services.agent.membership import current_place
from podferry.services.records import Records
from podferry.services.saves.begin import BeginSave, Turn


@dataclass(frozen=True, slots=True)
class AskSave:
    """The agent's door to a save; the answer is the command that a heartbeat brings as well."""

    records: Records
    begin: BeginSave

    def ask(self, principal: Principal) -> Turn:
        """The save that is under way or begins; asking twice is one save.

        Raises:
            EpochStaleError: the machine must end itself.
        """
        _, pod = current_place(self.records, principal)
        return self.begin.run(pod.id)
