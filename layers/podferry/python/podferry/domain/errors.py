"""Every error Podferry raises, as one tree.

    PodferryError
    ├── InvalidRequestError            the caller can mend it
    │   ├── PayloadMismatchError       same Idempotency-Key, other body
    │   └── TokenInvalidError          no key, unknown key, revoked or used up
    ├── ForbiddenError                 the key is good, the right is missing
    │   └── EpochStaleError            a machine that is no longer the pod's machine
    ├── NotFoundError                  also for things of other accounts
    ├── ConflictError                  the state does not allow it, or it moved meanwhile
    │   ├── WrongStateError
    │   ├── VolumeBusyError            another pod's machine may write it
    │   ├── SecretMissingError         a pod names a secret that its account does not have
    │   ├── AlreadyRegisteredError     a boot token was used with another machine token
    │   └── OperationCancelledError    the user changed their mind during a workflow
    ├── SnapshotError
    │   ├── SnapshotMissingError       expected and not in the store
    │   ├── SnapshotCorruptError       in the store and not what was recorded
    │   └── SnapshotUnverifiedError    a capture that may not be relied on
    ├── MachineError
    │   ├── MachineLostError           the provider proves it gone
    │   ├── BootFailedError            did not report in time, or the provider gave it up
    │   ├── UnreachableError           over SSH: nothing answers, or the connection broke
    │   ├── LoginRefusedError          over SSH: it does not take our key
    │   ├── HostChangedError           over SSH: it is not the machine that it was
    │   └── AgentFailedError           a command on the machine failed
    ├── HalfFailedError                the stop or the start of a move failed
    ├── CloudError                     a GPU provider's answer, see ports/gpu_cloud.py
    │   ├── NoCapacityError            try another offer
    │   │   └── OfferGoneError
    │   ├── PriceRaisedError           the contract costs more than the cap
    │   ├── QuotaExceededError         the provider lends this account no more of it
    │   ├── ProviderBusyError          rate limited or 5xx on a call that is safe to repeat
    │   ├── ProviderRefusedError       key, balance or request wrong; do not retry
    │   │   └── KeyRefusedError        the key itself: wrong, expired or without a right
    │   ├── NotGoneYetError            ask again
    │   └── OutcomeUnknownError        the create call may have made a machine
    └── InternalError                  ours to mend

Each class has a stable `code`; `http/errors.py` alone knows statuses.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing wrong with a request: where it stands and what is wrong with it."""

    where: str
    problem: str


class PodferryError(Exception):
    """Root of the tree. `detail` is meant for the caller: what, where, how to mend it."""

    code = "internal"
    is_retryable = False

    def __init__(self, detail: str, *, fields: tuple[FieldProblem, ...] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fields = fields


class InvalidRequestError(PodferryError):
    """The request cannot be carried out as it stands."""

    code = "invalid_request"


class PayloadMismatchError(InvalidRequestError):
    """An Idempotency-Key was used again with another request."""

    code = "idempotency_key_reused"


class TokenInvalidError(InvalidRequestError):
    """No token, or one that is unknown, revoked, expired or used up."""

    code = "token_invalid"


class ForbiddenError(PodferryError):
    """The token is good but does not carry the right."""

    code = "forbidden"


class EpochStaleError(ForbiddenError):
    """The machine is no longer its pod's machine; it must end itself and save nothing."""

    code = "epoch_stale"


class NotFoundError(PodferryError):
    """No such thing in the caller's account."""

    code = "not_found"


class ConflictError(PodferryError):
    """Something moved between reading and writing, or stands in the way."""

    code = "conflict"


class WrongStateError(ConflictError):
    """The thing exists but its state does not allow the request."""

    code = "wrong_state"


class VolumeBusyError(ConflictError):
    """Another machine holds the right to write the volume."""

    code = "volume_busy"


class SecretMissingError(ConflictError):
    """The pod's environment names a secret that the account does not have: add it, start again."""

    code = "secret_missing"


class AlreadyRegisteredError(ConflictError):
    """A boot token is used up: another process registered this machine."""

    code = "already_registered"


class OperationCancelledError(ConflictError):
    """The wish behind a running operation was withdrawn."""

    code = "operation_cancelled"


class SnapshotError(PodferryError):
    """A snapshot is not what it has to be."""

    code = "snapshot_error"


class SnapshotMissingError(SnapshotError):
    """An object that a committed snapshot needs is not in the store."""

    code = "snapshot_missing"


class SnapshotCorruptError(SnapshotError):
    """An object that a committed snapshot needs has another size or checksum."""

    code = "snapshot_corrupt"


class SnapshotUnverifiedError(SnapshotError):
    """A capture whose objects are not all in the store as the agent recorded them."""

    code = "snapshot_unverified"


class MachineError(PodferryError):
    """A rented machine does not do what it has to."""

    code = "machine_error"


class MachineLostError(MachineError):
    """The provider proves that the machine is gone."""

    code = "machine_lost"


class BootFailedError(MachineError):
    """The machine did not become ready within its deadline, or its provider gave it up."""

    code = "boot_failed"


class UnreachableError(MachineError):
    """Nothing answers on the machine's SSH port, or the connection broke."""

    code = "machine_unreachable"


class LoginRefusedError(MachineError):
    """The machine's SSH server does not take the key that its provider was given."""

    code = "machine_login_refused"


class HostChangedError(MachineError):
    """What answers on the machine's SSH port shows another host key than before."""

    code = "machine_host_changed"


class AgentFailedError(MachineError):
    """A command ended in failure on the machine."""

    code = "agent_failed"


class HalfFailedError(PodferryError):
    """The stop or the start that makes up a move failed; that operation says why."""

    code = "half_failed"


class CloudError(PodferryError):
    """A GPU provider's answer that is not success."""

    code = "provider_error"


class NoCapacityError(CloudError):
    """The provider has no such machine free; another offer may do."""

    code = "no_capacity"
    is_retryable = True


class OfferGoneError(NoCapacityError):
    """The offer was taken between listing and renting."""

    code = "offer_gone"


class PriceRaisedError(NoCapacityError):
    """The contract would cost more than the cap; the machine was given back."""

    code = "price_raised"


class QuotaExceededError(NoCapacityError):
    """The provider lends this account no more of this kind."""

    code = "quota_exceeded"


class ProviderBusyError(CloudError):
    """Rate limited, or a passing fault on a call that is safe to repeat."""

    code = "provider_busy"
    is_retryable = True

    def __init__(self, detail: str, *, retry_after_seconds: float = 5.0) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class ProviderRefusedError(CloudError):
    """The key, the balance or the request is wrong; repeating it does not help."""

    code = "provider_refused"


class KeyRefusedError(ProviderRefusedError):
    """The provider does not take the key, or the key lacks a right."""

    code = "provider_unauthorised"


class NotGoneYetError(CloudError):
    """The machine cannot be given up yet, or is not gone yet; ask again."""

    code = "not_gone_yet"
    is_retryable = True


class OutcomeUnknownError(CloudError):
    """The create call was cut off: a machine may exist. Look by stamp before renting again."""

    code = "outcome_unknown"


class InternalError(PodferryError):
    """A broken invariant of our own."""

    code = "internal"
