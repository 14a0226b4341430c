"""Corrections of the emulator, one file each, for what our templates and functions rely on.

Each file says what the emulator lacks and has an `apply` that replaces private names of it. The
emulator's version is therefore pinned, and every replaced name is checked before it is touched.
"""

from local.aws.settings import Settings
from local.aws.shims import (
    concurrency,
    cors,
    deployer,
    execution_end,
    execution_start,
    front_door,
    guard,
    item_journal,
    logs,
    metrics,
    parallel,
    resource_arns,
    routes,
    runtime_client,
    saver,
    schedules,
    secure_transport,
    state_files,
    task_tokens,
    write_once,
)


def apply_all(settings: Settings) -> None:
    """Applies every shim.

    Raises:
        ShimError: the installed emulator is not the pinned one or lacks a name.
    """
    guard.check_version()
    runtime_client.apply(settings)
    logs.apply(settings)
    metrics.apply()
    concurrency.apply()
    cors.apply()
    routes.apply()
    secure_transport.apply()
    write_once.apply()
    execution_start.apply()
    execution_end.apply()
    parallel.apply()
    task_tokens.apply()
    resource_arns.apply()
    changes = saver.apply()
    files = state_files.apply()
    deployer.apply(files)
    item_journal.apply(settings, files, changes)
    schedules.apply()
    front_door.apply(settings)
