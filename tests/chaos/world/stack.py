"""A local stack whose links can be troubled and whose time can be skipped ahead.

Functions and providers agree on the time; agents, the embedded AWS and the processes in boxes keep
the real one, as machines that know nothing of each other do.
"""

import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from local.aws.client import client
from local.stack import CONTROL_STACK, PROVIDERS, LocalStack, Report
from tests.chaos.proxy import Link

FUNCTION = Path(__file__).parent / "function.py"
HURRY = ('"HeartbeatSeconds": 60', '"HeartbeatSeconds": 15')
"""Agents with something in transit beat each second."""
ROUNDS = (
    "ReconcilerFunctionName",
    "AutosaveFunctionName",
    "SweeperFunctionName",
    "MeterFunctionName",
)


class SkippedClock:
    """The time of the control plane."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = float(path.read_text()) if path.exists() else 0.0
        self._write()

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._offset)

    def skip(self, seconds: float) -> None:
        self._offset += seconds
        self._write()

    def _write(self) -> None:
        draft = self.path.with_suffix(".new")
        draft.write_text(str(self._offset))
        draft.replace(self.path)


class ChaosStack(LocalStack):
    """Every call between its parts goes through a link of its own."""

    def __init__(self, data: Path, report: Report) -> None:
        super().__init__(data, report)
        self.data.mkdir(parents=True, exist_ok=True)
        self.clock = SkippedClock(self.data / "clock")
        self.links = {
            "user": Link("user", lambda: self.api_url),
            "agent": Link("agent", lambda: self.api_url),
            "store": Link("store", lambda: self.aws_endpoint),
            **{name: self._link_to(name) for name in PROVIDERS},
        }

    def stop(self) -> None:
        """End every part and every link."""
        super().stop()
        for link in self.links.values():
            link.close()

    def start_aws(self) -> None:
        """Start the embedded AWS (again) with functions that follow our clock."""
        self._write_interpreter()
        super().start_aws()

    def deploy(self, assembly: Path) -> None:
        """Deploy it with workflows that miss a silent agent sooner; their clock is the real one."""
        hurried = self.data / "assembly"
        hurried.mkdir(exist_ok=True)
        for source in assembly.iterdir():
            target = hurried / source.name
            target.unlink(missing_ok=True)
            if source.name.startswith("asset.") and source.suffix == ".json":
                target.write_text(source.read_text().replace(*HURRY))
            else:
                target.symlink_to(source)
        super().deploy(hurried)

    @property
    def public_url(self) -> str:
        return self.links["agent"].url

    def provider_address(self, name: str) -> str:
        return self.links[name].url

    @property
    def aws_options(self) -> tuple[str, ...]:
        return ("--python", str(self._interpreter))

    def function_processes(self, name: str) -> Iterator[int]:
        """Ids of the processes that serve a function of `infra/catalog.py`."""
        ours = f"_LOCAL_AWS_PARENT={self._aws_pid}".encode()
        named = f"AWS_LAMBDA_FUNCTION_NAME={CONTROL_STACK}-{name}".encode()
        for directory in Path("/proc").glob("[0-9]*"):
            # A process may end while it is looked at.
            with contextlib.suppress(OSError):
                words = (directory / "cmdline").read_bytes().split(b"\0")
                if os.fsencode(FUNCTION) not in words:
                    continue
                environment = (directory / "environ").read_bytes().split(b"\0")
                if ours in environment and named in environment:
                    yield int(directory.name)

    def kill_function(self, name: str) -> int:
        """Kill -9 of every process of one function; how many there were."""
        killed = 0
        for pid in self.function_processes(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        return killed

    def let_pass(self, seconds: float) -> None:
        """Let time pass, for the control plane first: it sees what providers did before it."""
        self.clock.skip(seconds)
        for server in self.providers.values():
            with contextlib.suppress(httpx.TransportError):
                url, body = f"{server.hello['control_url']}/clock", {"advance_seconds": seconds}
                httpx.post(url, json=body, trust_env=False, timeout=60.0).raise_for_status()
        functions = client("lambda", self.aws_endpoint)
        for name in ROUNDS:
            function = self.outputs[CONTROL_STACK][name]
            functions.invoke(FunctionName=function, InvocationType="Event", Payload=b"{}")

    def restart_provider(self, name: str) -> None:
        """Kill -9 of a simulator and of its boxes; the hosts come up again."""
        self.providers[name].kill()
        deadline = time.monotonic() + 10
        while True:
            try:
                self.start_provider(name)
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def _link_to(self, name: str) -> Link:
        return Link(name, lambda: str(self.providers[name].hello["api_url"]))

    @property
    def _aws_pid(self) -> int:
        if self.aws is None:
            raise RuntimeError("the embedded AWS is not started")
        return self.aws.process.pid

    @property
    def _interpreter(self) -> Path:
        return self.data / "function"

    def _write_interpreter(self) -> None:
        """What runs the functions: Python with our clock, S3 behind a link."""
        store = f"http://127.0.0.1:{self.links['store'].port}"
        words = (sys.executable, "-S", "-s", "-P", str(FUNCTION))
        self._interpreter.write_text(
            "#!/bin/sh\n"
            f"export CHAOS_CLOCK={shlex.quote(str(self.clock.path))}\n"
            f"export AWS_ENDPOINT_URL_S3={store}\n"
            f'exec {shlex.join(words)} "$@"\n'
        )
        self._interpreter.chmod(0o755)
