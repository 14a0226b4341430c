"""Many runs on one stack, each with an account of its own, and what is kept of a bad one."""

import json
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from podferry.domain.event import Event
from tests.chaos.driver import Driver
from tests.chaos.oracle import violations
from tests.chaos.plan import STEPS, Plan, Switches, make_plan
from tests.chaos.world.rows import Rows, table_of
from tests.chaos.world.stack import ChaosStack
from tests.e2e.deployment import Deployment


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run went."""

    seed: int
    seconds: float
    actions: str
    log: tuple[str, ...]
    violations: tuple[str, ...]
    kept: Path | None
    """Where the plan and the logs of a bad one are."""

    @property
    def is_good(self) -> bool:
        return not self.violations


class Campaign:
    """A stack for chaos. After a run that broke something the next gets a new one."""

    def __init__(self, data: Path, failures: Path, report: Callable[[str], None]) -> None:
        self._data = data
        self._failures = failures
        self._report = report
        self._stacks = 0
        self._stack: ChaosStack | None = None

    def plan(self, seed: int, steps: int = STEPS) -> Plan:
        return make_plan(seed, self.switches, steps)

    @cached_property
    def switches(self) -> Switches:
        """What each simulator can be told to do wrong, as it says itself."""
        deployment = Deployment(self._started())
        return {
            provider: deployment.control(provider, "GET", "/switches")["switches"]
            for provider in deployment.info.control_urls
        }

    def run(self, plan: Plan) -> Outcome:
        """Carry it out and judge it."""
        stack = self._started()
        marks = {path: path.stat().st_size for path in self._logs(stack)}
        began = time.monotonic()
        deployment = Deployment(stack)
        driver = Driver(deployment, stack, plan)
        rows = Rows(table_of(stack), driver.account.id)
        found = _carried_out(deployment, driver, rows)
        actions = Counter(step.action for step in plan.steps)
        told = " ".join(f"{name}*{count}" for name, count in sorted(actions.items()))
        kept = self._keep(plan, driver, rows, found, marks) if found else None
        if found:
            self.stop()
        seconds = time.monotonic() - began
        return Outcome(plan.seed, seconds, told, tuple(driver.log), tuple(found), kept)

    def stop(self) -> None:
        if self._stack is not None:
            self._stack.stop()
            self._stack = None

    def _started(self) -> ChaosStack:
        if self._stack is None:
            self._stacks += 1
            self._stack = ChaosStack(self._data / f"stack-{self._stacks}", self._report)
            self._stack.start()
        return self._stack

    def _logs(self, stack: ChaosStack) -> list[Path]:
        return sorted((stack.data / "logs").glob("*.log"))

    def _keep(
        self, plan: Plan, driver: Driver, rows: Rows, found: list[str], marks: dict[Path, int]
    ) -> Path:
        """Everything that is needed to understand a bad run, and to run it again."""
        directory = self._failures / f"seed-{plan.seed}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "plan.json").write_text(json.dumps(plan.as_json(), indent=2))
        (directory / "run.log").write_text("\n".join((*driver.log, "", *found)) + "\n")
        kept = [rows.pods, rows.operations, rows.machines, rows.ledger, rows.ghosts]
        kept += [rows.owned(Event, pod.id) for pod in rows.pods]
        kept += [rows.saves(pod) for pod in rows.pods]
        written = [{type(row).__name__: asdict(row)} for some in kept for row in some]
        watched = [asdict(pod) for pod in driver.account.pods]
        shown = {"rows": written, "watched": watched}
        (directory / "rows.json").write_text(json.dumps(shown, indent=1, default=str))
        for path, begin in marks.items():
            (directory / path.name).write_bytes(path.read_bytes()[begin:])
        for path in self._stack_boxes():
            (directory / f"box-{path.parent.name}.log").write_bytes(path.read_bytes())
        return directory

    def _stack_boxes(self) -> list[Path]:
        """What boxes that still stand have printed."""
        return [] if self._stack is None else sorted(self._stack.data.glob("*/boxes/*/log"))


def _carried_out(deployment: Deployment, driver: Driver, rows: Rows) -> list[str]:
    """What is wrong afterwards; a run that cannot be finished is wrong, too."""
    try:
        driver.run()
        driver.settle()
        driver.look()
        driver.leave()
        return violations(deployment, rows, driver)
    except Exception as error:  # noqa: BLE001 - whatever it is, the next seed comes
        return [f"{type(error).__name__}: {error}", traceback.format_exc()]
    finally:
        driver.account.close()
