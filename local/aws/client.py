"""How tools and tests on this machine talk to the embedded AWS."""

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


def session() -> boto3.Session:
    """A session of the root user of the embedded account."""
    return boto3.Session(
        aws_access_key_id=ACCESS_KEY_ID,
        aws_secret_access_key=SECRET_ACCESS_KEY,
        region_name=REGION,
    )


@cache
def client(service: str, endpoint: str) -> Any:
    """A client of one service, e.g. `client("s3", endpoint)`; made once, safe in threads."""
    make: Any = session().client
    return make(service, endpoint_url=endpoint, config=CONFIG)


def environment(endpoint: str) -> dict[str, str]:
    """Environment variables that make any AWS tool use the embedded AWS."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }
