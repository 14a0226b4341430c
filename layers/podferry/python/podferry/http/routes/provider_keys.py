"""Accounts' own keys at the providers. A function of its own: it alone writes them."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Path

from podferry.domain.account import Scope
from podferry.http.answers import GONE, found, gone
from podferry.http.call import CallNow
from podferry.http.models.page import PageView
from podferry.http.models.provider_key import ProviderKeyBody, ProviderKeyView, RoleTrustView
from podferry.http.models.spec import PROVIDER_NAME
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("accounts")

ProviderName = Annotated[str, Path(pattern=PROVIDER_NAME, description="As in `/v1/providers`.")]


@routes.operation(
    "PUT",
    "/v1/provider-keys/<provider>",
    needs=Scope.ACCOUNT_WRITE,
    answers={200: Answer(ProviderKeyView, "The provider takes the key; it is used from now on.")},
    refusals=(409, 502, 503),
)
def put_provider_key(
    call: CallNow, provider: ProviderName, body: ProviderKeyBody
) -> Response[ProviderKeyView]:
    """Rent from a provider with a key of the account's own, or replace that key.

    The key is tried at the provider first. Machines that stand stay with the key that they were
    rented with, so a new one has to show those of the one that it replaces.
    """
    key = call.use.provider_keys.put(
        call.account_id, provider, body.api_key, is_same_account=body.same_provider_account
    )
    return found(ProviderKeyView.of(key))


@routes.operation(
    "GET",
    "/v1/provider-keys",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(PageView[ProviderKeyView], "The account's own keys, by provider.")},
)
def list_provider_keys(call: CallNow) -> Response[PageView[ProviderKeyView]]:
    """List the account's own keys at the providers, without their texts."""
    rows = tuple(ProviderKeyView.of(key) for key in call.use.provider_keys.all_of(call.account_id))
    return found(PageView[ProviderKeyView](data=rows, next_cursor=None))


@routes.operation(
    "GET",
    "/v1/provider-keys/<provider>",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(ProviderKeyView, "The key, without its text.")},
)
def get_provider_key(call: CallNow, provider: ProviderName) -> Response[ProviderKeyView]:
    """See whether the provider takes the account's own key."""
    return found(ProviderKeyView.of(call.use.provider_keys.get(call.account_id, provider)))


@routes.operation(
    "GET",
    "/v1/provider-keys/<provider>/trust",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(RoleTrustView, "Whom the role has to trust.")},
)
def get_role_trust(call: CallNow, provider: ProviderName) -> Response[RoleTrustView]:
    """See whom a role has to trust that is put in place of a key (`ec2` only).

    A role has no key that could leak. Make it first, then put its `role_arn`.
    """
    return found(RoleTrustView.of(call.use.provider_keys.trust(call.account_id, provider)))


@routes.operation(
    "DELETE",
    "/v1/provider-keys/<provider>",
    needs=Scope.ACCOUNT_WRITE,
    answers=GONE,
    refusals=(409,),
)
def delete_provider_key(call: CallNow, provider: ProviderName) -> Response[None]:
    """Take the key out; refused while machines stand that were rented with it."""
    call.use.provider_keys.delete(call.account_id, provider)
    return gone()
