"""Machines as they stand in the table."""

from datetime import UTC, datetime, timedelta

from podferry.domain.machine import Machine, MachineState
from tests.unit.http.clouds import an_offer

ASKED = datetime(2026, 11, 30, tzinfo=UTC)


def a_ready_machine(*, boot: int = 30, restore: int = 60) -> Machine:
    registered = ASKED + timedelta(seconds=boot)
    return Machine(
        id="mach_1",
        account_id="acct_1",
        created_at=ASKED,
        pod_id="pod_1",
        operation_id="op_1",
        offer=an_offer(),
        stamp="pf-1",
        epoch=1,
        state=MachineState.READY,
        boot_token_sha256="",
        requested_at=ASKED,
        registered_at=registered,
        ready_at=registered + timedelta(seconds=restore),
    )
