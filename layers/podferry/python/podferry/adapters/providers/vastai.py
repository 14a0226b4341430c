"""Vast.ai's containers as a `GpuCloud`, on demand and by bid.

From the provider's documentation and public clients as of 2026-11-30. What to keep in mind: an
offer can be rented once and its id dies with it; a refused create may leave a stopped instance
behind; a destroy that says success is not proof; disk is billed until the instance is destroyed;
a machine that is outbid is stopped without warning, goes on to bill its disk, and wakes up when our
bid leads again; a 404 also stands for a bad key or session, so only its words prove absence.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from podferry.adapters.providers.vastai_launch import MAX_ARGUMENTS, launch_body
from podferry.adapters.providers.vastai_offers import (
    PER_SECOND,
    PROVIDER,
    VastOffer,
    offers_of,
    search_body,
)
from podferry.adapters.providers.vastai_view import Instance, view_of
from podferry.adapters.providers.wire import (
    ProviderHTTP,
    WireModel,
    kind_of,
    pages,
    parsed,
    retry_after_seconds,
)
from podferry.domain.errors import (
    CloudError,
    OfferGoneError,
    OutcomeUnknownError,
    ProviderBusyError,
    ProviderRefusedError,
    QuotaExceededError,
)
from podferry.domain.offer import Channel, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import BootTraits, CloudTraits, LaunchRequest, MachineView

DEFAULT_BASE_URL = "https://console.vast.ai"

_PAGE_SIZE = 25
_MIN_INTERVAL_SECONDS: Mapping[str, float] = {
    "list_offers": 6.0,
    "create": 4.5,
    "find": 1.0,
    "get": 2.0,
    "give_up": 3.0,
}
_CREATE_BUSY_SECONDS = 12.0
_DAILY_QUOTA_SECONDS = 3600.0

_GONE_WORDS = ("no_such_instance", "not_found")
_CREATE_REFUSALS: tuple[tuple[str, type[CloudError]], ...] = (
    ("no_such_ask", OfferGoneError),
    ("spend_rate_limit", QuotaExceededError),
)


class _Offers(WireModel):
    offers: list[Any]


class _Answer(WireModel):
    """What any answer may carry; a part of it is often missing."""

    success: bool | None = None
    error: Any = None
    msg: Any = None
    detail: Any = None
    new_contract: str | None = None

    @property
    def words(self) -> str:
        return " ".join(str(part) for part in (self.error, self.msg, self.detail) if part)


class _OneInstance(WireModel):
    instances: Instance | None


class _InstancePage(WireModel):
    instances: list[Instance]
    next_token: str | None = None


class VastCloud:
    """Vast.ai with one key."""

    name = PROVIDER
    traits = CloudTraits(
        boots={
            Kind.CONTAINER: BootTraits(
                channel=Channel.ENTRYPOINT, bootstrap_limit=MAX_ARGUMENTS, deadline_seconds=600
            ),
        },
        poll_seconds=10,
        listing_settles_seconds=60,
        failed_is_final=False,
        markets=(Market.ON_DEMAND, Market.SPOT),
        billing=PER_SECOND,
        can_cancel_starting=True,
        reclaim_notice_seconds=None,
        shows_price=True,
        shows_billing_start=True,
    )
    """Limits and intervals: docs.vast.ai, OpenAPI files and guides. Billing: guide "pricing"."""
    min_interval_seconds = _MIN_INTERVAL_SECONDS

    def __init__(
        self, api_key: str, base_url: str | None = None, client: httpx.Client | None = None
    ) -> None:
        self._http = ProviderHTTP(
            self.name,
            _host(base_url or DEFAULT_BASE_URL),
            {"Authorization": f"Bearer {api_key}"},
            client,
        )

    def list_offers(self, wanted: Requirements) -> list[Offer]:
        """See the port. The cheapest few hundred that meet the parts Vast can filter by."""
        answer = self._http.send("POST", "/api/v0/bundles/", body=search_body(wanted))
        self._check(answer)
        rows = self._http.read(answer, _Offers).offers
        readable = [row for item in rows if (row := self._http.read_offer(item, VastOffer))]
        return [offer for row in readable for offer in offers_of(row, wanted)]

    def create(self, request: LaunchRequest) -> str:
        """See the port."""
        path = f"/api/v0/asks/{int(request.offer.reference['ask_id'])}/"
        try:
            answer = self._http.send_create("PUT", path, body=launch_body(request))
        except ProviderBusyError as error:
            # A create that comes too early is punished with a longer interval than usual.
            error.retry_after_seconds = max(error.retry_after_seconds, _CREATE_BUSY_SECONDS)
            raise
        said = parsed(answer, _Answer)
        if said is not None and answer.is_success and said.success is not False:
            if said.new_contract is not None:
                return said.new_contract
            raise OutcomeUnknownError("vastai took the launch but named no instance")
        raise self._create_refusal(answer, said)

    def find(self, stamp: str) -> list[MachineView]:
        """See the port. All pages, narrowed by label; the label is checked here as well."""
        instances = self._pages({"label": {"eq": stamp}})
        return [view_of(instance) for instance in instances if instance.label == stamp]

    def list_machines(self) -> list[MachineView]:
        """See the port."""
        return [view_of(instance) for instance in self._pages({})]

    def get(self, provider_id: str) -> MachineView:
        """See the port. `{"instances": null}` is how Vast says that there is none."""
        answer = self._http.send("GET", _instance_path(provider_id))
        if _says_gone(answer):
            return MachineView.missing(provider_id)
        self._check(answer)
        instance = self._http.read(answer, _OneInstance).instances
        if instance is None:
            return MachineView.missing(provider_id, "null")
        return view_of(instance)

    def give_up(self, provider_id: str) -> None:
        """See the port."""
        answer = self._http.send("DELETE", _instance_path(provider_id))
        if not _says_gone(answer):
            self._check(answer)

    def _pages(self, filters: dict[str, Any]) -> Iterator[Instance]:
        def ask(token: str | None) -> _InstancePage:
            params = {"limit": str(_PAGE_SIZE), "select_filters": json.dumps(filters)}
            params |= {"after_token": token} if token else {}
            answer = self._http.send("GET", "/api/v1/instances/", params=params)
            self._check(answer)
            return self._http.read(answer, _InstancePage)

        for page in pages(self.name, ask, lambda page: page.next_token):
            yield from page.instances

    def _check(self, answer: httpx.Response) -> None:
        """Raise unless the answer is a success; an error may come with any status."""
        said = parsed(answer, _Answer)
        if said is not None and said.error == "search_quota_exceeded":
            raise ProviderBusyError(
                "vastai's daily search quota is used up",
                retry_after_seconds=_quota_seconds(answer),
            )
        if not answer.is_success:
            raise self._http.refused(answer, said.words if said else "")
        if said is not None and said.success is False:
            raise ProviderBusyError(f"vastai said: {self._http.scrubbed(said.words)}")

    def _create_refusal(self, answer: httpx.Response, said: _Answer | None) -> CloudError:
        if said is None:
            if answer.is_success:
                return OutcomeUnknownError("vastai took the launch; its answer cannot be read")
            return self._http.refused(answer, "")
        if said.new_contract is not None:
            words = self._http.scrubbed(said.words)
            # A stopped instance exists and bills its disk: the caller finds it by its label.
            return OutcomeUnknownError(
                f"vastai refused the launch but made instance {said.new_contract}: {words}"
            )
        return self._http.refusal(answer, said.words, kind_of(said.words, _CREATE_REFUSALS))


def _host(base_url: str) -> str:
    """Without `/api/v0`: the list has another version than the rest."""
    return re.sub(r"(/api(/v[0-9]+)?)?/*$", "", base_url)


def _instance_path(provider_id: str) -> str:
    if not provider_id.isdecimal():
        raise ProviderRefusedError(f"vastai's instance ids are numbers, not {provider_id!r}")
    return f"/api/v0/instances/{provider_id}/"


def _says_gone(answer: httpx.Response) -> bool:
    said = parsed(answer, _Answer)
    if said is None or said.success is True:
        return False
    return any(word in said.words for word in _GONE_WORDS)


def _quota_seconds(answer: httpx.Response) -> float:
    """Time to the end of the daily quota; the header's unit is not documented."""
    if (seconds := retry_after_seconds(answer)) is not None:
        return seconds
    text = answer.headers.get("X-RateLimit-Reset", "")
    if not text.isdecimal():
        return _DAILY_QUOTA_SECONDS
    number = float(text)
    return max(number - time.time(), 0.0) if number > 10**9 else number
