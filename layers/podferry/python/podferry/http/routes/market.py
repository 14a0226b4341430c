"""Look at the market. A function of its own, because it alone reads the providers' keys."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from podferry.domain.account import Scope
from podferry.domain.offer import Requirements
from podferry.http.answers import found
from podferry.http.call import CallNow
from podferry.http.models.offer import OfferPage, ProviderView
from podferry.http.models.page import PageView
from podferry.http.models.spec import COUNTRY, GPU_NAME, PROVIDER_NAME
from podferry.http.params import Limit
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("market")

DEFAULT_OFFERS = 50

Gpus = Annotated[
    list[Annotated[str, Query(pattern=GPU_NAME)]] | None,
    Query(max_length=20, description="Any of these GPUs; may be given several times."),
]
GpuCount = Annotated[int, Query(ge=0, le=16)]
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
    answers={200: Answer(OfferPage, "Offers that fit, cheapest first.")},
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
    limit: Limit = DEFAULT_OFFERS,
) -> Response[OfferPage]:
    """See what can be rented; the parameters are those of a pod's `requirements`."""
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
    )
    return found(OfferPage.of(call.use.market.offers(wanted), limit))


@routes.operation(
    "GET",
    "/v1/providers",
    needs=Scope.PODS_READ,
    answers={200: Answer(PageView[ProviderView], "Providers with a key, by name.")},
    refusals=(502, 503),
)
def list_providers(call: CallNow) -> Response[PageView[ProviderView]]:
    """List the providers that this deployment can rent from."""
    rows = tuple(ProviderView.of(provider) for provider in call.use.market.providers())
    return found(PageView[ProviderView](data=rows, next_cursor=None))
