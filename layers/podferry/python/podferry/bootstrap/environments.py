"""The use cases of what is kept: versions of environments, what is in them, sharing, drills."""

from functools import cached_property
from typing import TYPE_CHECKING

from podferry.bootstrap.foundation import Foundation
from podferry.services.environments.change import ChangeEnvironment
from podferry.services.environments.keep import KeepPod
from podferry.services.environments.roll_back import RollBack
from podferry.services.proof.ask import AskProof
from podferry.services.proof.prove import FailProof, ProveSnapshot
from podferry.services.sharing.ask import Shares
from podferry.services.sharing.fail import FailShare
from podferry.services.trees.look import LookIntoSnapshots

if TYPE_CHECKING:
    from podferry.services.sharing.run import RunShare


class Environments(Foundation):
    """Each built on first use."""

    @cached_property
    def keep_pod(self) -> KeepPod:
        return KeepPod(self.records, self.verify_snapshot)

    @cached_property
    def look(self) -> LookIntoSnapshots:
        return LookIntoSnapshots(self.records, self.ports.objects, self.verify_snapshot)

    @cached_property
    def roll_back(self) -> RollBack:
        return RollBack(self.records)

    @cached_property
    def change_environment(self) -> ChangeEnvironment:
        return ChangeEnvironment(self.records)

    @cached_property
    def shares(self) -> Shares:
        return Shares(self.records, self.operations)

    @cached_property
    def run_share(self) -> "RunShare":
        # Loads the engine and the scanner, which no other function needs or has the time for.
        from podferry.services.sharing.run import RunShare  # noqa: PLC0415

        return RunShare(self.records, self.operations, self.ports.objects, self.verify_snapshot)

    @cached_property
    def fail_share(self) -> FailShare:
        return FailShare(self.records, self.operations)

    # Restore drill

    @cached_property
    def ask_proof(self) -> AskProof:
        return AskProof(self.records, self.operations)

    @cached_property
    def prove_snapshot(self) -> ProveSnapshot:
        objects, verify = self.ports.objects, self.verify_snapshot
        return ProveSnapshot(self.records, self.operations, objects, verify)

    @cached_property
    def fail_proof(self) -> FailProof:
        return FailProof(self.records, self.operations, self.ports.signals)
