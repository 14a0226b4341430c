"""A world that remembers what really happened, whatever the rows say.

Machines know what their users wrote and when their agents spoke; providers know what they said;
every commit is held against the promises at once.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import Context
from datetime import datetime, timedelta
from typing import Any

import promises
from box import Box, BoxError
from crashing_store import Crash
from fake_cloud import FakeCloud
from world import World

from podferry.bootstrap import Application
from podferry.domain.command import Command, CommandKind, CommandState
from podferry.domain.entity import Entity
from podferry.domain.errors import (
    NoCapacityError,
    PodferryError,
    ProviderBusyError,
    ProviderRefusedError,
)
from podferry.domain.machine import Machine
from podferry.domain.pod import Pod
from podferry.domain.snapshot import Snapshot, SnapshotKind, StoredObject, object_key
from podferry.domain.volume import Volume
from podferry.ports.gpu_cloud import LaunchRequest, MachineView, ViewState
from podferry.ports.store import Change, Create, Update
from podferry.services.agent.heartbeat import Beat, CommandReport

NOT_ON_DISK = {CommandKind.QUIESCE, CommandKind.RESUME, CommandKind.RUN}
"""What a restarted agent cannot go on with: it reports that the outcome is unknown."""


class WatchedBox(Box):
    """A machine that knows what was written on it and when its agent last spoke."""

    _world: "WatchedWorld"

    def __init__(self, *made_of: Any) -> None:
        super().__init__(*made_of)
        self.written: dict[SnapshotKind, dict[str, float]] = defaultdict(dict)
        """Path and moment of what its user wrote."""
        self.spoke_at = float("-inf")
        self.said_gone = False
        """Its provider's own word."""
        self.omitted_at: list[float] = []
        """Complete listings in a row that did not show it."""
        self.last_word: ViewState | None = None
        self.may_go: str | None = None
        """On what ground it may be ended with data that is saved nowhere."""
        self.hand_in_goes: str = "through"
        """Or "wrong", and it says so, or "astray", and it believes that all is well."""
        self.hand_ins: list[tuple[str, StoredObject, dict[str, int]]] = []
        self.said: list[CommandReport] = []
        self._kinds: dict[str, CommandKind] = {}
        self._is_speaking = False

    @property
    def is_twin(self) -> bool:
        """Of a create call that made two machines it is the one that nobody knows."""
        return self.provider_id.endswith("-twin")

    @property
    def machine_id(self) -> str:
        return self.request.environment["PF_MACHINE"]

    def is_troubled(self) -> bool:
        ails = self.is_dead or self.hangs or self.fails.total() or self.hand_in_goes != "through"
        return bool(ails or self.provider_id in self.cloud.words)

    def tree(self, kind: SnapshotKind) -> dict[str, str]:
        return self.environment if kind == SnapshotKind.ENVIRONMENT else self.volume

    def write(self, kind: SnapshotKind, path: str) -> None:
        """Its user makes a file."""
        self.tree(kind)[path] = path
        self.written[kind][path] = self._world.seconds

    def beat(self) -> None:
        if self._is_speaking:
            return  # One agent says one thing at a time.
        self._is_speaking = True
        try:
            super().beat()
            self.spoke_at = self._world.seconds
        finally:
            self._is_speaking = False
        self.said += [r for r in self.reports.values() if r not in self.said]

    def ask_for_save(self) -> None:
        if not self._is_speaking and not self.is_dead and self.token is not None:
            super().ask_for_save()

    def _obey(self, app: Application, command: Command) -> None:
        self._kinds[command.id] = command.kind
        super()._obey(app, command)

    def _hand_in(self, snapshot_id: str, root: StoredObject, summary: dict[str, int]) -> None:
        self.hand_ins.append((snapshot_id, root, summary))
        if self.hand_in_goes == "wrong":
            raise BoxError("agent_error", "the hand-in got lost on its way")
        if self.hand_in_goes == "through":
            super()._hand_in(snapshot_id, root, summary)

    def restart(self) -> None:
        """Its agent dies and is started again; its journal is on disk."""
        for report in [r for r in self.reports.values() if r.state == CommandState.RUNNING]:
            del self.reports[report.id]
            if self._kinds[report.id] in NOT_ON_DISK:
                problem = {"code": "outcome_unknown", "detail": "the agent was restarted"}
                self.reports[report.id] = CommandReport(
                    id=report.id, state=CommandState.FAILED, error=problem
                )

    def say(self, *reports: CommandReport) -> None:
        """A message of this machine whose answer it does not wait for."""
        beat = Beat(boot_id="boot", workload={"state": "running"}, metrics={}, reports=reports)
        with suppress(PodferryError, Crash):
            self._world.app.heartbeat.beat(self._world.app.identify.who(self.token or ""), beat)
            self.spoke_at = self._world.seconds

    def hand_in_again(self, hand_in: tuple[str, StoredObject, dict[str, int]]) -> None:
        """One of its own or another machine's, late or twice."""
        with suppress(PodferryError, Crash):
            super()._hand_in(*hand_in)


class WatchedCloud(FakeCloud):
    """A provider that knows what it said and what it was told."""

    box_class = WatchedBox
    boxes: dict[str, WatchedBox]  # type: ignore[assignment]
    _world: "WatchedWorld"

    def create(self, request: LaunchRequest) -> str:
        self._check_up()
        world = self._world
        world.hold(promises.promise_04_the_intent_is_written_first, request)
        world.creates[request.stamp] += 1
        world.hold(promises.promise_04_one_create_for_one_intent, request)
        try:
            return super().create(request)
        except (ProviderBusyError, ProviderRefusedError, NoCapacityError):
            world.creates[request.stamp] -= 1  # It says for sure that it made nothing.
            raise

    def get(self, provider_id: str) -> MachineView:
        box = self.boxes[provider_id]
        box.last_word = None
        view = super().get(provider_id)
        box.last_word = view.state
        if view.stamp is not None:
            box.said_gone = view.state == ViewState.GONE
        return view

    def list_machines(self) -> list[MachineView]:
        views = super().list_machines()
        shown = {view.provider_id for view in views}
        for box in self.boxes.values():
            if box.provider_id in shown:
                box.omitted_at.clear()
            else:
                box.omitted_at.append(self._world.seconds)
        return views

    def give_up(self, provider_id: str) -> None:
        box = self.boxes[provider_id]
        if not box.is_gone:
            self._world.hold(promises.promise_01_no_machine_ends_with_unsaved_data, box)
        self._check_up()
        if provider_id not in self.words:  # What it denies it does not end.
            super().give_up(provider_id)

    def _check_up(self) -> None:
        if self.is_down:
            raise ProviderBusyError("502")


class WatchedWorld(World):
    """Rows as they were last written, and what broke a promise."""

    cloud_class = WatchedCloud

    def __init__(self) -> None:
        self.rows: dict[tuple[type[Entity], str], Any] = {}
        self.creates: Counter[str] = Counter()
        """Create calls of each stamp that may have made a machine."""
        self.accepted: set[str] = set()
        """Stops whose user takes the loss."""
        self.hidden: dict[tuple[SnapshotKind, str], bytes] = {}
        """Objects that the store does not show for a while."""
        self.broken: list[str] = []
        self.meanwhile: list[tuple[int, Callable[[], None]]] = []
        """What happens when a process is about to write for the n-th time from now on."""
        self._is_meanwhile = False
        self._next_round = 0.0
        self.steps: list[tuple[str, str]] = []
        """Every step that was ever run, and its operation."""
        self.troubled_at = 0.0
        """When something last went wrong, or stood still."""
        super().__init__()
        self.engine.pauses_between_states = True
        self.store.after_commit = self._committed
        self.store.before_commit = self._about_to_commit

    def hold(self, promise: Callable[..., None], *about: Any) -> None:
        """Note it if the promise is broken: the code that breaks it may swallow an exception."""
        try:
            promise(self, *about)
        except AssertionError as error:
            self.broken.append(f"{promise.__name__}: {error}")

    def _committed(self, changes: Sequence[Change]) -> None:
        pairs = []
        for change in changes:
            if isinstance(change, Create | Update):
                key = (type(change.entity), change.entity.id)
                pairs.append((self.rows.get(key), change.entity))
                self.rows[key] = change.entity
        # What a machine may do is decided with its row, and others refer to it.
        for old, new in sorted(pairs, key=lambda pair: not isinstance(pair[1], Machine)):
            for promise in promises.OF_CHANGES.get(type(new), ()):
                self.hold(promise, old, new)

    def _about_to_commit(self) -> None:
        if not self.meanwhile or self._is_meanwhile:
            return
        left, what = self.meanwhile.pop(0)
        if left > 0:
            self.meanwhile.insert(0, (left - 1, what))
            return
        self._is_meanwhile = True
        try:
            Context().run(what)  # Another process: it knows nothing of this request.
        finally:
            self._is_meanwhile = False
            self.troubled_at = self.seconds

    def since(self, moment: datetime | None) -> float:
        """A moment in the seconds of this world; its beginning for `None`."""
        return 0.0 if moment is None else (moment - self._epoch).total_seconds()

    def proceed(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Everybody does their work, one thing after the other."""
        end = self.seconds + seconds
        while self.seconds < end and not until():
            if self.engine.step():
                continue
            self._beat_due_boxes()
            if self.engine.step():
                continue
            if self.seconds >= self._next_round:
                self._next_round = self.seconds + 60
                self.round()
            self.clock.advance(timedelta(seconds=1))

    def _invoke(self, function: str, payload: dict[str, Any]) -> dict[str, Any]:
        self.steps.append((payload["step"], payload["operation_id"]))
        return super()._invoke(function, payload)

    def step_again(self, step: str, operation_id: str, **payload: Any) -> None:
        with suppress(Crash):
            super().step_again(step, operation_id, **payload)

    def next_steps(self) -> set[str]:
        """Where the executions stand."""
        return {e.at for e in self.engine.executions.values() if e.status == "RUNNING"}

    # What there is

    def of(self, kind: type[Entity]) -> Iterator[Any]:
        """All rows of a kind, oldest first."""
        return iter([row for (held, _), row in self.rows.items() if held is kind])

    def known(self, kind: type[Entity], row_id: str | None) -> Any:
        return self.rows.get((kind, row_id or ""))

    def every_box(self) -> list[WatchedBox]:
        """Also those that are gone, oldest first."""
        clouds = [self.clouds.get(name) for name in self.clouds.names()]
        boxes = [box for cloud in clouds for box in cloud.boxes.values()]
        return sorted(boxes, key=lambda box: box.made_at)  # type: ignore[arg-type,return-value]

    def boxes_of(self, machine: Machine) -> list[WatchedBox]:
        """What stands or stood at the provider under the machine's stamp."""
        return [box for box in self.every_box() if box.request.stamp == machine.stamp]

    def box_of(self, machine: Machine | None) -> WatchedBox | None:
        if machine is None:
            return None
        found = [b for b in self.boxes_of(machine) if b.provider_id == machine.provider_id]
        return found[0] if found else None

    def machine_of(self, box: WatchedBox) -> Machine:
        return self.known(Machine, box.machine_id)  # type: ignore[no-any-return]

    def is_running_on(self, box: WatchedBox) -> bool:
        """Whether its user works on it: the pod was handed over and is not at rest."""
        machine = self.machine_of(box)
        if machine is None or machine.ready_at is None or machine.provider_id != box.provider_id:
            return False
        return not (box.is_gone or box.is_paused)

    def heads(self, pod: Pod) -> dict[SnapshotKind, str | None]:
        return {
            SnapshotKind.ENVIRONMENT: pod.environment_head,
            SnapshotKind.VOLUME: self.known(Volume, pod.volume_id).head,
        }

    def saved(self, snapshot_id: str | None) -> dict[str, str]:
        """The tree that a restore of the snapshot gives, read from the store."""
        if snapshot_id is None:
            return {}
        snapshot: Snapshot = self.known(Snapshot, snapshot_id)
        root = json.loads(self._object(snapshot, "root"))
        tree: dict[str, str] = json.loads(
            self._object(snapshot, f"packs/{root['packs'][0]['sha256']}")
        )
        return tree

    def _object(self, snapshot: Snapshot, name: str) -> bytes:
        key = object_key(snapshot.account_id, snapshot.id, name)
        return self.hidden.get((snapshot.kind, key)) or self.objects.read(snapshot.kind, key)

    def is_troubled(self) -> bool:
        """Whether something goes wrong, or is about to."""
        crash_at = self.store.crash_at
        will_crash = crash_at is not None and crash_at > self.store.commits
        clouds = [self.clouds.get(name) for name in self.clouds.names()]
        return bool(
            will_crash
            or self.meanwhile
            or self.hidden
            or any(cloud.is_down for cloud in clouds)
            or any(box.is_troubled() for box in self.every_box() if not box.is_gone)
        )

    def unsaved(self, box: WatchedBox) -> dict[SnapshotKind, set[str]]:
        """What its user wrote and no head has."""
        heads = self.heads(self.known(Pod, self.machine_of(box).pod_id))
        left = {k: set(box.written[k]) - set(self.saved(heads[k])) for k in SnapshotKind}
        return {kind: paths for kind, paths in left.items() if paths}
