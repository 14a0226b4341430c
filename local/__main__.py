"""Podferry on this machine: `python -m local run`, and `forget`, which deletes its state."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from local.assembly import BuildError, synthesized
from local.aws.data_dir import DataDir, lock
from local.aws.errors import LocalAWSError
from local.boxes.spec import Isolation
from local.boxes.user_namespace import subordinate_range
from local.processes import REPOSITORY, ProcessError
from local.stack import (
    PROVIDERS,
    LocalStack,
    Ports,
    StackError,
    StackInfo,
    make_data_directory,
    running_stack,
)

DEFAULT_DATA = Path(".podferry")
PARTS = ("aws", "base", "logs", *PROVIDERS)


def main(arguments: list[str]) -> int:
    """The exit code: 0, or 1 with one clear message."""
    options = _parse(arguments)
    try:
        if options.command == "build":
            synthesized(_say)
            return 0
        if options.command == "forget":
            _forget(options.data)
            return 0
        return _serve(options)
    except (BuildError, ProcessError, LocalAWSError, StackError) as error:
        sys.stderr.write(f"podferry: {error}\n")
        return 1


def _serve(options: argparse.Namespace) -> int:
    make_data_directory(options.data)
    running = running_stack(options.data)
    if running is not None:
        _say(f"a stack runs on {options.data} already (process {running.pid})")
        _introduce(running)
        return 0
    # Both signals end a start as well, which may be at work for a minute.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ports = Ports(
        aws=options.aws_port,
        api=options.api_port,
        providers={name: getattr(options, f"{name}_port") for name in PROVIDERS},
    )
    stack = LocalStack(options.data, _say, ports)
    try:
        _introduce(stack.start())
        _say("Ctrl-C ends it. The state stays: the next start finds the pods.")
        stack.run_reconciler()
        while True:
            _check_alive(stack)
            time.sleep(1.0)
    except KeyboardInterrupt:
        return 0
    finally:
        # A second Ctrl-C must not leave the servers to their own devices.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        stack.stop()


def _forget(data: Path) -> None:
    """Delete the state, also files that boxes made and that `rm` cannot remove."""
    running = running_stack(data)
    if running is not None:
        raise StackError(f"a stack runs on {data} (process {running.pid}): end it first")
    if not any((data / part).is_dir() for part in PARTS):
        raise StackError(f"{data.absolute()} holds no state of Podferry")
    # A stack that does not answer, or is not up yet, holds its data all the same.
    with lock(DataDir(data)):
        _remove(data)


def _remove(data: Path) -> None:
    if os.geteuid() == 0:
        shutil.rmtree(data)
        return
    has_range = subordinate_range("subuid") and shutil.which("newuidmap")
    isolation = Isolation.RANGE if has_range else Isolation.SINGLE
    command = [sys.executable, "-m", "local.boxes.remove", isolation.value, str(data.absolute())]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StackError(done.stderr.strip())


def _check_alive(stack: LocalStack) -> None:
    for server in (stack.aws, *stack.providers.values()):
        if server is not None and not server.is_alive:
            raise ProcessError(f"{server.name} ended by itself; see {stack.data / 'logs'}")


def _introduce(info: StackInfo) -> None:
    headers = '-H "$AUTH" -H "$JSON"'
    pod = '{"name": "first", "spec": {"image": "docker.io/library/debian:12"}}'
    simulators = "\n".join(
        f"  {name:10} {url}/state and {url}/bill: what the simulated provider knows"
        for name, url in info.control_urls.items()
    )
    _say(
        f"""
Podferry is up.

  API        {info.api_url}
  Swagger    {info.api_url}/docs
  Key        {info.api_key}
{simulators}

Try, in another terminal:

  export API={info.api_url} AUTH="Authorization: Bearer {info.api_key}" \\
    JSON="Content-Type: application/json"
  curl -s -H "$AUTH" $API/v1/offers
  curl -s {headers} $API/v1/pods -d '{pod}'
  curl -s -H "$AUTH" $API/v1/pods

README.md, "Use it", goes on from here.
"""
    )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the bundle, the layers and the template")
    run = commands.add_parser("run", help="run everything until Ctrl-C")
    forget = commands.add_parser("forget", help="delete the state of the stack")
    for command in (run, forget):
        command.add_argument("--data", type=Path, default=DEFAULT_DATA, help="where the state is")
    for name, what in (
        ("aws", "the embedded AWS"),
        ("api", "the HTTP API"),
        *((name, f"the simulated provider {name}") for name in PROVIDERS),
    ):
        run.add_argument(f"--{name}-port", type=int, default=0, help=f"port of {what}; 0 = free")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
