"""Clients that never get an answer but the one a test stubs."""

import botocore.session

from podferry.adapters.aws.clients import AwsClients


def some_clients(endpoint_url: str | None = None) -> AwsClients:
    session = botocore.session.get_session()
    session.set_credentials("x", "x")
    session.set_config_variable("region", "eu-central-1")
    return AwsClients(session, endpoint_url)
