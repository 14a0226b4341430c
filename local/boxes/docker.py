"""The `docker` of a simulated virtual machine: enough of it to start one pod, and no more.

    docker version
    docker pull [-q] IMAGE
    docker run OPTIONS IMAGE [ARGUMENT...]      in the foreground, with the network of the host
    docker start -a NAME
    docker inspect NAME
    docker ps -q                                names, which are ids here
    docker exec NAME COMMAND...

A container is a real box inside the machine's box. What is not listed is refused, with the exit
code of the real one (125). Limits on memory and processes are read and not enforced: there is no
cgroup to do it with.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from local.boxes.base import ImageNotFoundError, check_image
from local.boxes.box import Box, BoxStartError
from local.boxes.network import ssh_listen
from local.boxes.spec import DEFAULT_ENVIRONMENT, GPU, BoxSpec, Isolation
from local.boxes.vm import CONTAINERS, GPU_FILE, IMAGE, SSH_PORT_VARIABLE

_REFUSED = 125
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_DEFAULT_SHARED_MEMORY = "64m"


class DockerError(Exception):
    """The engine cannot do it; the message is what it prints."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise DockerError(f"{message}; the simulated docker knows only what {__name__} lists")


def main(arguments: list[str]) -> int:
    parser = _commands()
    try:
        options = parser.parse_args(arguments)
        run: Callable[[argparse.Namespace], int] = options.run_command
        return run(options)
    except (DockerError, BoxStartError, ImageNotFoundError) as error:
        sys.stderr.write(f"docker: {error}\n")
        return _REFUSED


def _commands() -> argparse.ArgumentParser:
    parser = _Parser(prog="docker", allow_abbrev=False)
    commands = parser.add_subparsers(required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        added = commands.add_parser(name, allow_abbrev=False)
        added.set_defaults(run_command=run)
        return added

    command("version", lambda _: 0)
    pull = command("pull", _pull)
    pull.add_argument("-q", action="store_true")
    pull.add_argument("image")
    _add_run_options(command("run", _run))
    start = command("start", lambda options: _follow(_stored(options.name)))
    start.add_argument("-a", action="store_true", required=True)
    start.add_argument("name")
    command("inspect", lambda options: _inspect(options.name)).add_argument("name")
    command("ps", _list_running).add_argument("-q", action="store_true", required=True)
    execute = command("exec", _exec)
    execute.add_argument("name")
    execute.add_argument("argv", nargs=argparse.REMAINDER)
    return parser


def _add_run_options(run: argparse.ArgumentParser) -> None:
    run.add_argument("--name", required=True)
    run.add_argument("--network", choices=["host"], required=True)
    run.add_argument("--restart", choices=["no"], default="no")
    run.add_argument("--user", choices=["0"], default="0")
    run.add_argument("--entrypoint", required=True)
    run.add_argument("--env", "-e", action="append", default=[], type=_variable_name)
    run.add_argument("--gpus", choices=["all"])
    run.add_argument("--shm-size", type=_size, default=_DEFAULT_SHARED_MEMORY)
    run.add_argument("--memory", type=_size)
    run.add_argument("--pids-limit", type=int)
    run.add_argument("--ulimit", action="append")
    run.add_argument("--log-opt", action="append")
    run.add_argument("--stop-timeout", type=int)
    run.add_argument("image")
    run.add_argument("arguments", nargs=argparse.REMAINDER)


def _pull(options: argparse.Namespace) -> int:
    check_image(options.image)
    sys.stdout.write(f"{options.image}\n")
    return 0


def _run(options: argparse.Namespace) -> int:
    check_image(options.image)
    if _spec_path(options.name).exists():
        raise DockerError(f"Conflict. The container name {options.name!r} is already in use.")
    hostname = os.uname().nodename
    given = {name: os.environ[name] for name in options.env if name in os.environ}
    spec = BoxSpec(
        _spec_path(options.name).parent,
        Path(IMAGE),
        Isolation.ROOT,
        (options.entrypoint, *options.arguments),
        environment={
            **DEFAULT_ENVIRONMENT,
            **ssh_listen(int(os.environ.get(SSH_PORT_VARIABLE, "0"))),
            "HOSTNAME": hostname,
            **given,
        },
        hostname=hostname,
        gpu=_gpu() if options.gpus else None,
        shared_memory_bytes=options.shm_size,
    )
    return _follow(spec)


def _inspect(name: str) -> int:
    spec = _stored(name)
    sys.stdout.write(json.dumps([{"Name": f"/{name}", "Path": spec.argv[0]}]) + "\n")
    return 0


def _list_running(_: argparse.Namespace) -> int:
    prefix = f"{os.uname().nodename}-"
    for pid in sorted(Path(CONTAINERS).glob(f"{prefix}*/pid")):
        sys.stdout.write(pid.parent.name.removeprefix(prefix) + "\n")
    return 0


def _exec(options: argparse.Namespace) -> int:
    spec = _stored(options.name)
    try:
        pid = _pid_path(spec).read_text()
    except FileNotFoundError:
        raise DockerError(f"Container {options.name} is not running") from None
    module = ("-S", "-P", "-m", "local.boxes.enter", pid, str(spec.directory / "spec.json"))
    os.execv(sys.executable, [sys.executable, *module, *options.argv])


def _follow(spec: BoxSpec) -> int:
    """Run the container in the foreground: its output is ours, our SIGTERM is its."""
    box = Box(spec)
    is_ending = threading.Event()

    def pass_on(_number: int, _frame: FrameType | None) -> None:
        is_ending.set()
        if box.is_alive:
            box.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    with _output_copied(spec):
        box.start()
        if is_ending.is_set():
            box.terminate()
        _pid_path(spec).write_text(str(box.pid))
        end = box.wait()
        _pid_path(spec).unlink()
    if end is None or end.code is None:
        return 128 + (end.signal or 0 if end else 0)
    return end.code


@contextmanager
def _output_copied(spec: BoxSpec) -> Iterator[None]:
    """The box writes its log into a pipe, which is read for as long as the box lives."""
    spec.directory.mkdir(parents=True, exist_ok=True)
    if not spec.log_path.exists():
        os.mkfifo(spec.log_path, 0o600)
    reader = os.open(spec.log_path, os.O_RDONLY | os.O_NONBLOCK)
    # Without a writer of our own the pipe would end before the box has opened it.
    writer = os.open(spec.log_path, os.O_WRONLY)
    os.set_blocking(reader, True)
    copier = threading.Thread(target=_copy, args=(reader,))
    copier.start()
    try:
        yield
    finally:
        os.close(writer)
        copier.join()
        os.close(reader)


def _copy(reader: int) -> None:
    while part := os.read(reader, 65536):
        os.write(1, part)


def _stored(name: str) -> BoxSpec:
    path = _spec_path(name)
    if not path.exists():
        raise DockerError(f"Error: No such object: {name}")
    return BoxSpec.load(path)


def _spec_path(name: str) -> Path:
    # The host's name is in it, because the ids of a box's GPUs follow from where it lives.
    return Path(CONTAINERS, f"{os.uname().nodename}-{name}", "spec.json")


def _pid_path(spec: BoxSpec) -> Path:
    return spec.directory / "pid"


def _gpu() -> GPU:
    values = json.loads(Path(GPU_FILE).read_text())
    if values is None:
        raise DockerError('could not select device driver "" with capabilities: [[gpu]]')
    return GPU(**values)


def _variable_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise argparse.ArgumentTypeError("only names: a value here could be seen by every process")
    return text


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]+)([bkmg]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size like 64m")
    return int(match[1]) * _UNITS[match[2]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
