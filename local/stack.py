"""The whole of Podferry on this machine: embedded AWS, the template, simulated providers.

Everything is kept below one data directory, so that a second start finds its state:

    aws/  fluence/  ...         state of the servers
    logs/                       what they print
    aws/logs/                   what the functions log
    lock                        held while a stack runs
    stack.json                  addresses and the process of the stack that runs now
    account.json                the account made at the first start, and its key
"""

import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx

from local.api import Api
from local.assembly import synthesized
from local.aws.client import client
from local.aws.data_dir import DataDir, lock
from local.aws.deploy import Outputs, deploy
from local.boxes.base import remove_unused_bases
from local.processes import Server, start_server
from local.providers.registry import SIMULATORS
from local.registry import Registry

Report = Callable[[str], None]

CONTROL_STACK = "PodferryControl"
STATE_STACK = "PodferryState"
PROVIDERS = tuple(SIMULATORS)


class StackError(Exception):
    """A stack cannot be what was asked for; the message says what to change."""


@dataclass(frozen=True, slots=True)
class StackInfo:
    """Where a running stack is, and the key of the account made for its user."""

    pid: int
    api_url: str
    aws_endpoint: str
    api_key: str
    operator_key: str
    provider_urls: dict[str, str]
    control_urls: dict[str, str]
    """Of the simulators: bills, faults, reclaims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Wanted ports; 0 takes the ones of the last time, or free ones."""

    aws: int = 0
    api: int = 0
    providers: Mapping[str, int] = field(default_factory=dict)
    """By the provider's name."""

    def by_name(self) -> dict[str, int]:
        return {"aws": self.aws, "api": self.api, **self.providers}


class LocalStack:
    """A stack that this process owns."""

    def __init__(self, data: Path, report: Report, ports: Ports | None = None) -> None:
        self.data = data.resolve()
        self._report = report
        self._ports = ports or Ports()
        self.aws: Server | None = None
        self.registry: Registry | None = None
        self.providers: dict[str, Server] = {}
        self.outputs: Outputs = {}
        self.info: StackInfo | None = None
        self._held: IO[str] | None = None

    def start(self) -> StackInfo:
        """Start every part; what is there from an earlier start is used again.

        Raises:
            StackError, ProcessError, LocalAWSError, BuildError: says which part and why.
        """
        make_data_directory(self.data)
        self._held = lock(DataDir(self.data))
        for name, port in self._ports.by_name().items():
            check_port(port, f"--{name}-port")
        assembly = synthesized(self._report)
        self.start_aws()
        self._remove_old_bases()
        for name in PROVIDERS:
            self.start_provider(name)
        self._start_registry()
        self._report("deploying the template on the embedded AWS")
        self.deploy(assembly)
        self._store_provider_keys()
        self.info = self._introduce()
        self._write("stack.json", asdict(self.info))
        return self.info

    def start_aws(self) -> None:
        """Start the embedded AWS (again) on the ports it had."""
        self._report("starting the embedded AWS")
        ports = ("--port", str(self._ports.aws), "--front-port", str(self._ports.api))
        module = ("local.aws", "--data", str(self.data / "aws"), *ports)
        end = ("--end-with", str(os.getpid()))
        self.aws = start_server(
            "embedded AWS", (*module, *end, *self.aws_options), self._log("aws")
        )

    def start_provider(self, name: str) -> None:
        """Start one simulated provider (again); its instances are as it left them."""
        self._report(f"starting the simulated provider {name}")
        known = self._read("ports.json")
        port = self._ports.providers.get(name) or known.get(name, 0)
        check_port(port, f"--{name}-port")
        module = ("local.providers", name, "--data", str(self.data / name))
        options = ("--port", str(port), "--key", self._provider_key(name))
        base = ("--base-cache", str(self.data / "base"))
        server = start_server(name, (*module, *options, *base), self._log(name))
        self.providers[name] = server
        self._write("ports.json", {**known, name: _port_of(server.hello["url"])})

    def _start_registry(self) -> None:
        """On the port of the last time, if that is free: the functions are set up with it."""
        known = self._read("ports.json")
        self.registry = Registry(known.get("registry", 0))
        self._write("ports.json", {**known, "registry": self.registry.port})

    def _remove_old_bases(self) -> None:
        """Before the simulators run: none of them starts a box meanwhile."""
        specs = self.data.glob("*/boxes/*/spec.json")
        try:
            for base in remove_unused_bases(self.data / "base", specs):
                self._report(f"removed {base}: no box uses it any more")
        except (OSError, ValueError) as error:
            # Old files cost space and nothing else.
            self._report(f"bases that no box uses could not be removed: {error}")

    def deploy(self, assembly: Path) -> None:
        """Create or update the stacks from the synthesized template."""
        registries = "" if self.registry is None else f"*={self.registry.url}"
        parameters = {CONTROL_STACK: {"PublicUrl": self.public_url, "ImageRegistries": registries}}
        self.outputs = deploy(assembly, self.aws_endpoint, self._report, parameters)

    def stop(self) -> None:
        """End every part; the data stays."""
        for server in (*self.providers.values(), self.aws):
            if server is not None:
                self._report(f"ending {server.name}")
                server.stop()
        if self.registry is not None:
            self.registry.stop()
        if self.info is not None:
            # Without it this stack never got up, and the file may be of one that did.
            (self.data / "stack.json").unlink(missing_ok=True)
        if self._held is not None:
            self._held.close()

    @property
    def api_url(self) -> str:
        return str(self._aws_hello["api_front"])

    @property
    def public_url(self) -> str:
        """Where machines call the API; a stack with something on the way there has its own."""
        return self.api_url

    def provider_address(self, name: str) -> str:
        """Where the control plane calls a simulated provider; the same may lie on the way."""
        return str(self.providers[name].hello["api_url"])

    @property
    def aws_options(self) -> tuple[str, ...]:
        """More options of the embedded AWS."""
        return ()

    @property
    def aws_endpoint(self) -> str:
        return str(self._aws_hello["endpoint"])

    @property
    def _aws_hello(self) -> dict[str, Any]:
        if self.aws is None:
            raise RuntimeError("the embedded AWS is not started")
        return self.aws.hello

    def run_reconciler(self) -> None:
        """Run one round of it now, as its schedule does once a minute: it rests after the meter."""
        for name in ("MeterFunctionName", "ReconcilerFunctionName"):
            function = self.outputs[CONTROL_STACK][name]
            client("lambda", self.aws_endpoint).invoke(FunctionName=function, Payload=b"{}")

    def _store_provider_keys(self) -> None:
        keys = {
            name: {
                "api_key": self.providers[name].hello["api_key"],
                "base_url": self.provider_address(name),
            }
            for name in self.providers
        }
        client("secretsmanager", self.aws_endpoint).put_secret_value(
            SecretId=self.outputs[STATE_STACK]["ProviderKeysSecretArn"],
            SecretString=json.dumps(keys),
        )

    def _introduce(self) -> StackInfo:
        operator_key = self._operator_key()
        return StackInfo(
            pid=os.getpid(),
            api_url=self.api_url,
            aws_endpoint=self.aws_endpoint,
            api_key=self._fresh_key(operator_key),
            operator_key=operator_key,
            provider_urls={n: s.hello["api_url"] for n, s in self.providers.items()},
            control_urls={n: s.hello["control_url"] for n, s in self.providers.items()},
        )

    def _operator_key(self) -> str:
        arn = self.outputs[STATE_STACK]["OperatorKeySecretArn"]
        secret = client("secretsmanager", self.aws_endpoint).get_secret_value(SecretId=arn)
        return operator_token(str(secret["SecretString"]))

    def _fresh_key(self, operator_key: str) -> str:
        """A key of the account made at the first start."""
        known = self._read("account.json")
        if known:
            return str(known["token"])
        operator = Api(self.api_url, operator_key)
        try:
            made = operator.post("/v1/accounts", {"name": "local"})
        finally:
            operator.close()
        self._write("account.json", made)
        return str(made["token"])

    def _provider_key(self, name: str) -> str:
        known = self._read("provider_keys.json")
        if name not in known:
            known[name] = f"sim-{secrets.token_hex(16)}"
            self._write("provider_keys.json", known)
        return str(known[name])

    def _log(self, name: str) -> Path:
        return self.data / "logs" / f"{name}.log"

    def _read(self, name: str) -> dict[str, Any]:
        path = self.data / name
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def _write(self, name: str, content: dict[str, Any]) -> None:
        path = self.data / name
        temporary = path.with_suffix(".new")
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(content, indent=2))
        temporary.replace(path)


def operator_token(secret: str) -> str:
    """The operator's bearer token, from the text of the deployment's secret."""
    text: str = json.loads(secret)["key"] if secret.startswith("{") else secret
    return text if text.startswith("pf_admin_") else f"pf_admin_{text}"


def make_data_directory(data: Path) -> None:
    """Make sure that this user can keep state there.

    Raises:
        StackError: the directory cannot be made or written.
    """
    try:
        data.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(data, os.R_OK | os.W_OK | os.X_OK) else "not yours to write"
    except OSError as error:
        reason = str(error.strerror)
    if reason:
        raise StackError(
            f"state cannot be kept in {data.absolute()} ({reason}): choose another directory with "
            "--data"
        )


def check_port(port: int, option: str) -> None:
    """Do nothing if the port can be listened on; 0 always can.

    Raises:
        StackError: it is none, or another program has it.
    """
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StackError(
            f"port {port} on 127.0.0.1 cannot be used ({reason}): end the program that has it, "
            f"or choose another one with {option}"
        ) from error


def running_stack(data: Path) -> StackInfo | None:
    """The stack that runs on this data directory already, if its API answers.

    Raises:
        StackError: what it left about itself makes no sense.
    """
    path = data / "stack.json"
    if not path.exists():
        return None
    try:
        info = StackInfo(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise StackError(f"{path} is not readable ({error}): end its stack, delete it") from error
    if not Path(f"/proc/{info.pid}").exists():
        return None
    try:
        answer = httpx.get(f"{info.api_url}/openapi.json", timeout=5.0, trust_env=False)
    except httpx.TransportError:
        return None
    return info if answer.status_code == httpx.codes.OK else None


@contextmanager
def stack_for_use(data: Path, report: Report) -> Iterator[StackInfo]:
    """The stack that runs, or one that lives as long as the block.

    Raises:
        StackError, ProcessError, LocalAWSError, BuildError: see `LocalStack.start`.
    """
    info = running_stack(data)
    if info is not None:
        report(f"using the stack that runs at {info.api_url}")
        yield info
        return
    stack = LocalStack(data, report)
    try:
        yield stack.start()
    finally:
        stack.stop()


def _port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])
