"""What a machine is shown to cost."""

from dataclasses import replace
from datetime import timedelta

import pytest

from podferry.domain.machine import Pulse
from podferry.domain.offer import BillingRule
from podferry.http.models.machine import MachineView
from podferry.services.giving_up import machine_cost
from tests.contract.entities import NOW, a_machine

HOUR = timedelta(hours=1)
BY_SECONDS = replace(
    a_machine().offer,
    billing=BillingRule(increment_seconds=1),
    price_microusd_per_hour=3_600_000,
)


@pytest.mark.parametrize("told_after", [None, 0.5])
def test_a_machine_costs_from_its_providers_word_or_from_its_registration(
    told_after: float | None,
) -> None:
    started = None if told_after is None else NOW + told_after * HOUR
    machine = a_machine(offer=BY_SECONDS, registered_at=NOW, billing_started_at=started)
    hours = 2 - (told_after or 0)
    shown = MachineView.of(machine, None, NOW + 2 * HOUR)
    assert shown is not None
    assert shown.cost_so_far_microusd == hours * 3_600_000
    assert machine_cost(replace(machine, released_at=NOW + 2 * HOUR)) == hours * 3_600_000


@pytest.mark.parametrize("seconds", [-5, 5])
def test_a_machine_is_never_shown_as_heard_before_it_was_ready(seconds: int) -> None:
    at = NOW + timedelta(seconds=seconds)
    pulse = Pulse(
        id="mach_1", account_id="a", created_at=at, heard_at=at, boot_id="b", busy_until=at
    )
    shown = MachineView.of(a_machine(ready_at=NOW), pulse, NOW + HOUR)
    assert shown is not None
    assert shown.heard_at == max(NOW, at)


def test_a_machine_that_nobody_has_seen_yet_costs_nothing_yet() -> None:
    shown = MachineView.of(a_machine(offer=BY_SECONDS), None, NOW + HOUR)
    assert shown is not None
    assert shown.cost_so_far_microusd == 0
