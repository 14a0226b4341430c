"""The garbage collector: one round a day over all accounts, in as many runs as it takes."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.account import ACCOUNTS, Account
from podferry.domain.errors import ConflictError, PodferryError, SnapshotMissingError
from podferry.domain.lineage import Lineage
from podferry.domain.snapshot import SnapshotKind
from podferry.ports.surroundings import Signals
from podferry.services.garbage.bury import BuryDead
from podferry.services.garbage.forget import ForgetRows
from podferry.services.garbage.recharge import MoveCharges
from podferry.services.garbage.shift import Shift, begin, finish
from podferry.services.garbage.stock import Stock, take_stock
from podferry.services.garbage.sweep import SweepObjects
from podferry.services.garbage.thin import ThinOut
from podferry.services.records import Records

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CollectGarbage:
    """Thin out, bury what is dead, look again at what is left, sweep, move charges, forget.

    Every step stands on rows alone and may be cut off and repeated at any point.
    """

    records: Records
    thin: ThinOut
    bury: BuryDead
    sweep: SweepObjects
    charges: MoveCharges
    forget: ForgetRows
    signals: Signals

    def run(self, has_time: Callable[[], bool]) -> dict[str, Any]:
        """Work until the round is finished or the time is up; the next run goes on."""
        try:
            shift = begin(self.records, has_time)
        except ConflictError:
            return {"is_finished": False, "is_overtaken": True}
        before = shift.row
        is_finished = self._all_places(shift) and finish(shift)
        self.signals.count("GarbageObjectsFreed", shift.row.objects_freed - before.objects_freed)
        self.signals.count("GarbageBytesFreed", shift.row.bytes_freed - before.bytes_freed)
        return {
            "is_finished": is_finished,
            "is_overtaken": shift.is_overtaken,
            "round": shift.row.round,
            "snapshots": shift.row.snapshots_deleted,
            "objects": shift.row.objects_freed,
            "bytes": shift.row.bytes_freed,
        }

    def _all_places(self, shift: Shift) -> bool:
        for account in self.records.all_owned(Account, ACCOUNTS):
            for kind in sorted(SnapshotKind):
                place = f"{account.id}/{kind}"
                if shift.row.done is not None and place <= shift.row.done:
                    continue
                self._one_place(shift, account.id, kind)
                if not shift.may_go_on:
                    return False
                shift.commit_counted(replace(shift.row, done=place))
        return not shift.is_overtaken

    def _one_place(self, shift: Shift, account_id: str, kind: SnapshotKind) -> None:
        """One account that is in trouble does not keep others."""
        try:
            self.thin.run(shift, account_id, kind)
            self.bury.run(shift, self._stock(account_id, kind))
            if not shift.may_go_on:
                return
            # The second look: it decides what is deleted, and it sees what happened meanwhile.
            stock = self._stock(account_id, kind)
            lineage = Lineage(stock.snapshots)
            self.sweep.run(shift, stock, lineage)
            self.charges.run(shift, stock, lineage)
            self.forget.run(shift, stock, lineage)
        except PodferryError as error:
            self.signals.count("GarbageHalted")
            _LOG.warning(
                "garbage of an account is left",
                extra={"account": account_id, "kind": kind, "reason": error.detail},
            )

    def _stock(self, account_id: str, kind: SnapshotKind) -> Stock:
        """Raises: SnapshotMissingError: rows are lost or not listed yet; delete nothing."""
        stock = take_stock(self.records, account_id, kind)
        missing = sorted(Lineage(stock.snapshots).missing(stock.heads))
        if missing:
            raise SnapshotMissingError(
                f"{kind} snapshots of {account_id}: {len(missing)} have no row, such as "
                f"{missing[0]}; without them nobody knows what is needed"
            )
        return stock
