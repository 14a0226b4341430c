"""Clients of the AWS services, each made when it is first asked for.

They come straight from botocore: boto3 adds nothing that we use and costs a cold start 90 ms.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import botocore.session
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_stepfunctions import SFNClient

# A function has seconds, not minutes: a dead connection is given up and tried again in time.
_CONFIG = Config(
    retries={"mode": "standard", "total_max_attempts": 4},
    connect_timeout=2,
    read_timeout=10,
    max_pool_connections=32,
)
# `virtual` also means the bucket's region in the host name: the global host answers requests for a
# new bucket with a redirect, which breaks the signature. Endpoints that are an address (the
# embedded AWS) get the bucket in the path all the same. Without the last two a signed PUT would
# ask machines for a CRC32 beside the SHA-256.
_S3_CONFIG = _CONFIG.merge(
    Config(
        signature_version="s3v4",
        s3={"addressing_style": "virtual"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
)


class AwsClients:
    """One client per service. Where to find AWS, and with which keys, the environment says."""

    def __init__(
        self, session: botocore.session.Session | None = None, endpoint_url: str | None = None
    ) -> None:
        self._given_session = session
        self._endpoint_url = endpoint_url

    @cached_property
    def _session(self) -> botocore.session.Session:
        return self._given_session or botocore.session.get_session()

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        return cast("DynamoDBClient", self._make("dynamodb"))

    @cached_property
    def s3(self) -> S3Client:
        return cast("S3Client", self._make("s3", _S3_CONFIG))

    @cached_property
    def stepfunctions(self) -> SFNClient:
        return cast("SFNClient", self._make("stepfunctions"))

    @cached_property
    def events(self) -> EventBridgeClient:
        return cast("EventBridgeClient", self._make("events"))

    @cached_property
    def secretsmanager(self) -> SecretsManagerClient:
        return cast("SecretsManagerClient", self._make("secretsmanager"))

    def _make(self, service: str, config: Config = _CONFIG) -> Any:
        return self._session.create_client(service, config=config, endpoint_url=self._endpoint_url)
