"""Branches of a Parallel state do not disturb each other.

MiniStack hands one context object to all branches: two that wait on task tokens at the same time
can read each other's token, and a retry uses whichever came last. It also waits for every branch to
end when one has failed; AWS stops the others at once and reports the first error.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

import contextvars
import logging
from typing import Any

from ministack.services import stepfunctions

from local.aws.shims import guard


class BranchStoppedError(Exception):
    """Ends a branch without its own Retry and Catch, which do not see a stop on AWS either."""


class Branches:
    """The branches of one run of a Parallel state."""

    def __init__(self) -> None:
        self.first_error: Exception | None = None


# The Parallel states around the current thread, outermost first.
_around: contextvars.ContextVar[tuple[Branches, ...]] = contextvars.ContextVar("around", default=())
# Set from the start of a Parallel state until its branches have picked it up.
_entering: contextvars.ContextVar[Branches | None] = contextvars.ContextVar(
    "entering", default=None
)


def apply() -> None:
    """Gives each branch its own context and lets the first failure stop the rest."""
    run_branches = guard.take(stepfunctions, "_run_parallel_branches")
    run_states = guard.take(stepfunctions, "_run_sub_machine")
    guard.take(stepfunctions, "_ExecutionError")

    def run_parallel(state: Any, raw_input: Any, execution: Any, context: Any) -> Any:
        branches = Branches()
        mark = _entering.set(branches)
        try:
            return run_branches(state, raw_input, execution, context)
        except stepfunctions._ExecutionError:
            if isinstance(branches.first_error, stepfunctions._ExecutionError):
                raise branches.first_error from None
            raise
        finally:
            _entering.reset(mark)

    def run_branch(
        states: Any, start: Any, data: Any, execution: Any, context: dict[str, Any]
    ) -> Any:
        # A Map inside a branch also comes here, but `_entering` is taken by then.
        branches = _entering.get()
        if branches is not None:
            _entering.set(None)
            _around.set((*_around.get(), branches))
        try:
            return run_states(states, start, data, execution, dict(context))
        except Exception as error:
            if branches is not None and branches.first_error is None:
                branches.first_error = error
            raise

    guard.replace(stepfunctions, "_run_parallel_branches", run_parallel)
    guard.replace(stepfunctions, "_run_sub_machine", run_branch)
    logging.getLogger("states").addFilter(_is_worth_logging)


def must_stop() -> bool:
    """Whether a sibling of a branch around the current thread has failed."""
    return any(branches.first_error is not None for branches in _around.get())


def _is_worth_logging(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], BranchStoppedError))
