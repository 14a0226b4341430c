"""What Google's error codes mean: those of answers, and those in operations."""

import json
from typing import Any

import httpx

from podferry.adapters.providers.wire import ProviderHTTP
from podferry.domain.errors import (
    CloudError,
    KeyRefusedError,
    NoCapacityError,
    OfferGoneError,
    OutcomeUnknownError,
    ProviderBusyError,
    ProviderRefusedError,
    QuotaExceededError,
)

REASONS: dict[str, type[CloudError]] = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": NoCapacityError,
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": NoCapacityError,
    "RESOURCE_POOL_EXHAUSTED": NoCapacityError,
    "STOCKOUT": NoCapacityError,
    # Said of zones that do not have the machine type.
    "UNSUPPORTED_OPERATION": OfferGoneError,
    "RESOURCE_NOT_FOUND": OfferGoneError,
    "notFound": OfferGoneError,
    "QUOTA_EXCEEDED": QuotaExceededError,
    "quotaExceeded": QuotaExceededError,
    "forbidden": KeyRefusedError,
    "insufficientPermissions": KeyRefusedError,
    "rateLimitExceeded": ProviderBusyError,
    "userRateLimitExceeded": ProviderBusyError,
    # A machine of our name exists: it is found by its stamp.
    "RESOURCE_ALREADY_EXISTS": OutcomeUnknownError,
    "alreadyExists": OutcomeUnknownError,
}


def refusal_of(http: ProviderHTTP, answer: httpx.Response) -> CloudError:
    """The error that a 4xx answer stands for."""
    reason, message = words_of(answer)
    said = f"gce answered {answer.status_code} {reason}: {http.scrubbed(message) or 'no reason'}"
    kind = REASONS.get(reason, ProviderRefusedError)
    if kind is ProviderBusyError:
        return ProviderBusyError(f"{said}; try again")
    if issubclass(kind, ProviderRefusedError) and answer.status_code == 403:
        said += "; give the service account the right, or the project its billing account"
    return kind(said)


def words_of(answer: httpx.Response) -> tuple[str, str]:
    """The reason and the message of an error body; empty where it has none."""
    try:
        error: Any = json.loads(answer.content)["error"]
        reasons = [each.get("reason", "") for each in error.get("errors", [])]
        return (reasons or [""])[0], str(error.get("message", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", ""
