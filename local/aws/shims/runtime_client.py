"""Python functions run under AWS's own runtime client.

MiniStack's Python worker turns every exception into `Runtime.HandlerError`, so Retry and Catch by
class name never match, and it restarts the worker after an exception. MiniStack has a proper
Runtime API for `provided.*` runtimes: Python functions are routed to it, with a bootstrap that
starts `awslambdaric`. Its sockets also get what they lack: no Nagle delay and buffered writes.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

import os
from functools import partial
from typing import Any

from ministack.core import lambda_runtime
from ministack.services import lambda_svc

from local.aws import runtime_site, worker
from local.aws.code_store import CodeStore
from local.aws.settings import Settings
from local.aws.shims import guard

BOOTSTRAP = '#!/bin/sh\nexec "$_LOCAL_AWS_PYTHON" -S -s -P "$_LOCAL_AWS_WORKER" "$_HANDLER"\n'
# What a function may see of the environment in which the embedded AWS was started.
INHERITED = ("PATH", "LANG", "LC_ALL", "TMPDIR")


def apply(settings: Settings) -> None:
    """Routes `python*` functions to the Runtime API server."""
    runtime_site.link(settings.data.runtime_site)
    store = CodeStore(settings.data.code)
    store.prune()
    environment = guard.take(lambda_svc, "_provided_worker_env")
    guard.take(lambda_svc, "_resolve_layer_zip")
    guard.take(lambda_runtime, "_workers")
    guard.replace(lambda_svc, "_provided_runtime_code_dir", partial(_unpack, store))
    guard.replace(
        lambda_svc, "_provided_worker_env", partial(_environment, settings, store, environment)
    )
    _route_python()
    _tune_sockets()


def end_workers() -> None:
    """Ends every function's process; the embedded AWS is about to end itself."""
    workers = [worker for pool in lambda_runtime._workers.values() for worker in pool]
    lambda_runtime.kill_workers(workers)


def _unpack(store: CodeStore, archive: bytes) -> str:
    directory = store.unpack(archive)
    bootstrap = directory / "bootstrap"
    if not bootstrap.exists():
        # Two first calls may come here at once; a rename never shows half a file.
        draft = bootstrap.with_name(f"bootstrap.{os.urandom(4).hex()}")
        draft.write_text(BOOTSTRAP)
        draft.chmod(0o755)
        draft.replace(bootstrap)
    return str(directory)


def _environment(
    settings: Settings,
    store: CodeStore,
    original: Any,
    config: dict[str, Any],
    code: str,
    port: int,
) -> dict[str, str]:
    variables: dict[str, str] = original(config, code, port)
    if not _is_python(config):
        return variables
    group = (config.get("LoggingConfig") or {}).get("LogGroup")
    return _own(variables, config) | {
        "AWS_ENDPOINT_URL": settings.endpoint,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{config['Runtime']}",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": group or f"/aws/lambda/{config['FunctionName']}",
        "PYTHONPATH": os.pathsep.join(
            [code, *_layers(config, store), str(settings.data.runtime_site)]
        ),
        "PYTHONUNBUFFERED": "1",
        "TZ": ":UTC",
        "_LOCAL_AWS_PARENT": str(os.getpid()),
        "_LOCAL_AWS_PYTHON": settings.python,
        "_LOCAL_AWS_WORKER": worker.__file__,
    }


def _own(variables: dict[str, str], config: dict[str, Any]) -> dict[str, str]:
    """Leaves out what came from this process; a function sees its template's settings."""
    wanted = {*INHERITED, *((config.get("Environment") or {}).get("Variables") or {})}
    return {
        name: value
        for name, value in variables.items()
        if name in wanted or os.environ.get(name) != value
    }


def _layers(config: dict[str, Any], store: CodeStore) -> list[str]:
    # Of two layers with the same file, the later one counts.
    layers = reversed(config.get("Layers", []))
    archives = [lambda_svc._resolve_layer_zip(layer) for layer in layers]
    roots = [store.unpack(archive) for archive in archives if archive]
    return [str(path) for root in roots for path in (root / "python", root)]


def _is_python(config: dict[str, Any]) -> bool:
    return str(config.get("Runtime", "python")).startswith("python")


def _route_python() -> None:
    worker_class = guard.take(lambda_runtime, "_worker_class_for")
    execute = guard.take(lambda_svc, "_execute_function_warm")
    execute_provided = guard.take(lambda_svc, "_execute_function_provided_warm")

    def choose_worker(config: dict[str, Any]) -> Any:
        return lambda_runtime.ProvidedWorker if _is_python(config) else worker_class(config)

    def run(function: dict[str, Any], event: Any, request_id: str) -> Any:
        is_python = _is_python(function.get("config") or function)
        return (execute_provided if is_python else execute)(function, event, request_id)

    guard.replace(lambda_runtime, "_worker_class_for", choose_worker)
    guard.replace(lambda_svc, "_execute_function_warm", run)


def _tune_sockets() -> None:
    build = guard.take(lambda_runtime.ProvidedWorker, "_build_handler_class")

    def build_tuned(self: Any, *args: Any) -> Any:
        handler = build(self, *args)
        handler.disable_nagle_algorithm = True
        handler.wbufsize = 65536
        return handler

    guard.replace(lambda_runtime.ProvidedWorker, "_build_handler_class", build_tuned)
