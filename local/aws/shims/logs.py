"""Function logs: quick to collect, not kept for ever, and also in plain files.

MiniStack waits 50 ms for output of a handler that printed none, makes a log stream per call and
never drops one, so a day of heartbeats would fill memory and every save.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

from pathlib import Path
from typing import Any

from ministack.core.lambda_runtime import ProvidedWorker
from ministack.services import cloudwatch_logs, lambda_svc

from local.aws.settings import Settings
from local.aws.shims import guard

FIRST_LINE_WAIT_SECONDS = 0.004
IDLE_SECONDS = 0.002
KEPT_STREAMS = 100
FILE_LIMIT_BYTES = 10_000_000


def apply(settings: Settings) -> None:
    """Shortens the wait, bounds the streams of a group, and writes `logs/<function>.log`."""
    drain = guard.take(ProvidedWorker, "_drain_stderr_bounded")
    emit = guard.take(lambda_svc, "_emit_lambda_logs")
    guard.take(cloudwatch_logs, "_log_groups")

    def drain_quickly(self: Any, first_line_wait: float = 0.0, **_: float) -> Any:
        wait = max(first_line_wait, FIRST_LINE_WAIT_SECONDS)
        return drain(self, first_line_wait=wait, idle_confirm=IDLE_SECONDS)

    def emit_bounded(
        function: dict[str, Any], request_id: str, text: str, *args: Any, **kwargs: Any
    ) -> None:
        emit(function, request_id, text, *args, **kwargs)
        config = function.get("config") or function
        _drop_oldest(config)
        if text:
            _append(settings.data.logs / f"{config['FunctionName']}.log", text)

    guard.replace(ProvidedWorker, "_drain_stderr_bounded", drain_quickly)
    guard.replace(lambda_svc, "_emit_lambda_logs", emit_bounded)


def _drop_oldest(config: dict[str, Any]) -> None:
    chosen = (config.get("LoggingConfig") or {}).get("LogGroup")
    group = cloudwatch_logs._log_groups.get(chosen or f"/aws/lambda/{config.get('FunctionName')}")
    if group is None:
        return
    streams = group["streams"]
    for stream in list(streams)[: max(0, len(streams) - KEPT_STREAMS)]:
        streams.pop(stream, None)


def _append(file: Path, text: str) -> None:
    if file.exists() and file.stat().st_size > FILE_LIMIT_BYTES:
        file.replace(file.with_suffix(".log.1"))
    with file.open("a") as log:
        log.write(f"{text.rstrip()}\n")
