"""Podferry in one process and in virtual time: real workflow files, real services, real wire shapes.

Only the outermost things are stand-ins: a provider (`FakeCloud`), a machine with its agent
(`Box`), and the store and objects of `adapters/memory`. A pod's data are two dicts, path to text.
"""

import contextlib
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from asl import Engine, StateError
from box import Box
from crashing_store import Crash, CrashingStore
from engine_workflows import EngineWorkflows
from fake_cloud import FakeCloud, FakeClouds
from fake_installer import FakeInstaller

from podferry.adapters.memory.key_vault import MemoryKeyVault
from podferry.adapters.memory.objects import MemoryBundle, MemoryObjects
from podferry.adapters.memory.registries import MemoryRegistries
from podferry.adapters.memory.store import MemoryStore
from podferry.adapters.memory.surroundings import (
    FixedOperatorKey,
    ManualClock,
    MemorySchedules,
    MemorySignals,
    SeededRandomness,
)
from podferry.bootstrap import Application
from podferry.domain.entity import Entity
from podferry.domain.errors import PodferryError
from podferry.domain.machine import Machine
from podferry.domain.offer import Requirements
from podferry.domain.operation import Cause, Operation
from podferry.domain.pod import Pod, RunSpec
from podferry.domain.snapshot import Snapshot, SnapshotKind
from podferry.domain.volume import Volume
from podferry.services.pods import NewPod
from podferry.steps import STEPS, dispatch

MOST_TURNS = 20_000


class World:
    """Everything together. It is its own set of ports for the `Application`."""

    deployment_id = "0a0b0c0d"
    api_url = "https://podferry.test"
    aws_account = "123456789012"
    boot_script = "exec agent"
    cloud_class = FakeCloud

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._epoch = self.clock.now()
        self.memory = MemoryStore()
        self.store = CrashingStore(self.memory)
        self.objects = MemoryObjects(self.clock)
        self.bundle = MemoryBundle()
        self.engine = Engine(lambda: self.seconds, self._invoke)
        self.workflows = EngineWorkflows(self.engine)
        self.clouds = FakeClouds(self)
        self.key_vault = MemoryKeyVault()
        self.secret_vault = MemoryKeyVault()
        self.installer = FakeInstaller(self)
        self.registries = MemoryRegistries()
        self.schedules = MemorySchedules()
        self.signals = MemorySignals()
        self.operator_key = FixedOperatorKey()
        self.randomness = SeededRandomness()
        self.app = Application(self)
        self.crashes = 0
        self.next_facts: Callable[[], dict[str, Any]] = dict
        """What the next agent to register says of its machine."""
        self.is_silent = False
        """Nobody answers the agents."""
        self.repeats = False
        """Every step runs twice: its first answer is lost on the way."""
        self.before_step: Callable[[str, str], None] = lambda *_: None
        self.after_step: Callable[[str, str], None] = lambda *_: None
        """Called with the step's name and the operation's id."""
        self.after_capture: Callable[[SnapshotKind, str, str], None] = lambda *_: None
        self.account, self.key, self.token = self.app.accounts.create("test")

    @property
    def seconds(self) -> float:
        return (self.clock.now() - self._epoch).total_seconds()

    def _invoke(self, function: str, payload: dict[str, Any]) -> dict[str, Any]:
        named = {
            "StepsPodsArn": "steps_pods",
            "StepsMachinesArn": "steps_machines",
            "StepsSnapshotsArn": "steps_snapshots",
            "StepsSharingArn": "steps_sharing",
        }[function]
        assert payload["step"] in STEPS[named]
        self.before_step(payload["step"], payload["operation_id"])
        if self.repeats:
            self.step_again(**payload)
        try:
            return self._answer(named, payload)
        finally:
            self.after_step(payload["step"], payload["operation_id"])

    def step_again(self, step: str, operation_id: str, **payload: Any) -> None:
        """Run a step whose answer nobody waits for."""
        named = next(name for name, steps in STEPS.items() if step in steps)
        lost = {"task_token": "nobody", "error": {"Error": "States.Timeout", "Cause": ""}}
        with contextlib.suppress(PodferryError):
            dispatch(
                self.app, named, {**lost, **payload, "step": step, "operation_id": operation_id}
            )

    def _answer(self, named: str, payload: dict[str, Any]) -> dict[str, Any]:
        try:
            return json.loads(json.dumps(dispatch(self.app, named, payload)))
        except PodferryError as error:
            cause = json.dumps({"errorMessage": str(error), "errorType": type(error).__name__})
            raise StateError(type(error).__name__, cause) from error
        except Crash:
            self.crashes += 1
            raise StateError("Lambda.Unknown", "the function died") from None

    # Time

    def run(self, seconds: float = 3600.0, until: Callable[[], bool] = lambda: False) -> None:
        """Let everything happen until `until` holds or nothing happens any more."""
        end = self.seconds + seconds
        turns = 0
        while self.seconds < end and not until():
            turns += 1
            assert turns < MOST_TURNS, "executions spin without waiting"
            if self.engine.step():
                continue
            self._beat_due_boxes()
            if self.engine.step():
                continue
            if not self._has_work():
                return
            self.clock.advance(timedelta(seconds=min(1.0, max(0.05, end - self.seconds))))

    def idle(self, seconds: int) -> None:
        """Time goes by for the machines; no operation is at work."""
        for _ in range(seconds):
            self._beat_due_boxes()
            self.clock.advance(timedelta(seconds=1))

    def live(self, minutes: float, *, is_scheduled: bool = True) -> None:
        """Time goes by with all that happens in the background."""
        end = self.seconds + minutes * 60
        minute = self.seconds + 60
        while self.seconds < end:
            self._beat_due_boxes()
            if self.seconds >= minute:
                minute += 60
                if is_scheduled and self.schedules.is_enabled:
                    self.autosave()
            turns = [turn for box in self.boxes() for turn in (box.next_beat, box.next_question)]
            later = [turn for turn in (*turns, minute, end) if turn > self.seconds]
            self.clock.advance(timedelta(seconds=max(0.1, min(later) - self.seconds)))

    def watch(self, minutes: float, until: Callable[[], bool] = lambda: False) -> None:
        """Time goes by with all that happens: workflows, agents and the schedule."""
        end, minute = self.seconds + minutes * 60, self.seconds + 60
        while self.seconds < end and not until():
            while self.engine.step():
                continue
            self._beat_due_boxes()
            while self.engine.step():
                continue
            if self.seconds >= minute:
                minute += 60
                self.round()
            self.clock.advance(timedelta(seconds=1))

    def round(self) -> None:
        """What the schedule does once a minute, if it is on."""
        if self.schedules.is_enabled:
            self.reconcile()
            self.autosave()
            self.sweep()

    def sweep(self) -> dict[str, int]:
        try:
            return self.app.sweep.run()
        except Crash:
            self.crashes += 1
            return {}

    def autosave(self) -> None:
        try:
            self.app.autosave.run()
        except Crash:
            self.crashes += 1

    def _has_work(self) -> bool:
        return any(e.status == "RUNNING" for e in self.engine.executions.values())

    def _beat_due_boxes(self) -> None:
        for box in [] if self.is_silent else self.boxes():
            if not box.is_dead and box.next_beat <= self.seconds:
                box.beat()
            if not box.is_dead:
                box.ask_for_save()

    def settle(self, rounds: int = 8) -> None:
        """Run, with the reconciler once a minute, until no operation is left."""
        for _ in range(rounds):
            self.run()
            if not list(self.store.list_active(Operation)):
                return
            self.clock.advance(timedelta(seconds=60))
            if self.schedules.is_enabled:
                self.reconcile()

    def meter(self) -> None:
        try:
            self.app.run_meters.run()
        except Crash:
            self.crashes += 1

    def reconcile(self) -> dict[str, int]:
        """The reconciler goes to rest only after the meter."""
        self.meter()
        try:
            return self.app.reconcile.run()
        except Crash:
            self.crashes += 1
            return {"restarted": 0}

    # What tests ask and do

    def boxes(self) -> list[Box]:
        return [box for cloud in self.clouds.every() for box in cloud.standing()]

    @property
    def box(self) -> Box:
        (box,) = self.boxes()
        return box

    @property
    def alpha(self) -> FakeCloud:
        return self.clouds.get("alpha")

    @property
    def beta(self) -> FakeCloud:
        return self.clouds.get("beta")

    def row(self, kind: type[Entity], entity_id: str | None) -> Any:
        return self.store.get(kind, entity_id or "")

    def launch(self, **spec: Any) -> Pod:
        """A new pod that runs."""
        pod = self.create(**spec)
        self.run()
        return self.pod(pod)

    def create(self, requirements: Requirements | None = None, **spec: Any) -> Pod:
        pod, _ = self.app.create_pod.create(
            self.account.id,
            NewPod(
                name="pod",
                spec=RunSpec(image="debian:12", **spec),
                requirements=requirements or Requirements(gpu_count=1),
            ),
        )
        return pod

    def pods(self) -> list[Pod]:
        return list(self.store.list_owned(Pod, self.account.id).items)

    def pod(self, pod: Pod) -> Pod:
        return self.store.get(Pod, pod.id)  # type: ignore[no-any-return]

    def operation(self, operation: Operation) -> Operation:
        return self.store.get(Operation, operation.id)  # type: ignore[no-any-return]

    def stop(self, pod: Pod, *, accept_loss: bool = False) -> Operation:
        operation = self.app.stop_pod.ask(
            self.account.id, pod.id, accept_loss=accept_loss, cause=Cause.USER
        )
        self.run()
        return self.operation(operation)

    def start(self, pod: Pod, **wanted: Any) -> Operation:
        requirements = Requirements(gpu_count=1, **wanted) if wanted else None
        operation = self.app.start_pod.ask(self.account.id, pod.id, requirements, Cause.USER)
        self.run()
        return self.operation(operation)

    def move(self, pod: Pod, **wanted: Any) -> Operation:
        requirements = Requirements(gpu_count=1, **wanted)
        operation = self.app.move_pod.ask(self.account.id, pod.id, requirements, Cause.USER)
        self.run()
        return self.operation(operation)

    def visited(self, operation: Operation) -> list[str]:
        return self.engine.executions[operation.id].visited

    def machine(self, pod: Pod) -> Machine:
        return self.store.get(Machine, self.pod(pod).machine_id or "")  # type: ignore[no-any-return]

    def volume(self, pod: Pod) -> Volume:
        return self.store.get(Volume, pod.volume_id)  # type: ignore[no-any-return]

    def snapshot(self, snapshot_id: str | None) -> Snapshot:
        return self.store.get(Snapshot, snapshot_id or "")  # type: ignore[no-any-return]

    def events(self, pod: Pod) -> list[str]:
        page = self.app.browse.events(self.account.id, pod.id, limit=100, cursor=None)
        return [event.type for event in reversed(page.items)]
