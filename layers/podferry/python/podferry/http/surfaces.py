"""Which routes each function answers."""

from podferry.http.agent.routes import routes as agent
from podferry.http.front import Front, make_resolver
from podferry.http.routes.accounts import routes as accounts
from podferry.http.routes.bill import routes as bill
from podferry.http.routes.environments import routes as environments
from podferry.http.routes.library import routes as library
from podferry.http.routes.market import routes as market
from podferry.http.routes.pods import routes as pods
from podferry.http.routes.provider_keys import routes as provider_keys
from podferry.http.routes.running import routes as running
from podferry.http.routes.secrets import routes as secrets
from podferry.http.routes.sharing import routes as sharing
from podferry.http.routes.snapshots import routes as snapshots
from podferry.http.routes.volumes import routes as volumes
from podferry.http.routing import ApiRouter

USER_ROUTES = (pods, running, snapshots, environments, sharing, volumes, accounts, bill)
MARKET_ROUTES = (market,)
KEY_ROUTES = (provider_keys,)
LIBRARY_ROUTES = (library,)
SECRET_ROUTES = (secrets,)
ALL_OF_USERS = (*USER_ROUTES, *MARKET_ROUTES, *KEY_ROUTES, *LIBRARY_ROUTES, *SECRET_ROUTES)
AGENT_ROUTES = (agent,)

USER_BODY_BYTES = 512 * 1024
AGENT_BODY_BYTES = 2 * 1024 * 1024


def user_front() -> Front:
    """Everything under /v1 that no other function answers."""
    return _front(USER_ROUTES)


def market_front() -> Front:
    """Offers and providers."""
    return _front(MARKET_ROUTES)


def keys_front() -> Front:
    """Accounts' own keys at the providers."""
    return _front(KEY_ROUTES)


def library_front() -> Front:
    """What takes reading snapshots."""
    return _front(LIBRARY_ROUTES)


def secrets_front() -> Front:
    """Secrets of accounts."""
    return _front(SECRET_ROUTES)


def agent_front() -> Front:
    """Everything under /agent/v1."""
    return Front(make_resolver(AGENT_ROUTES), AGENT_BODY_BYTES)


def _front(routes: tuple[ApiRouter, ...]) -> Front:
    neighbours = tuple(one for one in ALL_OF_USERS if one not in routes)
    return Front(make_resolver(routes, neighbours), USER_BODY_BYTES)
