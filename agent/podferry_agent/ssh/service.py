"""The agent's side: keeps the SSH server's process running and answers what it asks."""

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from podferry_agent.api import ApiClient
from podferry_agent.box import Box
from podferry_agent.errors import (
    AgentError,
    ApiError,
    ApiUnreachableError,
    CommandError,
    SettingsError,
    StoppingError,
    WireError,
)
from podferry_agent.fields import Fields
from podferry_agent.ssh.leftover import end_leftover, note_process
from podferry_agent.ssh.messages import EXIT_FAILED, Counts, Setup, content_of, decode, encode
from podferry_agent.state import StateStore
from podferry_agent.wire import AuthorizedKeysReply, HostKeyReply

_LOG = logging.getLogger(__name__)
_RECORD = "ssh"
_READY_SECONDS = 45.0
_END_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Listen:
    """An empty host is every address of the box."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What `start` was told. The pod's secrets are not in it, for it is stored."""

    port: int
    environment: Mapping[str, str]


@dataclass(slots=True)
class _Running:
    """One server process, from its start to its end."""

    process: subprocess.Popen[bytes]
    is_listening: bool = False
    probed: str | None = None
    """What the last probe said: nothing is good."""

    def send(self, kind: str, content: object) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            # One that has just died is noticed where its output is read.
            self.process.stdin.write(encode(kind, content))
            self.process.stdin.flush()


@dataclass(slots=True)
class SshService:
    """`start` may be called again and again; the server is started anew whenever it ends."""

    api: ApiClient
    box: Box
    store: StateStore
    stopping: threading.Event
    listen: Listen | None = None
    """Instead of every address and the port that the control plane names."""
    counts: Counts = field(default_factory=Counts)
    _wanted: "_Wanted | None" = None
    _running: _Running | None = None
    _problem: str = "it has not been started"
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def sessions(self) -> int:
        """How many users are logged in right now."""
        return self.counts.sessions

    def recover(self) -> None:
        """At the agent's start: go on if it ran before; sessions of that time are over."""
        try:
            document = self.store.load(_RECORD)
            if document is not None:
                fields = Fields(document, "stored SSH server")
                self._begin(fields.integer("port"), fields.text_map("environment"))
        except (SettingsError, WireError) as error:
            _LOG.error("stored_ssh_server_damaged", extra={"reason": str(error)})

    def start(self, port: int, environment: Mapping[str, str]) -> None:
        """Listen on the port; logins get this environment on top of the box's."""
        self.store.save_if_possible(_RECORD, {"port": port, "environment": dict(environment)})
        self._begin(port, environment)

    def probe(self) -> None:
        """Log in over loopback with a key of the server's own.

        Raises:
            CommandError: Nobody can log in; says why.
        """
        deadline = time.monotonic() + _READY_SECONDS
        with self._changed:
            running = self._wait_listening(deadline)
            if running is not None:
                running.probed = None
                running.send("probe", content=True)
                self._changed.wait_for(lambda: running.probed is not None, _READY_SECONDS)
            problem = self._problem if running is None else running.probed
        if problem != "":
            detail = f"nobody can log in over SSH: {problem or 'the server does not answer'}"
            raise CommandError("ssh_probe_failed", detail, retryable=True)

    def stop(self) -> None:
        """Ends the server and its sessions; `stopping` must be set."""
        with self._changed:
            running = self._running
        if running is not None and running.process.stdin is not None:
            running.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.process.wait(_END_SECONDS)

    def _begin(self, port: int, environment: Mapping[str, str]) -> None:
        with self._changed:
            is_first, self._wanted = self._wanted is None, _Wanted(port, environment)
        self.renew_environment()
        if is_first:
            threading.Thread(target=self._keep_running, name="ssh", daemon=True).start()

    def renew_environment(self) -> None:
        """For the next logins: the pod's variables, or its secrets, are others."""
        with self._changed:
            if self._running is not None and self._running.is_listening:
                self._running.send("environment", dict(self._setup().environment))

    def _setup(self) -> Setup:
        """With the lock held."""
        assert self._wanted is not None
        port, root = self._wanted.port, self.box.root
        listen = self.listen or Listen("" if root == Path("/") else "127.0.0.1", port)
        environment = self.box.environment(self._wanted.environment)
        return Setup(listen.host, listen.port, str(root), environment, None)

    def _wait_listening(self, deadline: float) -> _Running | None:
        """With the lock held."""

        def find() -> bool:
            return self._running is not None and self._running.is_listening

        self._changed.wait_for(find, max(0.0, deadline - time.monotonic()))
        return self._running if find() else None

    def _keep_running(self) -> None:
        backoff = self.api.new_backoff()
        with contextlib.suppress(StoppingError):
            while True:
                started_at = time.monotonic()
                try:
                    self._run_once()
                except StoppingError:
                    raise
                except (AgentError, OSError) as error:
                    self._note_problem(str(error))
                if time.monotonic() - started_at > _READY_SECONDS:
                    backoff.reset()
                backoff.wait(self.stopping)

    def _run_once(self) -> None:
        end_leftover(self.store)
        reply = HostKeyReply.parse(self.api.post("/agent/v1/host-key", {"private_key": None}))
        running = _Running(_start_process(self.box, self.store.directory))
        note_process(self.store, running.process.pid)
        with self._changed:
            self._running, setup = running, self._setup()
        try:
            running.send("setup", {**setup.to_json(), "host_key": reply.private_key})
            self._follow(running)
        finally:
            self._forget(running)

    def _follow(self, running: _Running) -> None:
        """Until the server's output ends, and with it the server."""
        assert running.process.stdout is not None
        for line in running.process.stdout:
            kind, fields = decode(line)
            self._take(running, kind, fields)

    def _take(self, running: _Running, kind: str, fields: Fields) -> None:
        match kind:
            case "wants_keys":
                self._answer_keys(running)
            case "made_host_key":
                running.send("host_key", self._settle_host_key(fields.text(kind)))
            case "failed":
                self._note_problem(fields.text(kind))
            case _:
                with self._changed:
                    self._learn(running, kind, fields)
                    self._changed.notify_all()

    def _learn(self, running: _Running, kind: str, fields: Fields) -> None:
        match kind:
            case "listening":
                running.is_listening = True
                # It may have changed since the server was set up.
                running.send("environment", dict(self._setup().environment))
                _LOG.info("ssh_listening", extra={"port": fields.integer(kind)})
            case "probed":
                running.probed = fields.optional_text(kind) or ""
            case "counts":
                self.counts = Counts.parse(content_of(kind, fields))
            case _:
                raise WireError(f"the SSH server says {kind!r}, which means nothing")

    def _answer_keys(self, running: _Running) -> None:
        """Who may log in; if the control plane is away, whoever could before."""
        try:
            answer = self.api.post_once("/agent/v1/ssh-keys", {})
            running.send("keys", list(AuthorizedKeysReply.parse(answer).authorized_keys))
        except (ApiError, ApiUnreachableError, WireError) as error:
            _LOG.warning("ssh_keys_unknown", extra={"reason": str(error)})
            running.send("keys_unchanged", content=True)

    def _settle_host_key(self, made: str) -> str:
        """Ours if we are the first machine of the pod that made one, else the first one's."""
        answer = self.api.post("/agent/v1/host-key", {"private_key": made})
        settled = HostKeyReply.parse(answer).private_key
        if settled is None:
            raise WireError("the control plane did not say which host key the pod has")
        return settled

    def _note_problem(self, problem: str) -> None:
        _LOG.error("ssh_server_failed", extra={"reason": problem})
        with self._changed:
            self._problem = problem

    def _forget(self, running: _Running) -> None:
        process = running.process
        process.kill()
        code = process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if not running.is_listening and code != EXIT_FAILED:
            self._note_problem(f"the server ended with {code} before it listened")
        _LOG.info("ssh_ended", extra={"exit_code": code})
        with self._changed:
            self._running, self.counts = None, Counts()


def _start_process(box: Box, directory: Path) -> subprocess.Popen[bytes]:
    """From the same files as the agent, without the agent's environment and its secrets."""
    variables = {
        "PF_ROOT": str(box.root),
        "PF_MACHINE": box.machine_id,
        # asyncssh asks for both, and where there is no /etc/passwd nobody else tells it.
        "HOME": str(directory),
        "LOGNAME": "root",
    }
    if "PYTHONPATH" in os.environ:
        variables["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return subprocess.Popen(
        [*_own_python(), "-m", "podferry_agent.ssh"],
        cwd=directory,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def _own_python() -> list[str]:
    """As the boot script starts it: the bundle's interpreter needs the bundle's loader."""
    libraries = Path(sys.executable).parents[1] / "lib"
    loader = libraries / "ld.so"
    if not loader.exists():
        return [sys.executable]
    return [str(loader), "--library-path", str(libraries), sys.executable, "-I", "-B"]
