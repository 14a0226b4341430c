"""How tools and tests on this machine talk to the embedded AWS."""

import threading
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from local.aws.settings import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY

CONFIG = Config(
    connect_timeout=5,
    read_timeout=60,
    retries={"max_attempts": 2, "mode": "standard"},
    s3={"addressing_style": "path"},
    # Step Functions' synchronous calls would go to a `sync-` host that does not resolve here.
    inject_host_prefix=False,
)


# A session keeps the service descriptions that it has read, which take long to read, but it must
# not make two clients at the same time.
_making = threading.Lock()


@cache
def session() -> boto3.Session:
    """The session of the root user of the embedded account."""
    return boto3.Session(
        aws_access_key_id=ACCESS_KEY_ID,
        aws_secret_access_key=SECRET_ACCESS_KEY,
        region_name=REGION,
    )


@cache
def client(service: str, endpoint: str) -> Any:
    """A client of one service, e.g. `client("s3", endpoint)`; made once, safe in threads."""
    return make_client(service, endpoint, CONFIG)


def make_client(service: str, endpoint: str, config: Config) -> Any:
    """A new client with settings of its own."""
    with _making:
        make: Any = session().client
        return make(service, endpoint_url=endpoint, config=config)


def environment(endpoint: str) -> dict[str, str]:
    """Environment variables that make any AWS tool use the embedded AWS."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }
