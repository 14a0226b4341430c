"""Plans: what makes a failing seed one that can be run again."""

from local.providers.faults import KINDS
from tests.chaos.driver import Driver
from tests.chaos.plan import ACTIONS, Plan, make_plan

SWITCHES = {"one": sorted(KINDS), "other": sorted(KINDS)}


def test_a_plan_is_a_function_of_its_seed_and_survives_its_file() -> None:
    plan = make_plan(7, SWITCHES)
    assert make_plan(7, SWITCHES) == plan
    assert make_plan(8, SWITCHES) != plan
    assert Plan.of_json(plan.as_json()) == plan


def test_every_action_is_planned_and_every_plan_can_be_carried_out() -> None:
    planned = {s.action for seed in range(200) for s in make_plan(seed, SWITCHES).steps}
    assert planned == ACTIONS
    assert all(hasattr(Driver, f"_do_{action}") for action in ACTIONS)


def test_a_lie_is_told_with_a_value_that_its_switch_takes() -> None:
    steps = [s for seed in range(200) for s in make_plan(seed, SWITCHES).steps]
    lies = [step.arguments for step in steps if step.action == "lie"]
    assert {lie["switch"] for lie in lies} == set(KINDS)
    assert all(KINDS[lie["switch"]].accepts(lie["value"]) for lie in lies)
