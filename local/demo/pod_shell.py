"""Run commands in a pod and read what they print."""

import base64
import time
from pathlib import Path
from typing import Any

from local.api import POLL_SECONDS, Api

POD_FILES = Path(__file__).parent / "pod"


class CommandFailedError(Exception):
    """A command in the pod did not end well; the message has what it printed."""


def run(api: Api, pod_id: str, seconds: int = 120, **command: Any) -> bytes:
    """The standard output of a command (`argv` or `script`, with `stdin` in base64).

    Raises:
        CommandFailedError: its exit code is not 0, or it did not end in time.
    """
    body = {"timeout_seconds": seconds, **command}
    started = api.post(f"/v1/pods/{pod_id}/exec", body, Prefer="wait=5")
    path = f"/v1/pods/{pod_id}/exec/{started['id']}"
    deadline = time.monotonic() + seconds + 30
    view = started
    while view["state"] in {"pending", "running"}:
        if time.monotonic() > deadline:
            raise CommandFailedError(f"no answer to {started['id']} within {seconds + 30} s")
        time.sleep(POLL_SECONDS)
        view = api.get(path)
    streams = _output(api, path)
    if view["state"] != "succeeded" or view["exit_code"] != 0:
        said = b"".join(streams.values()).decode(errors="replace")
        raise CommandFailedError(f"{view['state']}, exit code {view['exit_code']}: {said[-2000:]}")
    return streams["stdout"]


def run_file(api: Api, pod_id: str, name: str, seconds: int = 120) -> bytes:
    """Run one of the Python files of `local/demo/pod` in the pod."""
    source = (POD_FILES / name).read_bytes()
    return run(
        api,
        pod_id,
        seconds,
        argv=["python3", "-B", "-"],
        stdin=base64.b64encode(source).decode(),
    )


def put_file(api: Api, pod_id: str, path: str, content: bytes, mode: str = "644") -> None:
    """Write a small file in the pod."""
    script = f'mkdir -p "$(dirname {path})" && cat > {path} && chmod {mode} {path}'
    run(api, pod_id, script=script, stdin=base64.b64encode(content).decode())


def _output(api: Api, path: str) -> dict[str, bytes]:
    streams = {"stdout": b"", "stderr": b""}
    after, has_more = -1, True
    while has_more:
        view = api.get(path, after=after)
        for chunk in view["output"]:
            streams[chunk["stream"]] += base64.b64decode(chunk["data"])
        after, has_more = view["next_after"], view["has_more"]
    return streams
