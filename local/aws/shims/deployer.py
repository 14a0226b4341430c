"""The part of the emulator that deploys templates is loaded when it is first needed.

It imports every service there is, which takes more than a second of a start that needs none of it.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

from typing import Any

from ministack import app as ministack_app
from ministack.core import persistence

from local.aws.shims import guard, secret_reference
from local.aws.shims.state_files import StateFiles

NAME = "cloudformation"


def apply(files: StateFiles) -> None:
    """Loads it, its state and its corrections with its first request."""
    files.withhold(NAME)
    _skip_at_start()
    original = guard.take(ministack_app, "_get_module")

    def get_module(name: str) -> Any:
        if name != NAME or NAME in ministack_app._loaded_modules:
            return original(name)
        return _load(files, original)

    guard.replace(ministack_app, "_get_module", get_module)


def _skip_at_start() -> None:
    load_all = guard.take(ministack_app, "_load_persisted_state")
    services = guard.take(ministack_app, "_state_map")

    def load_others() -> None:
        module = services.pop(NAME)
        try:
            load_all()
        finally:
            services[NAME] = module

    guard.replace(ministack_app, "_load_persisted_state", load_others)


def _load(files: StateFiles, get_module: Any) -> Any:
    used = set(ministack_app._build_persistence_save_dict())
    module = get_module(NAME)
    services = ministack_app._build_persistence_save_dict()
    files.note_pristine(
        (name, state()) for name, state in services.items() if name not in used and name != NAME
    )
    state = persistence.load_state(NAME)
    if state:
        module.load_persisted_state(state)
    files.release(NAME)
    secret_reference.correct(module.provisioners)
    return module
