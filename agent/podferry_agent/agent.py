"""Puts the agent together and runs it from registration to its end."""

import logging
import os
import threading
import time

from podferry_agent import system
from podferry_agent.api import ApiClient, ApiSettings, build_pool
from podferry_agent.box import Box, clean_own_environment
from podferry_agent.capturing import Capturing
from podferry_agent.commands import CommandContext, CommandRunner, Handler
from podferry_agent.errors import ApiError, EpochStaleError, SettingsError
from podferry_agent.execs import Exec
from podferry_agent.facts import collect_facts
from podferry_agent.gpus import GpuSampler
from podferry_agent.heartbeat import Heartbeat, Wakeup
from podferry_agent.idle.usage import (
    BoxProcesses,
    GpuUse,
    NetworkUse,
    Usage,
    all_network_bytes,
)
from podferry_agent.idle.watch import ActivityWatch
from podferry_agent.init import EXIT_DONE, EXIT_EPOCH_STALE, EXIT_REFUSED
from podferry_agent.journal import CommandJournal
from podferry_agent.last_save import LastSave
from podferry_agent.metadata import MetadataWatch
from podferry_agent.metrics import Metrics
from podferry_agent.notice import TerminationNotice
from podferry_agent.processes import ProcessScope, find_process
from podferry_agent.quiesce import Quiesce
from podferry_agent.register import load_identity, register
from podferry_agent.restoring import ForkGuard, Restoring
from podferry_agent.runs import Run
from podferry_agent.saving import SaveTimer
from podferry_agent.secrets import PodSecrets
from podferry_agent.settings import Settings
from podferry_agent.snapshot import TimeLimit, resume_all_left_paused
from podferry_agent.ssh.service import Listen, SshService
from podferry_agent.state import StateStore
from podferry_agent.transfer import IN_FLIGHT, PresignedStore, TransferScope
from podferry_agent.wire import Command, HeartbeatReply, Notice, QuiesceArgs
from podferry_agent.workload import Workload

_LOG = logging.getLogger(__name__)
_END_GRACE_SECONDS = 5.0
# How long the agent stays to deliver its last reports when it was told to shut down.
_FAREWELL_SECONDS = 15.0
# Providers give 5 to 30 seconds between SIGTERM and the end, and do not say which. The first save
# is over before the workload is ended, the others come after that.
_SIGTERM_FIRST_SECONDS, *_SIGTERM_LATER_SECONDS = (5.0, 15.0, 30.0)
_WARNING_SECONDS = 30.0
_MAINTENANCE_SECONDS = 3600.0
_SIGTERM = Notice("shutdown", "sigterm", None)


class Agent:
    """One machine's agent. `run` returns the exit code that the supervisor acts on."""

    _farewell_at: float | None = None
    _is_restarted = False
    """It was registered before: what its memory held is gone."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = StateStore(settings.state_dir)
        self._stopping = threading.Event()
        self._wakeup = Wakeup()
        self._is_stale = False
        supervisor = os.getppid()
        self._supervisor_pid = supervisor
        self._boot_id = _boot_id(supervisor)
        image_environment = dict(os.environ)
        clean_own_environment()
        self._api_pool = build_pool(settings.ca_pem, connections=8)
        self._api = ApiClient(
            ApiSettings(settings.api_url, settings.retry_seconds, settings.retry_max_seconds),
            self._api_pool,
            self._stopping,
            self._on_epoch_stale,
        )
        self._secrets = PodSecrets(self._api)
        self._box = Box(
            settings.root, settings.machine_id, image_environment, self._secrets.variables
        )
        self._object_pool = build_pool(settings.ca_pem, connections=2 * IN_FLIGHT)
        self._guard = ForkGuard()
        self._gpus = GpuSampler(self._box, self._may_fork)
        self._workload = Workload(self._box, self._store, settings.log_limit_bytes, self._boot_id)
        scope = ProcessScope(settings.machine_id, supervisor)
        listen = None if settings.ssh_listen is None else Listen(*settings.ssh_listen)
        self.ssh = SshService(self._api, self._box, self._store, self._stopping, listen)
        self._quiesce = Quiesce(self._box, self._store, scope, self._workload)
        self._saves = SaveTimer(self._api, self._begin_save, self._stopping)
        self._limit = TimeLimit()
        self._term_at = 0.0
        self._runner = CommandRunner(
            self._handlers(), CommandJournal(self._store), self._wakeup.set
        )
        self._activity = self._new_activity(scope)
        self._notice = TerminationNotice(self._wakeup.set)
        self._last_save = LastSave(self._api, self._runner, self._limit, self._stopping)
        for hook in (self._save_first, self._end_workload, self._save_again, self._take_leave):
            self._notice.add_hook(hook)

    def run(self) -> int:
        try:
            interval = self._register()
        except (ApiError, SettingsError) as error:
            _LOG.error("registration_refused", extra={"reason": str(error)})
            return EXIT_EPOCH_STALE if isinstance(error, EpochStaleError) else EXIT_REFUSED
        # Until here there is nothing to lose, and a SIGTERM may simply end us.
        self._notice.install()
        self._workload.recover()
        resume_all_left_paused(os.fsencode(self._settings.state_dir))
        self.ssh.recover()
        self._runner.recover()
        self._gpus.start()
        self._saves.start()
        self._activity.start()
        if self._settings.metadata_url is not None:
            MetadataWatch(self._settings.metadata_url, self._on_notice, self._stopping).start()
        try:
            self._heartbeat().run(interval)
        except EpochStaleError:
            self._is_stale = True
        return self._end()

    def _register(self) -> float:
        """The first heartbeat interval; afterwards the API client holds the machine token."""
        identity = load_identity(self._store, self._settings.machine_id)
        interval = 0.0
        self._is_restarted = identity.is_registered
        if not identity.is_registered:
            directory, supervisor = self._settings.state_dir, self._supervisor_pid
            facts = collect_facts(self._box, directory, supervisor)
            identity, interval = register(
                self._api, self._store, self._settings.boot_token, identity, facts
            )
        self._api.token = identity.token
        return interval

    def _handlers(self) -> dict[str, Handler]:
        root, directory = self._settings.root, self._settings.state_dir
        return {
            "quiesce": self._handle_quiesce,
            "resume": lambda _context: self._quiesce.resume(),
            "capture": Capturing(
                self._api, self._open_store, self._saves, root, directory, self._limit
            ).handle,
            "restore": Restoring(self._open_store, root, directory, self._guard).handle,
            "run": Run(self._box, self._secrets, self._workload, self.ssh).handle,
            "exec": Exec(self._box, self._api, directory, self._may_fork).handle,
            "shutdown": self._handle_shutdown,
        }

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            api=self._api,
            boot_id=self._boot_id,
            workload=self._workload,
            metrics=Metrics(self._settings.root, self._gpus),
            runner=self._runner,
            activity=self._activity.report,
            wakeup=self._wakeup,
            is_over=self._is_over,
            on_answer=self._on_answer,
        )

    def _open_store(self, scope: TransferScope, cancelled: threading.Event) -> PresignedStore:
        return PresignedStore(self._api, self._object_pool, scope, cancelled)

    def _handle_quiesce(self, context: CommandContext) -> dict[str, object]:
        args = QuiesceArgs.parse(context.command.fields())
        return self._quiesce.run(args, context.cancelled.is_set)

    def _handle_shutdown(self, context: CommandContext) -> dict[str, object]:
        for other in self._runner.running():
            if other is not context:
                other.stop("agent_ending")
        self._quiesce.end_everything(_END_GRACE_SECONDS)
        self._workload.clear()
        self._farewell_at = time.monotonic() + _FAREWELL_SECONDS
        return {}

    def _new_activity(self, scope: ProcessScope) -> ActivityWatch:
        usage = Usage(
            BoxProcesses(self._settings.root, scope),
            GpuUse(self._box, self._gpus),
            NetworkUse(all_network_bytes, self._moved_bytes),
            lambda: self.ssh.sessions,
        )
        window = self._settings.idle_window_seconds
        return ActivityWatch(usage.sample, self._is_working, self._stopping, window)

    def _moved_bytes(self) -> int:
        return self._api_pool.moved_bytes + self._object_pool.moved_bytes

    def _is_working(self) -> bool:
        """Whether somebody waits for a command; nobody does for a save."""
        return any(c.command.kind != "capture" for c in self._runner.running())

    def _may_fork(self) -> bool:
        """Not while the box's programs are being replaced: they would be half old, half new."""
        return self._guard.is_open

    def _is_over(self) -> bool:
        self._notice.run_hooks_if_given()
        if self._is_stale:
            return True
        if self._farewell_at is None:
            return False
        return self._runner.is_settled() or time.monotonic() > self._farewell_at

    def _begin_save(self, command: Command) -> None:
        self._runner.accept(command)

    def _on_answer(self, reply: HeartbeatReply) -> None:
        if self._is_restarted:
            self._recall_secrets()
        self._saves.learn(reply.save_interval_seconds)
        self._activity.learn(reply.idle_signals)

    def _recall_secrets(self) -> None:
        """One try with each beat; before commands are taken and programs are started again."""
        if not self._secrets.are_known and self._secrets.recall():
            self.ssh.renew_environment()
        if self._secrets.are_known:
            self._workload.start_again_if_lost()

    def _on_epoch_stale(self) -> None:
        self._is_stale = True
        self._wakeup.set()

    def _on_notice(self, notice: Notice) -> None:
        """The metadata service says that the machine will go."""
        now = time.monotonic()
        deadline = now + (notice.deadline_seconds or _WARNING_SECONDS)
        if notice.kind == "maintenance":
            # The control plane moves the pod; that it hears of it may take as long as it takes.
            self._last_save.tell(notice, now + _MAINTENANCE_SECONDS)
        elif notice.deadline_seconds is None:
            # It may go, some time: a whole save is worth more than one that is sealed early.
            self._last_save.make(notice, deadline)
        else:
            self._last_save.keep_making(notice, deadline)

    def _save_first(self) -> None:
        """SIGTERM: how long there is nobody says; what is not saved in time harms nothing."""
        self._term_at = time.monotonic()
        self._last_save.make_until(_SIGTERM, self._term_at + _SIGTERM_FIRST_SECONDS)

    def _save_again(self) -> None:
        """What the workload wrote at its end, and what there was no time for."""
        deadlines = [self._term_at + seconds for seconds in _SIGTERM_LATER_SECONDS]
        self._last_save.make_until_one_of(_SIGTERM, deadlines)

    def _end_workload(self) -> None:
        """Let it end well; what it writes at its end is saved once more."""
        self._workload.end_with_the_box(_END_GRACE_SECONDS)

    def _take_leave(self) -> None:
        while any(c.command.kind == "capture" for c in self._runner.running()):
            time.sleep(0.2)
        self._farewell_at = time.monotonic()
        self._wakeup.set()

    def _end(self) -> int:
        """Leaves nothing running, saves nothing."""
        _LOG.info("agent_ending", extra={"is_stale": self._is_stale})
        self._stopping.set()
        self._runner.stop_all("agent_ending")
        self._gpus.stop()
        self.ssh.stop()
        self._workload.end_with_the_box(0.0)
        self._quiesce.end_everything(_END_GRACE_SECONDS)
        return EXIT_EPOCH_STALE if self._is_stale else EXIT_DONE


def _boot_id(supervisor: int) -> str:
    """Changes when the box is started again, stays when only the agent is."""
    process = find_process(supervisor)
    started = process.started if process is not None else 0
    return f"{system.kernel_boot_id()}-{supervisor}-{started}"
