"""Look at the market. A function of its own, because it alone reads the providers' keys."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from podferry.domain.account import Scope
from podferry.domain.offer import Kind, Market, Requirements
from podferry.http.answers import found
from podferry.http.call import CallNow
from podferry.http.models.offer import OfferPage, ProviderView
from podferry.http.models.page import PageView
from podferry.http.models.spec import COUNTRY, CUDA, GPU_NAME, PROVIDER_NAME
from podferry.http.params import Limit
from podferry.http.providers import require_known
from podferry.http.routing import Answer, ApiRouter
from podferry.services.market import Sort

routes = ApiRouter("market")

DEFAULT_OFFERS = 50

Gpus = Annotated[
    list[Annotated[str, Query(pattern=GPU_NAME)]] | None,
    Query(max_length=20, description="Any of these GPUs; may be given several times."),
]
GpuCount = Annotated[int, Query(ge=1, le=16)]
Markets = Annotated[
    list[Market] | None,
    Query(max_length=2, description="`on_demand` (alone, if nothing is given) and `spot`."),
]
Kinds = Annotated[list[Kind] | None, Query(max_length=3)]
Reliability = Annotated[float | None, Query(ge=0, le=1)]
MinCuda = Annotated[str | None, Query(pattern=CUDA, description="Like `12.4`.")]
SortBy = Annotated[Sort, Query(description="What comes first.")]
PlannedHours = Annotated[
    int, Query(ge=1, le=8760, description="For how long: effective prices depend on it.")
]
AtLeast = Annotated[int | None, Query(ge=1, le=10_000)]
Disk = Annotated[int, Query(ge=1, le=10_000)]
Providers = Annotated[
    list[Annotated[str, Query(pattern=PROVIDER_NAME)]] | None, Query(max_length=20)
]
Countries = Annotated[
    list[Annotated[str, Query(pattern=COUNTRY)]] | None,
    Query(max_length=50, description="ISO 3166 codes; may be given several times."),
]
MaxPrice = Annotated[
    int | None, Query(ge=1, le=1_000_000_000, description="Micro-USD an hour: 250000 is $0.25.")
]


@routes.operation(
    "GET",
    "/v1/offers",
    needs=Scope.PODS_READ,
    answers={200: Answer(OfferPage, "Offers that fit, the cheapest for the planned hours first.")},
    refusals=(502, 503),
)
def list_offers(  # noqa: PLR0913  one argument for each parameter of the route
    call: CallNow,
    *,
    gpu_names: Gpus = None,
    gpu_count: GpuCount = 1,
    min_vram_gib: AtLeast = None,
    min_vcpus: AtLeast = None,
    min_memory_gib: AtLeast = None,
    disk_gib: Disk = 20,
    providers: Providers = None,
    countries: Countries = None,
    max_price_microusd_per_hour: MaxPrice = None,
    markets: Markets = None,
    kinds: Kinds = None,
    min_reliability: Reliability = None,
    min_cuda: MinCuda = None,
    sort: SortBy = Sort.EFFECTIVE_PRICE,
    planned_hours: PlannedHours = 1,
    limit: Limit = DEFAULT_OFFERS,
) -> Response[OfferPage]:
    """See what can be rented; the parameters are those of a pod's `requirements`."""
    require_known(call, providers or (), "query providers.")
    wanted = Requirements(
        gpu_names=tuple(gpu_names or ()),
        gpu_count=gpu_count,
        min_vram_gib=min_vram_gib,
        min_vcpus=min_vcpus,
        min_memory_gib=min_memory_gib,
        disk_gib=disk_gib,
        providers=tuple(providers or ()),
        countries=tuple(countries or ()),
        max_price_microusd_per_hour=max_price_microusd_per_hour,
        markets=tuple(markets or (Market.ON_DEMAND,)),
        kinds=tuple(kinds or ()),
        min_reliability=min_reliability,
        min_cuda=min_cuda,
    )
    listing = call.use.market.offers(
        wanted, call.principal.account_id, sort=sort, planned_hours=planned_hours
    )
    return found(OfferPage.of(listing, limit))


@routes.operation(
    "GET",
    "/v1/providers",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[ProviderView], "Providers with a key, by name.")},
    refusals=(502, 503),
)
def list_providers(call: CallNow) -> Response[PageView[ProviderView]]:
    """List the providers that the account can rent from."""
    providers = call.use.market.providers(call.principal.account_id)
    rows = tuple(ProviderView.of(provider) for provider in providers)
    return found(PageView[ProviderView](data=rows, next_cursor=None))
