"""The pod's secrets: in this process's memory, in the environment of its programs, nowhere else."""

import logging
import threading
from collections.abc import Mapping

from podferry_agent.api import ApiClient
from podferry_agent.errors import ApiError, ApiUnreachableError, CommandError, WireError
from podferry_agent.redaction import hide
from podferry_agent.wire import SecretsReply

_LOG = logging.getLogger(__name__)
_PATH = "/agent/v1/secrets"


class PodSecrets:
    """What the control plane gave for this machine's epoch; no file has it, so no capture can.

    Whatever was given once is taken out of logs, reports and the output of commands from then on.
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._variables: dict[str, str] | None = None

    def variables(self) -> Mapping[str, str]:
        """By variable; empty before they were asked for."""
        return self._variables or {}

    @property
    def are_known(self) -> bool:
        return self._variables is not None

    def renew(self, cancelled: threading.Event | None = None) -> None:
        """Ask for the present ones: the pod's programs are about to be started.

        Raises:
            CommandError: the pod's environment names secrets that there are not.
            ApiError, StoppingError: as `ApiClient.post`.
        """
        missing = self._take(self._api.post(_PATH, {}, cancelled))
        if missing:
            detail = f"the account has no secret {missing}, which the pod's environment names"
            raise CommandError("secret_missing", detail)

    def recall(self) -> bool:
        """One try after a restart of the agent, whose memory is empty; whether they are known."""
        try:
            missing = self._take(self._api.post_once(_PATH, {}))
        except (ApiError, ApiUnreachableError, WireError) as error:
            _LOG.warning("secrets_unknown", extra={"reason": str(error)})
            return False
        if missing:
            # What was running goes on without it.
            _LOG.error("secrets_missing", extra={"names": missing})
        return True

    def _take(self, answer: object) -> str:
        reply = SecretsReply.parse(answer)
        hide(reply.variables.values())
        self._variables = dict(reply.variables)
        return ", ".join(reply.missing)
