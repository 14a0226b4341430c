"""RunPod's pods as a `GpuCloud`: REST API v2, on-demand only.

From the provider's documentation and public clients as of 2026-11-30. What to keep in mind: names
are not unique and a create has no idempotency; a create may answer 5xx and have made a pod; "no
capacity" is a 400 told apart by its words alone; a pod that was just made may be unknown for
minutes; a stopped or failed pod costs money until it is terminated.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx

from podferry.adapters.providers.runpod_launch import MAX_BODY_BYTES, launch_body
from podferry.adapters.providers.runpod_offers import (
    CLOUDS,
    PER_SECOND,
    PROVIDER,
    CamelModel,
    Catalog,
    GpuType,
    offers_of,
)
from podferry.adapters.providers.runpod_view import Pod, PodPage, view_of
from podferry.adapters.providers.wire import ProviderHTTP, kind_of, pages, parsed
from podferry.domain.errors import (
    CloudError,
    NotGoneYetError,
    OfferGoneError,
    ProviderBusyError,
    ProviderRefusedError,
    QuotaExceededError,
)
from podferry.domain.offer import Channel, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import BootTraits, CloudTraits, LaunchRequest, MachineView

DEFAULT_BASE_URL = "https://api.runpod.io"
_PAGE_SIZE = 1000
# Quotas are told by headers, and a 429 says when to come back.
_NO_INTERVALS: Mapping[str, float] = {}

# What a refused create means, by status; a 400 by its words. A create asks for one GPU type in one
# place, so its lack of capacity means that this offer is gone.
_STATUSES: Mapping[int, type[CloudError]] = {
    402: ProviderRefusedError,
    403: QuotaExceededError,
    404: OfferGoneError,
    413: ProviderRefusedError,
    422: ProviderRefusedError,
}
REFUSALS: tuple[tuple[str, type[CloudError]], ...] = (
    (r"balance|funds|credit", ProviderRefusedError),
    (r"(spend|spending|quota|limit)\b.*\b(exceed|reach)", QuotaExceededError),
    (r"no longer any instances|no instances?\b.*\bavailable", OfferGoneError),
    (
        r"could not be placed|(no|not enough|insufficient) (available )?(capacity|gpus?)\b",
        OfferGoneError,
    ),
    (r"requested specifications|out of stock|enough disk space", OfferGoneError),
)


class _Problem(CamelModel):
    """An error of RunPod's own: a page of a proxy in front of it is none."""

    title: str
    status: int
    detail: str = ""
    errors: list[Any] | None = None

    @property
    def words(self) -> str:
        """The reason; of a refused body also what is wrong where, which names no values."""
        parts = (self.detail, *(self.errors or ()))
        return "; ".join(part for part in parts if part and isinstance(part, str))


class RunpodCloud:
    """RunPod with one key."""

    name = PROVIDER
    traits = CloudTraits(
        boots={
            Kind.CONTAINER: BootTraits(
                channel=Channel.ENTRYPOINT, bootstrap_limit=MAX_BODY_BYTES, deadline_seconds=600
            ),
        },
        poll_seconds=10,
        listing_settles_seconds=300,
        failed_is_final=False,
        markets=(Market.ON_DEMAND,),
        billing=PER_SECOND,
        can_cancel_starting=True,
        reclaim_notice_seconds=None,
        shows_price=True,
        shows_billing_start=True,
    )
    """Limit: OpenAPI of REST v2 and guide "migrate from v1", which has 102,400 bytes for a body.
    Billing: pricing pages, of which one says second and another minute."""
    min_interval_seconds = _NO_INTERVALS

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
        """See the port. One question for each cloud: stock is told for one at a time."""
        return [offer for cloud in CLOUDS for offer in self._offers_in(cloud, wanted)]

    def create(self, request: LaunchRequest) -> str:
        """See the port."""
        answer = self._http.send_create(
            "POST", "/v2/pods", body=launch_body(request), own=frozenset({403})
        )
        if answer.is_success:
            return self._http.read_made(answer, Pod).id
        raise self._refusal(answer)

    def find(self, stamp: str) -> list[MachineView]:
        """See the port. There is no filter by name."""
        return [view for view in self.list_machines() if view.stamp == stamp]

    def list_machines(self) -> list[MachineView]:
        """See the port."""
        return [view_of(pod) for pod in self._pages()]

    def get(self, provider_id: str) -> MachineView:
        """See the port. A 404 is shown without a stamp: young pods are unknown for minutes."""
        answer = self._http.send("GET", _pod_path(provider_id))
        if _says_missing(answer):
            return MachineView.missing(provider_id)
        self._check(answer)
        return view_of(self._http.read(answer, Pod))

    def give_up(self, provider_id: str) -> None:
        """See the port."""
        answer = self._http.send("DELETE", _pod_path(provider_id))
        if _says_missing(answer):
            return
        if answer.status_code == httpx.codes.CONFLICT:
            raise NotGoneYetError("runpod cannot end the pod in its present state; ask again")
        self._check(answer)

    def _offers_in(self, cloud: str, wanted: Requirements) -> Iterator[Offer]:
        params = {
            "include": "AVAILABILITY",
            "product": "POD",
            "cloud": cloud,
            "count": str(wanted.gpu_count),
        }
        answer = self._http.send("GET", "/v2/catalog/gpus", params=params)
        self._check(answer)
        for item in self._http.read(answer, Catalog).gpus:
            gpu = self._http.read_offer(item, GpuType)
            if gpu is not None:
                yield from offers_of(gpu, cloud, wanted)

    def _pages(self) -> Iterator[Pod]:
        def ask(cursor: str | None) -> PodPage:
            params = {"limit": str(_PAGE_SIZE)} | ({"cursor": cursor} if cursor else {})
            answer = self._http.send("GET", "/v2/pods", params=params)
            self._check(answer)
            return self._http.read(answer, PodPage)

        for page in pages(self.name, ask, _next_cursor):
            yield from page.pods

    def _check(self, answer: httpx.Response) -> None:
        """Raise unless the answer is a success."""
        if answer.is_success:
            return
        problem = parsed(answer, _Problem)
        if problem is None:
            raise _proxy_error(answer)
        raise self._http.refused(answer, problem.words)

    def _refusal(self, answer: httpx.Response) -> CloudError:
        problem = parsed(answer, _Problem)
        if problem is None:
            return _proxy_error(answer)
        kind = _STATUSES.get(answer.status_code) or kind_of(problem.words, REFUSALS)
        return self._http.refusal(answer, problem.words, kind)


def _host(base_url: str) -> str:
    """Without `/v2`, which the documentation counts among the address and among the paths."""
    return base_url.rstrip("/").removesuffix("/v2")


def _next_cursor(page: PodPage) -> str | None:
    if not page.pagination.has_next_page:
        return None
    if not page.pagination.next_cursor:
        raise ProviderBusyError("runpod's list of pods has no next page to go on with")
    return page.pagination.next_cursor


def _pod_path(provider_id: str) -> str:
    return f"/v2/pods/{quote(provider_id, safe='')}"


def _proxy_error(answer: httpx.Response) -> ProviderBusyError:
    """A refusal that is not RunPod's own: the request did not reach it."""
    return ProviderBusyError(
        f"something in front of runpod answered {answer.status_code}; try again"
    )


def _says_missing(answer: httpx.Response) -> bool:
    return answer.status_code == httpx.codes.NOT_FOUND and parsed(answer, _Problem) is not None
