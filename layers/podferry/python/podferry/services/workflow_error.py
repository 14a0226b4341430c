"""An error as a workflow's `Catch` hands it to the next step."""

import json
from dataclasses import dataclass
from typing import Any

from podferry.domain import errors
from podferry.domain.errors import PodferryError

_FOREIGN_CODES = {
    "States.HeartbeatTimeout": ("agent_silent", "the machine's agent fell silent"),
    "States.Timeout": ("timeout", "the step did not end within its time limit"),
}


@dataclass(frozen=True, slots=True)
class WorkflowError:
    """`name` is an error class of ours or a `States.` name; `cause` is a sentence."""

    name: str
    cause: str

    @property
    def code(self) -> str:
        """The stable code of the error."""
        if self.name in _FOREIGN_CODES:
            return _FOREIGN_CODES[self.name][0]
        found = getattr(errors, self.name, None)
        if isinstance(found, type) and issubclass(found, PodferryError):
            return found.code
        return errors.InternalError.code

    def as_problem(self) -> dict[str, Any]:
        """The form in which an operation keeps it."""
        return {"code": self.code, "detail": self.cause, "error": self.name}


def from_catch(raw: dict[str, Any] | None) -> WorkflowError:
    """Read the `{"Error", "Cause"}` of a `Catch`; a failed function's cause is itself JSON."""
    if raw is None:
        return WorkflowError("InternalError", "the workflow gave no error")
    name = str(raw.get("Error", "InternalError"))
    cause = str(raw.get("Cause", ""))
    try:
        parsed = json.loads(cause)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict) and "errorMessage" in parsed:
        cause = str(parsed["errorMessage"])
    if not cause and name in _FOREIGN_CODES:
        cause = _FOREIGN_CODES[name][1]
    return WorkflowError(name, cause or "no further detail")
