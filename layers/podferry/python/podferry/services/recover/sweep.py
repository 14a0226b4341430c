"""One round of looking for what nobody told us."""

from dataclasses import dataclass

from podferry.services.idle.stop import StopIdle
from podferry.services.recover.ghosts import SweepGhosts
from podferry.services.recover.leftovers import FollowLost
from podferry.services.recover.losses import FindLosses
from podferry.services.recover.notices import AnswerNotices


@dataclass(frozen=True, slots=True)
class Sweep:
    """Every minute while anything runs, and once a day in any case (promise 17)."""

    idle: StopIdle
    notices: AnswerNotices
    losses: FindLosses
    lost: FollowLost
    ghosts: SweepGhosts

    def run(self) -> dict[str, int]:
        """What was done, and what is left to do."""
        return {
            # First: it asks no provider, so none that is slow delays it.
            "idle_stopped": self.idle.run(),
            "moved_away": self.notices.run(),
            "lost": self.losses.run(),
            "left": self.lost.run(),
            "ghosts": self.ghosts.run(),
        }
