"""What can go wrong in the agent, one class per meaning.

AgentError
├── SettingsError            the environment or stored state cannot be used
├── WireError                a message does not have the agreed shape
├── ApiError                 the control plane refused a request
│   ├── TokenInvalidError    401: it does not know our token
│   └── EpochStaleError      403: another machine owns the pod; this one must end itself
├── ApiUnreachableError      no usable answer; worth another try
├── TransferError            an object could not be moved
│   └── ObjectConflictError  the store has other content under this name
├── CommandError             a command ended badly; becomes its report
└── StoppingError            the agent is ending or the command was cancelled
"""


class AgentError(Exception):
    """Root of all errors the agent raises on purpose; `code` is stable and goes on the wire."""

    code = "agent_error"
    retryable = False


class SettingsError(AgentError):
    code = "settings_invalid"


class WireError(AgentError):
    code = "invalid_arguments"


class ApiError(AgentError):
    """A problem answer of the control plane that another try will not change."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"the control plane answered {status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail


class TokenInvalidError(ApiError):
    """401: the token is unknown, for example because the machine was given up."""


class EpochStaleError(ApiError):
    """403 epoch_stale: this machine lost the pod and may only end itself."""


class ApiUnreachableError(AgentError):
    """A timeout, a broken connection, 429 or 5xx."""

    code = "api_unreachable"
    retryable = True

    def __init__(self, reason: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


class TransferError(AgentError):
    code = "transfer_failed"
    retryable = True


class ObjectConflictError(TransferError):
    code = "object_conflict"
    retryable = False


class CommandError(AgentError):
    """The end of a command that did not work, as it is reported."""

    def __init__(self, code: str, detail: str, *, retryable: bool = False) -> None:
        super().__init__(detail)
        self.code = code
        self.retryable = retryable


class StoppingError(AgentError):
    code = "cancelled"
    retryable = True
