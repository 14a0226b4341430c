"""When the driver of chaos believes that all troubles are over."""

from typing import Any

import pytest

from tests.chaos.driver import are_at_rest

RUNNING = {"state": "running", "operation": None, "machine": {"provider_id": "i-1"}}
STOPPED = {"state": "stopped", "operation": None, "machine": None}


def box(**changes: Any) -> dict[str, Any]:
    return {"id": "i-1", "box_is_alive": True, "is_leaving": False, **changes}


def test_a_running_pod_in_a_box_that_stays_is_at_rest() -> None:
    assert are_at_rest([RUNNING, STOPPED], [box()])


@pytest.mark.parametrize(
    ("view", "standing"),
    [
        (RUNNING, []),
        (RUNNING, [box(id="i-2")]),
        (RUNNING, [box(box_is_alive=False)]),
        (RUNNING, [box(is_leaving=True)]),
        ({**RUNNING, "operation": {"id": "op_1"}}, [box()]),
        ({**STOPPED, "state": "stopping"}, []),
    ],
)
def test_what_is_at_work_or_about_to_lose_its_box_is_not(
    view: dict[str, Any], standing: list[dict[str, Any]]
) -> None:
    assert not are_at_rest([STOPPED, view], standing)
