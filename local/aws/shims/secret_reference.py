"""`Ref` of a secret is its ARN.

MiniStack gives its name, so every grant on the secret names something that does not exist and the
functions that need it are refused.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

from types import ModuleType
from typing import Any

from ministack.services import secretsmanager

from local.aws.shims import guard

KIND = "AWS::SecretsManager::Secret"


def correct(provisioners: ModuleType) -> None:
    """Makes the ARN the physical id of a secret."""
    guard.take(secretsmanager, "_resolve")
    handlers: dict[str, Any] = guard.take(provisioners, "_RESOURCE_HANDLERS")[KIND]
    create, update, delete = handlers["create"], handlers["update"], handlers["delete"]

    def create_secret(*args: Any) -> Any:
        return _by_arn(create(*args))

    def update_secret(physical_id: str, *args: Any, **kwargs: Any) -> Any:
        return _by_arn(update(_name(physical_id), *args, **kwargs))

    def delete_secret(physical_id: str, properties: Any) -> Any:
        return delete(_name(physical_id), properties)

    handlers.update(create=create_secret, update=update_secret, delete=delete_secret)


def _by_arn(answer: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    _, attributes = answer
    return attributes["Arn"], attributes


def _name(physical_id: str) -> str:
    found, _ = secretsmanager._resolve(physical_id)
    return str(found or physical_id)
