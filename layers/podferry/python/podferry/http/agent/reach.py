"""The pod's host key and the keys of its account."""

from typing import Annotated

from pydantic import Field

from podferry.http.agent.fields import AgentInput
from podferry.http.models.fields import Output

PrivateKey = Annotated[str, Field(min_length=1, max_length=4096)]


class HostKeyBody(AgentInput):
    """A new key for a pod that has none; `null` only asks."""

    private_key: PrivateKey | None = Field(default=None, repr=False)


class HostKeyReply(Output):
    """The pod's key, which may be another than the offered one."""

    private_key: str | None = Field(repr=False, description="In OpenSSH's format.")


class LoginKeysBody(AgentInput):
    """An agent at whose door somebody knocks."""


class LoginKeysReply(Output):
    """Lines of an `authorized_keys` file."""

    authorized_keys: tuple[str, ...]
