"""What both measurements on a stack do with its pods."""

import time
from typing import Any

from tests.e2e.deployment import User

PROVIDER = "fluence"
MOST_RECOVERIES = 3  # that a pod gets within an hour
LONGEST_SECONDS = 600.0
LOOK_SECONDS = 0.3
_ON_THE_WAY = frozenset({"running", "unreachable", "recovering"})


def reclaim(user: User, provider_id: str) -> float:
    """The provider takes a machine at once and warns nobody; the time at which it did."""
    killed_at = time.time()
    path = f"/instances/{provider_id}/reclaim"
    user.deployment.control(PROVIDER, "POST", path, json={"notice": "none"})
    return killed_at


def is_elsewhere(view: dict[str, Any], old_machine: str) -> bool:
    """Whether a pod runs again, on another machine.

    Raises:
        SystemExit: it went somewhere else than back to `running`.
    """
    if view["state"] not in _ON_THE_WAY:
        raise SystemExit(f"pod {view['id']} is {view['state']}: {view['last_error']}")
    machine = view["machine"]
    return view["state"] == "running" and machine is not None and machine["id"] != old_machine


def until_elsewhere(user: User, pod: dict[str, Any], old_machine: str) -> dict[str, Any]:
    deadline = time.monotonic() + LONGEST_SECONDS
    while not is_elsewhere(view := user.pod(pod), old_machine):
        if time.monotonic() > deadline:
            raise SystemExit(f"pod {pod['id']} is not back after {LONGEST_SECONDS:.0f} s")
        time.sleep(LOOK_SECONDS)
    return view


def say(line: str) -> None:
    print(line, flush=True)
