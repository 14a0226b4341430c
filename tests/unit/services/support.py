"""A memory store with its surroundings."""

from dataclasses import dataclass, field

from podferry.adapters.memory.store import MemoryStore
from podferry.adapters.memory.surroundings import FixedOperatorKey, ManualClock, SeededRandomness
from podferry.services.accounts import Accounts
from podferry.services.identify import Identify
from podferry.services.keys import Keys
from podferry.services.ssh_keys import SshKeys


@dataclass
class World:
    """Everything that the services about accounts need."""

    store: MemoryStore = field(default_factory=MemoryStore)
    clock: ManualClock = field(default_factory=ManualClock)
    randomness: SeededRandomness = field(default_factory=SeededRandomness)

    @property
    def accounts(self) -> Accounts:
        return Accounts(self.store, self.clock, self.randomness)

    @property
    def keys(self) -> Keys:
        return Keys(self.store, self.clock, self.randomness)

    @property
    def ssh_keys(self) -> SshKeys:
        return SshKeys(self.store, self.clock)

    @property
    def identify(self) -> Identify:
        return Identify(self.store, FixedOperatorKey("pf_admin_test"), self.clock)
