"""Which routes each function answers."""

from podferry.http.agent.routes import routes as agent
from podferry.http.front import Front, make_resolver
from podferry.http.routes.accounts import routes as accounts
from podferry.http.routes.market import routes as market
from podferry.http.routes.pods import routes as pods
from podferry.http.routes.provider_keys import routes as provider_keys
from podferry.http.routes.running import routes as running
from podferry.http.routes.snapshots import routes as snapshots

USER_ROUTES = (pods, running, snapshots, accounts)
MARKET_ROUTES = (market,)
KEY_ROUTES = (provider_keys,)
AGENT_ROUTES = (agent,)

USER_BODY_BYTES = 512 * 1024
AGENT_BODY_BYTES = 2 * 1024 * 1024


def user_front() -> Front:
    """Everything under /v1 but the market and the provider keys."""
    return Front(make_resolver(USER_ROUTES, (*MARKET_ROUTES, *KEY_ROUTES)), USER_BODY_BYTES)


def market_front() -> Front:
    """Offers and providers."""
    return Front(make_resolver(MARKET_ROUTES, (*USER_ROUTES, *KEY_ROUTES)), USER_BODY_BYTES)


def keys_front() -> Front:
    """Accounts' own keys at the providers."""
    return Front(make_resolver(KEY_ROUTES, (*USER_ROUTES, *MARKET_ROUTES)), USER_BODY_BYTES)


def agent_front() -> Front:
    """Everything under /agent/v1."""
    return Front(make_resolver(AGENT_ROUTES), AGENT_BODY_BYTES)
