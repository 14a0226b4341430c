"""The use cases of the bill."""

from functools import cached_property

from podferry.bootstrap.foundation import Foundation
from podferry.services.billing.bills import ReadBills
from podferry.services.billing.credits import GiveCredit
from podferry.services.billing.meter import RunMeters


class Bill(Foundation):
    """What machines cost, and what is read of it."""

    @cached_property
    def run_meters(self) -> RunMeters:
        return RunMeters(self.records, self.ports.signals)

    @cached_property
    def give_credit(self) -> GiveCredit:
        return GiveCredit(self.records)

    @cached_property
    def read_bills(self) -> ReadBills:
        return ReadBills(self.records)
