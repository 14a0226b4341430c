"""Makes sure that the emulator is the one the shims were written for."""

from importlib.metadata import version
from types import ModuleType
from typing import Any

from local.aws.errors import ShimError

PACKAGE = "ministack"
PINNED = "1.5.33"


def check_version() -> None:
    """Refuses any other version of the emulator.

    Raises:
        ShimError: another version is installed.
    """
    installed = version(PACKAGE)
    if installed != PINNED:
        raise ShimError(
            f"{PACKAGE} {installed} is installed, the shims need {PINNED}: "
            f"install {PACKAGE}=={PINNED}, or review local/aws/shims and move the pin"
        )


def take(owner: ModuleType | type, name: str) -> Any:
    """Returns a private name of the emulator that a shim is about to wrap.

    Raises:
        ShimError: the name is not there.
    """
    if not hasattr(owner, name):
        raise ShimError(
            f"{owner.__name__} has no {name}, but {PACKAGE} {PINNED} does: "
            f"reinstall {PACKAGE}=={PINNED}"
        )
    return getattr(owner, name)


def replace(owner: ModuleType | type, name: str, value: Any) -> None:
    """Puts our version in the place of a name that must exist."""
    take(owner, name)
    setattr(owner, name, value)
