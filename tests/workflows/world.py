"""Podferry in one process and in virtual time: real workflow files, real services, real wire shapes.

Only the outermost things are stand-ins: a provider (`FakeCloud`), a machine with its agent
(`Box`), and the store and objects of `adapters/memory`. A pod's data are two dicts, path to text.
"""

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from asl import Engine, StateError

from podferry.adapters.memory.objects import MemoryBundle, MemoryObjects
from podferry.adapters.memory.store import MemoryStore
from podferry.adapters.memory.surroundings import (
    FixedOperatorKey,
    ManualClock,
    MemorySchedules,
    MemorySignals,
    SeededRandomness,
)
from podferry.bootstrap import Application
from podferry.domain.command import Command, CommandKind, CommandState
from podferry.domain.entity import Entity
from podferry.domain.errors import (
    ConflictError,
    EpochStaleError,
    OutcomeUnknownError,
    PodferryError,
    ProviderBusyError,
    ProviderRefusedError,
)
from podferry.domain.machine import Machine
from podferry.domain.offer import BillingRule, Kind, Market, Offer, Requirements
from podferry.domain.operation import Cause, Operation
from podferry.domain.pod import Pod, RunSpec
from podferry.domain.snapshot import Snapshot, SnapshotKind, StoredObject
from podferry.domain.volume import Volume
from podferry.ports.gpu_cloud import CloudTraits, LaunchRequest, MachineView, ViewState
from podferry.ports.store import Change, Store
from podferry.ports.workflows import ExecutionStatus, Workflow
from podferry.services.agent.heartbeat import Beat, CommandReport
from podferry.services.agent.objects import WantedObject
from podferry.services.agent.register import RegisterRequest
from podferry.services.pods import NewPod
from podferry.steps import STEPS, dispatch

Tree = dict[str, str]
MOST_TURNS = 20_000


class Crash(BaseException):
    """The process that runs the code dies at this line."""


class CrashingStore:
    """Dies before or after its n-th commit, or refuses each one a few times first."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.commits = 0
        self.crash_at: int | None = None
        self.crash_after_writing = False
        self.conflicts = 0
        """How often each commit is refused before it is taken."""
        self._refused = 0
        self.before_commit: Callable[[], None] = lambda: None
        """Called when a process has read its rows and is about to write."""

    def find(self, kind: type[Any], entity_id: str) -> Any:
        return self._inner.find(kind, entity_id)

    def get(self, kind: type[Any], entity_id: str) -> Any:
        return self._inner.get(kind, entity_id)

    def commit(self, *changes: Change) -> None:
        self.before_commit()
        if self._refused < self.conflicts:
            self._refused += 1
            raise ConflictError("somebody else was faster")
        self._refused = 0
        self.commits += 1
        is_last = self.commits == self.crash_at
        if is_last and not self.crash_after_writing:
            raise Crash
        self._inner.commit(*changes)
        if is_last:
            raise Crash

    def list_owned(self, kind: type[Any], owner: str, **options: Any) -> Any:
        return self._inner.list_owned(kind, owner, **options)

    def list_active(self, kind: type[Any]) -> Any:
        return self._inner.list_active(kind)


class EngineWorkflows:
    """The `Workflows` port over the interpreter."""

    def __init__(self, world: "World") -> None:
        self._world = world

    @property
    def _engine(self) -> Engine:
        return self._world.engine

    def start(self, workflow: Workflow, name: str, operation_id: str) -> None:
        self._engine.start(workflow, name, {"operation_id": operation_id})

    def status(self, workflow: Workflow, name: str) -> ExecutionStatus:
        execution = self._engine.executions.get(name)
        if execution is None:
            return ExecutionStatus.MISSING
        is_running = execution.status == "RUNNING"
        return ExecutionStatus.RUNNING if is_running else ExecutionStatus.ENDED

    def succeed(self, task_token: str, output: dict[str, Any]) -> bool:
        wait = self._engine.waiting(task_token)
        if wait is None:
            return False
        wait.answer = json.loads(json.dumps(output))
        return True

    def fail(self, task_token: str, error: str, cause: str) -> bool:
        wait = self._engine.waiting(task_token)
        if wait is None:
            return False
        wait.error = StateError(error, cause)
        return True

    def beat(self, task_token: str) -> bool:
        wait = self._engine.waiting(task_token)
        if wait is None:
            return False
        wait.beat_at = self._world.seconds
        return True


class FakeCloud:
    """A provider with switches for what providers get wrong. Counts every create call."""

    def __init__(self, world: "World", name: str) -> None:
        self.name = name
        self.traits = CloudTraits(
            boot_deadline_seconds=600,
            poll_seconds=2,
            listing_settles_seconds=20,
            failed_is_final=False,
        )
        self.boxes: dict[str, Box] = {}
        self.creates = 0
        self.create_fails_but_exists = 0
        self.create_fails_and_nothing_exists = 0
        self.create_raises: list[PodferryError] = []
        self.delete_fails = 0
        self.delete_says_ok_but_stands = 0
        self.boot_never = 0
        self.price = 400_000 if name == "alpha" else 500_000
        self.has_stock = True
        self.listing_lag_seconds = 0
        """For how long a new machine is not shown."""
        self.twins = 0
        """How many creates make two machines with one stamp."""
        self.words: dict[str, tuple[ViewState, str]] = {}
        """What it says of a machine, whatever is true."""
        self._world = world

    def list_offers(self, _wanted: Requirements) -> list[Offer]:
        if not self.has_stock:
            return []
        return [
            Offer(
                provider=self.name,
                reference={"ask": number},
                host=f"host-{number}",
                kind=Kind.CONTAINER,
                market=Market.ON_DEMAND,
                gpu_name="RTX 4090",
                gpu_count=1,
                vram_mib_per_gpu=24564,
                vcpus=16,
                memory_mib=65536,
                disk_gib=200,
                country="SE",
                region=None,
                price_microusd_per_hour=self.price + number,
                billing=BillingRule(increment_seconds=1),
            )
            for number in (1, 2)
        ]

    def create(self, request: LaunchRequest) -> str:
        self.creates += 1
        if self.create_raises:
            raise self.create_raises.pop()
        if self.create_fails_and_nothing_exists:
            self.create_fails_and_nothing_exists -= 1
            raise OutcomeUnknownError("500")
        box = Box(self._world, self, request, f"{self.name}-{self.creates}")
        self.boxes[box.provider_id] = box
        if self.twins:
            self.twins -= 1
            twin = Box(self._world, self, request, f"{box.provider_id}-twin")
            twin.is_dead = True
            self.boxes[twin.provider_id] = twin
        if self.boot_never:
            self.boot_never -= 1
            box.is_dead = True
        if self.create_fails_but_exists:
            self.create_fails_but_exists -= 1
            raise OutcomeUnknownError("500")
        return box.provider_id

    def find(self, stamp: str) -> list[MachineView]:
        views = [self.get(b.provider_id) for b in self.standing() if b.request.stamp == stamp]
        return [view for view in views if view.state != ViewState.GONE]

    def get(self, provider_id: str) -> MachineView:
        box = self.boxes[provider_id]
        is_missing = box.is_gone and provider_id not in self.words
        if is_missing or self._is_hidden(box):
            return MachineView(
                provider_id=provider_id, stamp=None, state=ViewState.GONE, raw_status="not_found"
            )
        state, raw_status = self.words.get(provider_id, (ViewState.STARTING, "running"))
        return replace(box.view(), state=state, raw_status=raw_status)

    def give_up(self, provider_id: str) -> None:
        if self.delete_fails:
            self.delete_fails -= 1
            raise ProviderBusyError("500")
        if self.delete_says_ok_but_stands:
            self.delete_says_ok_but_stands -= 1
            return
        if not self._is_hidden(self.boxes[provider_id]):
            self.boxes[provider_id].is_gone = True

    def _is_hidden(self, box: "Box") -> bool:
        return self._world.seconds - box.made_at < self.listing_lag_seconds

    def standing(self) -> list["Box"]:
        return [box for box in self.boxes.values() if not box.is_gone]


class FakeClouds:
    def __init__(self, world: "World") -> None:
        self._clouds = {name: FakeCloud(world, name) for name in ("alpha", "beta")}

    def names(self) -> list[str]:
        return sorted(self._clouds)

    def get(self, name: str) -> FakeCloud:
        if name not in self._clouds:
            raise ProviderRefusedError(f"no provider {name}")
        return self._clouds[name]


class Box:
    """A rented machine with an agent that does what the wire contract says."""

    def __init__(
        self, world: "World", cloud: FakeCloud, request: LaunchRequest, provider_id: str
    ) -> None:
        self.provider_id = provider_id
        self.made_at = world.seconds
        self.request = request
        self.cloud = cloud
        self.is_gone = False
        self.is_dead = False
        """The agent is silent, though the machine stands."""
        self.was_told_to_end = False
        self.environment: Tree = {"/etc/base": request.image}
        self.volume: Tree = {}
        self.is_paused = False
        self.token: str | None = None
        self.next_beat = world.seconds + 2.0
        self.fails: Counter[CommandKind] = Counter()
        """How many commands of a kind still have to fail."""
        self.hangs: set[CommandKind] = set()
        self.reports: dict[str, CommandReport] = {}
        self.done: list[CommandKind] = []
        self._world = world

    def view(self) -> MachineView:
        return MachineView(
            provider_id=self.provider_id,
            stamp=self.request.stamp,
            state=ViewState.STARTING,
            raw_status="running",
            price_microusd_per_hour=self.cloud.price,
            billing_started_at=self._world.clock.now(),
        )

    def beat(self) -> None:
        """One turn of the agent: register, or send a heartbeat and carry out what comes back."""
        app = self._world.app
        try:
            if self.token is None:
                self._register(app)
                return
            principal = app.identify.who(self.token)
            reply = app.heartbeat.beat(
                principal,
                Beat(
                    boot_id="boot",
                    workload={"state": "running"},
                    metrics={},
                    reports=tuple(self.reports.values()),
                ),
            )
        except ConflictError:
            self.next_beat = self._world.seconds + 1.0
            return
        except EpochStaleError:
            self.was_told_to_end = True
            self.is_dead = True
            return
        except Crash:
            # The function died: the agent hears nothing and tries again.
            self._world.crashes += 1
            self.next_beat = self._world.seconds + 1.0
            return
        for forgotten in reply.forget:
            self.reports.pop(forgotten, None)
        for command in reply.commands:
            self._obey(app, command)
        self.next_beat = self._world.seconds + reply.heartbeat_seconds

    def _register(self, app: Application) -> None:
        environment = self.request.environment
        token = f"pfm_{environment['PF_MACHINE']}_secret"
        registration = app.register_agent.register(
            app.identify.who(environment["PF_TOKEN"]),
            RegisterRequest(
                machine_id=environment["PF_MACHINE"],
                token_sha256=hashlib.sha256(token.encode()).hexdigest(),
                agent_version="0",
                facts={},
            ),
        )
        self.token = token
        self.next_beat = self._world.seconds + registration.heartbeat_seconds

    def _obey(self, app: Application, command: Command) -> None:
        if command.id in self.reports and self.reports[command.id].state != CommandState.RUNNING:
            return
        if command.kind in self.hangs:
            self.reports[command.id] = CommandReport(id=command.id, state=CommandState.RUNNING)
            return
        try:
            if self.fails[command.kind]:
                self.fails[command.kind] -= 1
                raise_failure()
            result = self._carry_out(app, command)
        except BoxError as error:
            problem = {"code": error.code, "detail": str(error), "retryable": False}
            self.reports[command.id] = CommandReport(
                id=command.id, state=CommandState.FAILED, error=problem
            )
            return
        except (Crash, PodferryError) as error:
            problem = {"code": "agent_error", "detail": repr(error), "retryable": True}
            self.reports[command.id] = CommandReport(
                id=command.id, state=CommandState.FAILED, error=problem
            )
            if isinstance(error, Crash):
                self._world.crashes += 1
            return
        self.done.append(command.kind)
        self.reports[command.id] = CommandReport(
            id=command.id, state=CommandState.SUCCEEDED, result=result
        )

    def _carry_out(self, app: Application, command: Command) -> dict[str, Any]:
        match command.kind:
            case CommandKind.QUIESCE:
                self.is_paused = True
                return {"paused": 1}
            case CommandKind.RESUME:
                self.is_paused = False
                return {"resumed": 1}
            case CommandKind.CAPTURE:
                return self._capture(app, command.arguments)
            case CommandKind.RESTORE:
                return self._restore(app, command.arguments)
            case _:
                return {}

    def _capture(self, app: Application, arguments: dict[str, Any]) -> dict[str, Any]:
        kind = SnapshotKind(arguments["kind"])
        tree = self.environment if kind == SnapshotKind.ENVIRONMENT else self.volume
        snapshot_id = arguments["snapshot_id"]
        pack = json.dumps(tree, sort_keys=True).encode()
        root = json.dumps(
            {
                "format": 1,
                "kind": kind,
                "snapshot_id": snapshot_id,
                "parent": arguments["parent"] and arguments["parent"]["snapshot_id"],
                "pages": [],
                "packs": [_entry(snapshot_id, pack)],
                "counts": {"entries": len(tree), "files": len(tree), "bytes": len(pack)},
            }
        ).encode()
        principal = app.identify.who(self.token or "")
        for name, body in ((f"packs/{_sha(pack)}", pack), ("root", root)):
            stored = StoredObject(name=name, size=len(body), sha256=_sha(body))
            (upload,) = app.sign_uploads.sign(principal, snapshot_id, [stored])
            assert self._world.objects.receive(upload.url, upload.headers, body) in {200, 412}
        handed_in = StoredObject(name="root", size=len(root), sha256=_sha(root))
        app.record_capture.commit(principal, snapshot_id, handed_in, {"bytes": len(pack)})
        self._world.after_capture(kind, snapshot_id, f"packs/{_sha(pack)}")
        return {"snapshot_id": snapshot_id}

    def _restore(self, app: Application, arguments: dict[str, Any]) -> dict[str, Any]:
        snapshot_id = arguments["snapshot_id"]
        principal = app.identify.who(self.token or "")
        root = json.loads(self._fetch(app, principal, snapshot_id, "root"))
        pack = root["packs"][0]
        body = self._fetch(app, principal, snapshot_id, f"packs/{pack['sha256']}")
        if _sha(body) != pack["sha256"]:
            raise BoxError("snapshot_corrupt", f"pack {pack['sha256']} is damaged")
        tree: Tree = json.loads(body)
        if arguments["kind"] == SnapshotKind.ENVIRONMENT:
            self.environment = tree
        else:
            self.volume = tree
        return {"files": len(tree)}

    def _fetch(self, app: Application, principal: Any, snapshot_id: str, name: str) -> bytes:
        (url,) = app.sign_downloads.sign(principal, snapshot_id, [WantedObject(snapshot_id, name)])
        status, body = self._world.objects.serve(url)
        if status != 200:
            raise BoxError("snapshot_missing", f"{name}: {status}")
        return body


class BoxError(Exception):
    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def raise_failure() -> None:
    raise BoxError("agent_error", "told to fail by the test")


def _sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _entry(snapshot_id: str, body: bytes) -> dict[str, Any]:
    return {"snapshot_id": snapshot_id, "sha256": _sha(body), "size": len(body)}


class World:
    """Everything together. It is its own set of ports for the `Application`."""

    deployment_id = "0a0b0c0d"
    api_url = "https://podferry.test"
    boot_script = "exec agent"

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._epoch = self.clock.now()
        self.store = CrashingStore(MemoryStore())
        self.objects = MemoryObjects()
        self.bundle = MemoryBundle()
        self.workflows = EngineWorkflows(self)
        self.clouds = FakeClouds(self)
        self.schedules = MemorySchedules()
        self.signals = MemorySignals()
        self.operator_key = FixedOperatorKey()
        self.randomness = SeededRandomness()
        self.engine = Engine(lambda: self.seconds, self._invoke)
        self.app = Application(self)
        self.crashes = 0
        self.repeats = False
        """Every step runs twice: its first answer is lost on the way."""
        self.before_step: Callable[[str, str], None] = lambda *_: None
        self.after_step: Callable[[str, str], None] = lambda *_: None
        """Called with the step's name and the operation's id."""
        self.after_capture: Callable[[SnapshotKind, str, str], None] = lambda *_: None
        self.account, _, _ = self.app.accounts.create("test")

    @property
    def seconds(self) -> float:
        return (self.clock.now() - self._epoch).total_seconds()

    def _invoke(self, function: str, payload: dict[str, Any]) -> dict[str, Any]:
        named = {
            "StepsPodsArn": "steps_pods",
            "StepsMachinesArn": "steps_machines",
            "StepsSnapshotsArn": "steps_snapshots",
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

    def _has_work(self) -> bool:
        return any(e.status == "RUNNING" for e in self.engine.executions.values())

    def _beat_due_boxes(self) -> None:
        for box in self.boxes():
            if not box.is_dead and box.next_beat <= self.seconds:
                box.beat()

    def settle(self, rounds: int = 8) -> None:
        """Run, with the reconciler once a minute, until no operation is left."""
        for _ in range(rounds):
            self.run()
            if not list(self.store.list_active(Operation)):
                return
            self.clock.advance(timedelta(seconds=60))
            if self.schedules.is_enabled:
                self.reconcile()

    def reconcile(self) -> dict[str, int]:
        try:
            return self.app.reconcile.run()
        except Crash:
            self.crashes += 1
            return {"restarted": 0}

    # What tests ask and do

    def boxes(self) -> list[Box]:
        return [box for name in self.clouds.names() for box in self.clouds.get(name).standing()]

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

    def create(self, **spec: Any) -> Pod:
        pod, _ = self.app.create_pod.create(
            self.account.id,
            NewPod(
                name="pod",
                spec=RunSpec(image="debian:12", **spec),
                requirements=Requirements(gpu_count=1),
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
