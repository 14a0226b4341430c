"""A burst of function calls waits for a free slot.

A small machine runs few functions at once (`--concurrency`). MiniStack answers 429 as soon as its
account limit is reached; AWS's limit is a thousand and would not be. A function's own reserved
concurrency still throttles at once, as on AWS.
"""

import time
from typing import Any

from ministack.services import lambda_svc

from local.aws.shims import guard

PATIENCE_SECONDS = 20
POLL_SECONDS = 0.01


def apply() -> None:
    """Makes the account limit a queue."""
    original = guard.take(lambda_svc, "_acquire_execution_slot")

    def acquire(function: Any, config: Any) -> tuple[Any, Any]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            slot, reason = original(function, config)
            if slot is not None or reason != "account" or time.monotonic() > deadline:
                return slot, reason
            time.sleep(POLL_SECONDS)

    guard.replace(lambda_svc, "_acquire_execution_slot", acquire)
