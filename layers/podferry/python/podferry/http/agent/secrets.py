"""A pod's secrets on their way to its machine."""

from pydantic import Field

from podferry.http.agent.fields import AgentInput
from podferry.http.models.fields import Output
from podferry.services.agent.secrets import GivenSecrets


class SecretsBody(AgentInput):
    """An agent that is about to start the pod's programs."""


class SecretsReply(Output):
    """Texts by variable, and the names of secrets that there are not."""

    variables: dict[str, str] = Field(repr=False)
    missing: tuple[str, ...]

    @classmethod
    def of(cls, given: GivenSecrets) -> "SecretsReply":
        return cls(variables=given.variables, missing=given.missing)
