"""Command line of the embedded AWS: takes the data directory and the ports, then runs it."""

import argparse
import importlib
import os
import sys
import tempfile
from pathlib import Path

from local.aws import data_dir
from local.aws.errors import LocalAWSError
from local.aws.settings import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, Settings


def main(argv: list[str] | None = None) -> int:
    """Runs until SIGTERM or SIGINT. Returns the exit code of the process."""
    arguments = _parser().parse_args(argv)
    data = data_dir.DataDir(Path(arguments.data).resolve())
    try:
        with data_dir.lock(data):
            return _run(arguments, data)
    except LocalAWSError as problem:
        print(f"local.aws: {problem}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m local.aws", description=__doc__)
    parser.add_argument("--data", required=True, help="directory that keeps the state")
    parser.add_argument("--port", type=int, default=0, help="AWS APIs; 0 = as before, or any free")
    parser.add_argument("--front-port", type=int, default=0, help="the HTTP API; 0 = likewise")
    parser.add_argument("--front-api", help="name of the HTTP API to serve if there are several")
    parser.add_argument("--python", default=sys.executable, help="interpreter for the functions")
    parser.add_argument(
        "--concurrency", type=int, default=16, help="function calls that run at the same time"
    )
    parser.add_argument("--end-with", type=int, metavar="PID", help="end when this process ends")
    return parser


def _run(arguments: argparse.Namespace, data: data_dir.DataDir) -> int:
    data.prepare()
    listeners = data_dir.bind(data, arguments.port, arguments.front_port)
    settings = Settings(
        data=data,
        port=listeners.port,
        front_port=listeners.front_port,
        python=arguments.python,
        concurrency=arguments.concurrency,
        front_api=arguments.front_api,
        end_with=arguments.end_with,
    )
    _configure_emulator(settings)
    # The emulator reads its environment while it is imported, so nothing may import it earlier.
    emulator = importlib.import_module("local.aws.emulator")
    emulator.run(settings, listeners)
    return 0


def _configure_emulator(settings: Settings) -> None:
    """Gives the emulator its settings, and hides the user's own AWS settings from it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    scratch = str(settings.data.scratch)
    tempfile.tempdir = scratch
    # Functions never run in containers here, and importing the client takes long.
    sys.modules["docker"] = None  # type: ignore[assignment]
    os.environ.update(
        AUTH="true",
        AWS_ACCESS_KEY_ID=ACCESS_KEY_ID,
        AWS_SECRET_ACCESS_KEY=SECRET_ACCESS_KEY,
        AWS_ENDPOINT_URL=settings.endpoint,
        BIND_HOST=data_dir.HOST,
        GATEWAY_PORT=str(settings.port),
        IOT_MTLS_ENABLED="0",
        LAMBDA_ACCOUNT_CONCURRENCY=str(settings.concurrency),
        LOG_LEVEL="WARNING",
        # Queue URLs are stored under this name: it may never change for an existing directory.
        MINISTACK_HOST="localhost",
        MINISTACK_REGION=REGION,
        PERSIST_STATE="1",
        S3_DATA_DIR=str(settings.data.objects),
        S3_PERSIST="1",
        SFTP_ENABLED="0",
        STATE_DIR=str(settings.data.state),
        TMPDIR=scratch,
    )
