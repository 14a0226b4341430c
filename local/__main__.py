"""Run Podferry on this machine: `python -m local run`."""

import argparse
import signal
import sys
import threading
from pathlib import Path

from local.assembly import BuildError, synthesized
from local.aws.errors import LocalAWSError
from local.processes import ProcessError
from local.stack import (
    LocalStack,
    Ports,
    StackError,
    StackInfo,
    make_data_directory,
    running_stack,
)

DEFAULT_DATA = Path(".podferry")


def main(arguments: list[str]) -> int:
    """The exit code: 0, or 1 with one clear message."""
    options = _parse(arguments)
    try:
        if options.command == "build":
            synthesized(_say)
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
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ports = Ports(
        aws=options.aws_port,
        api=options.api_port,
        fluence=options.fluence_port,
        vastai=options.vastai_port,
    )
    stack = LocalStack(options.data, _say, ports)
    try:
        _introduce(stack.start())
        _say("Ctrl-C ends it. The state stays: the next start finds the pods.")
        stack.run_reconciler()
        while not ended.wait(1.0):
            _check_alive(stack)
    finally:
        stack.stop()
    return 0


def _check_alive(stack: LocalStack) -> None:
    for server in (stack.aws, *stack.providers.values()):
        if server is not None and not server.is_alive:
            raise ProcessError(f"{server.name} ended by itself; see {stack.data / 'logs'}")


def _introduce(info: StackInfo) -> None:
    auth = '-H "Authorization: Bearer $PODFERRY_KEY"'
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

  export PODFERRY_KEY={info.api_key}
  curl -s {auth} {info.api_url}/v1/offers
  curl -s {auth} -H 'Content-Type: application/json' -d '{pod}' {info.api_url}/v1/pods
  curl -s {auth} {info.api_url}/v1/pods

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
    run.add_argument("--data", type=Path, default=DEFAULT_DATA, help="where the state is kept")
    for name, what in (
        ("aws", "the embedded AWS"),
        ("api", "the HTTP API"),
        ("fluence", "the simulated Fluence"),
        ("vastai", "the simulated Vast.ai"),
    ):
        run.add_argument(f"--{name}-port", type=int, default=0, help=f"port of {what}; 0 = free")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
