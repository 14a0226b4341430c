"""Scheduled rules fire on time.

MiniStack looks at them every ten seconds, so a rule of one minute fires every 60 to 70 seconds.
"""

from ministack.services import eventbridge

from local.aws.shims import guard

TICK_SECONDS = 1


def apply() -> None:
    """Looks every second."""
    guard.replace(eventbridge, "_SCHEDULER_TICK_INTERVAL", TICK_SECONDS)
