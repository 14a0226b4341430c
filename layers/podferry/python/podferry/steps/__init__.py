"""The tasks of the workflows: each state of `infra/workflows/` has the step of its name here.

A step translates between a workflow's JSON and a use case, and holds no rule. `STEPS` says which
function serves which step; a function has the permissions that its steps need.
"""

from podferry.steps.registry import STEPS, dispatch

__all__ = ["STEPS", "dispatch"]
