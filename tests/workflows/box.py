"""A rented machine whose agent speaks through the real services."""

import hashlib
import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from crashing_store import Crash

from podferry.bootstrap import Application
from podferry.domain.activity import Activity, Reading, Signal, SignalState
from podferry.domain.command import Command, CommandKind, CommandState
from podferry.domain.errors import ConflictError, EpochStaleError, PodferryError
from podferry.domain.machine import Login
from podferry.domain.snapshot import SnapshotKind, StoredObject
from podferry.ports.gpu_cloud import LaunchRequest, MachineView, ViewState
from podferry.services.agent.heartbeat import Beat, CommandReport
from podferry.services.agent.objects import WantedObject
from podferry.services.agent.register import RegisterRequest

if TYPE_CHECKING:
    from fake_cloud import FakeCloud
    from world import World

Tree = dict[str, str]


class Box:
    """A rented machine with an agent that does what the wire contract says."""

    def __init__(
        self, world: "World", cloud: "FakeCloud", request: LaunchRequest, provider_id: str
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
        self.secrets: dict[str, str] = {}
        self.is_paused = False
        self.token: str | None = None
        # A machine that is rented bare has no agent before somebody brings it.
        self.next_beat = math.inf if cloud.is_bare else world.seconds + 2.0
        self.uploaded: LaunchRequest | None = None
        self.host_key = f"ssh-ed25519 host-{provider_id}"
        self.fails: Counter[CommandKind] = Counter()
        """How many commands of a kind still have to fail."""
        self.failure_code = "agent_error"
        self.hangs: set[CommandKind] = set()
        self.holds_saves = False
        """Saves begin and do not come to an end, until this is taken back."""
        self.extra_summary: dict[str, Any] = {}
        """What a capture says besides its counts, for example that it is partial."""
        self.builds_on_parent = False
        """It stores no pack again that its capture's parent has, as the real engine does."""
        self.packs = 1
        """How many objects a capture stores besides its root."""
        self.has_timer = False
        """It asks for saves by itself; without a timer it depends on the schedule."""
        self.next_question = 0.0
        self.save_interval: int | None = None
        self.metrics: dict[str, Any] = {"gpus": [{"index": 0}]}
        self.usage = Usage(world)
        self.reports: dict[str, CommandReport] = {}
        self.done: list[CommandKind] = []
        self._world = world

    @property
    def is_bare(self) -> bool:
        return self.cloud.is_bare

    def view(self) -> MachineView:
        return MachineView(
            provider_id=self.provider_id,
            stamp=self.request.stamp,
            state=ViewState.STARTING,
            raw_status="running",
            price_microusd_per_hour=self.cloud.price,
            billing_started_at=self._world.clock.now(),
            login=Login(host=self.provider_id, port=22, user="ubuntu") if self.is_bare else None,
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
                    metrics=self.metrics,
                    activity=self.usage.report(),
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
        self.save_interval = reply.save_interval_seconds
        self.usage.learn(reply.idle_signals)
        for forgotten in reply.forget:
            self.reports.pop(forgotten, None)
        for command in reply.commands:
            self._obey(app, command)
        self.next_beat = self._world.seconds + reply.heartbeat_seconds

    def ask_for_save(self) -> None:
        """One turn of the agent's own timer."""
        app, now = self._world.app, self._world.seconds
        if not self.has_timer or self.save_interval is None or now < self.next_question:
            return
        self.next_question = now + 5.0
        try:
            turn = app.ask_save.ask(app.identify.who(self.token or ""))
        except (Crash, PodferryError) as error:
            self._world.crashes += isinstance(error, Crash)
            return
        self.next_question = now + (turn.in_seconds or self.save_interval)
        if turn.command is not None:
            self._obey(app, turn.command)
            if self.reports[turn.command.id].state == CommandState.FAILED:
                self.next_question = now + 15.0

    def _register(self, app: Application) -> None:
        environment = self.request.environment
        token = f"pfm_{environment['PF_MACHINE']}_secret"
        registration = app.register_agent.register(
            app.identify.who(environment["PF_TOKEN"]),
            RegisterRequest(
                machine_id=environment["PF_MACHINE"],
                token_sha256=hashlib.sha256(token.encode()).hexdigest(),
                agent_version="0",
                facts=self._world.next_facts(),
            ),
        )
        self.token = token
        self.next_beat = self._world.seconds + registration.heartbeat_seconds

    def _obey(self, app: Application, command: Command) -> None:
        if command.id in self.reports and self.reports[command.id].state != CommandState.RUNNING:
            return
        is_held = self.holds_saves and command.arguments.get("mode") == "live"
        if command.kind in self.hangs or is_held:
            self.reports[command.id] = CommandReport(id=command.id, state=CommandState.RUNNING)
            return
        try:
            if self.fails[command.kind]:
                self.fails[command.kind] -= 1
                raise_failure(self.failure_code)
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
            case CommandKind.RUN:
                return self._run(app)
            case _:
                return {}

    def _run(self, app: Application) -> dict[str, Any]:
        given = app.give_secrets.give(app.identify.who(self.token or ""))
        self.secrets = given.variables
        if given.missing:
            raise BoxError("secret_missing", f"no secret {', '.join(given.missing)}")
        return {}

    def _capture(self, app: Application, arguments: dict[str, Any]) -> dict[str, Any]:
        kind = SnapshotKind(arguments["kind"])
        tree = self.environment if kind == SnapshotKind.ENVIRONMENT else self.volume
        snapshot_id = arguments["snapshot_id"]
        pack = json.dumps(tree, sort_keys=True).encode()
        packs = [pack, *(f"more {number}".encode() for number in range(1, self.packs))]
        known = self._known(app, arguments["parent"]) if self.builds_on_parent else {}
        root = json.dumps(
            {
                "format": 1,
                "kind": kind,
                "snapshot_id": snapshot_id,
                "parent": arguments["parent"] and arguments["parent"]["snapshot_id"],
                "pages": [],
                "packs": [known.get(_sha(body)) or _entry(snapshot_id, body) for body in packs],
                "counts": {"entries": len(tree), "files": len(tree), "bytes": len(pack)},
            }
        ).encode()
        principal = app.identify.who(self.token or "")
        fresh = [(f"packs/{_sha(body)}", body) for body in packs if _sha(body) not in known]
        for name, body in (*fresh, ("root", root)):
            stored = StoredObject(name=name, size=len(body), sha256=_sha(body))
            (upload,) = app.sign_uploads.sign(principal, snapshot_id, [stored])
            assert self._world.objects.receive(upload.url, upload.headers, body) in {200, 412}
        handed_in = StoredObject(name="root", size=len(root), sha256=_sha(root))
        counts = {"bytes": len(pack), "files": len(tree), **self.extra_summary}
        self._hand_in(snapshot_id, handed_in, counts)
        self._world.after_capture(kind, snapshot_id, f"packs/{_sha(pack)}")
        return {"snapshot_id": snapshot_id}

    def _known(self, app: Application, parent: dict[str, str] | None) -> dict[str, Any]:
        """What the parent needs, by hash, as its root lists it."""
        if parent is None:
            return {}
        principal = app.identify.who(self.token or "")
        root = json.loads(self._fetch(app, principal, parent["snapshot_id"], "root"))
        return {entry["sha256"]: entry for entry in root["packs"]}

    def _hand_in(self, snapshot_id: str, root: StoredObject, summary: dict[str, Any]) -> None:
        """The end of a capture; asked again while there is more to verify."""
        app = self._world.app
        principal = app.identify.who(self.token or "")
        while not app.record_capture.commit(principal, snapshot_id, root, summary):
            continue

    def _restore(self, app: Application, arguments: dict[str, Any]) -> dict[str, Any]:
        snapshot_id = arguments["snapshot_id"]
        principal = app.identify.who(self.token or "")
        root = json.loads(self._fetch(app, principal, snapshot_id, "root"))
        pack = root["packs"][0]
        wanted = WantedObject(pack["snapshot_id"], f"packs/{pack['sha256']}")
        body = self._fetch_one(app, principal, snapshot_id, wanted)
        if _sha(body) != pack["sha256"]:
            raise BoxError("snapshot_corrupt", f"pack {pack['sha256']} is damaged")
        tree: Tree = json.loads(body)
        if arguments["kind"] == SnapshotKind.ENVIRONMENT:
            self.environment = tree
        else:
            self.volume = tree
        return {"files": len(tree)}

    def _fetch(self, app: Application, principal: Any, snapshot_id: str, name: str) -> bytes:
        return self._fetch_one(app, principal, snapshot_id, WantedObject(snapshot_id, name))

    def _fetch_one(
        self, app: Application, principal: Any, snapshot_id: str, wanted: WantedObject
    ) -> bytes:
        (url,) = app.sign_downloads.sign(principal, snapshot_id, [wanted])
        status, body = self._world.objects.serve(url)
        if status != 200:
            raise BoxError("snapshot_missing", f"{wanted.name}: {status}")
        return body


class Usage:
    """What the agent sees of the use of its box: nothing, until a test says otherwise."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._counted: tuple[Signal, ...] | None = None
        self._learned_at = 0.0
        self._states = dict.fromkeys(Signal, (SignalState.QUIET, world.seconds))
        self.agrees = True
        """Whether its verdict follows from its signals; if not, it never says idle."""

    def learn(self, counted: tuple[Signal, ...] | None) -> None:
        if counted != self._counted:
            self._counted, self._learned_at = counted, self._world.seconds

    def is_now(self, state: SignalState, *signals: Signal) -> None:
        for signal in signals or tuple(Signal):
            self._states[signal] = (state, self._world.seconds)

    def report(self) -> Activity | None:
        if self._counted is None:
            return None
        counted = [self._states[signal] for signal in self._counted]
        is_idle = self.agrees and all(state == SignalState.QUIET for state, _ in counted)
        began = max(self._learned_at, *(at for _, at in counted))
        now = self._world.seconds
        return Activity(
            counted=self._counted,
            idle_seconds=now - began if is_idle else None,
            readings=tuple(
                Reading(signal=signal, state=state, for_seconds=now - max(at, self._learned_at))
                for signal, (state, at) in self._states.items()
            ),
        )


class BoxError(Exception):
    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def raise_failure(code: str) -> None:
    raise BoxError(code, "told to fail by the test")


def _sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _entry(snapshot_id: str, body: bytes) -> dict[str, Any]:
    return {"snapshot_id": snapshot_id, "sha256": _sha(body), "size": len(body)}
