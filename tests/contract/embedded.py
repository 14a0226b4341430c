"""The embedded AWS as a test bench: a server process, and raw tables and buckets made by boto3."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import botocore.session

from podferry.adapters.aws.clients import AwsClients

REPOSITORY = Path(__file__).parents[2]
REGION = "us-east-1"
# The fixed keys of the embedded AWS; they open nothing else.
KEY_ID = "test"
SECRET_KEY = "test"


@dataclass
class EmbeddedAws:
    """A running embedded AWS."""

    process: subprocess.Popen[str]
    endpoint: str
    _raw: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def clients(self) -> AwsClients:
        """Shared, because making a client takes longer than most tests."""
        return self.new_clients()

    def new_clients(self) -> AwsClients:
        """Clients of their own, for tests that meddle with them."""
        session = botocore.session.get_session()
        session.set_credentials(KEY_ID, SECRET_KEY)
        session.set_config_variable("region", REGION)
        return AwsClients(session, endpoint_url=self.endpoint)

    def raw(self, service: str) -> Any:
        """A plain client to prepare and to look with, past our adapters."""
        if service not in self._raw:
            self._raw[service] = self._make_raw(service)
        return self._raw[service]

    def _make_raw(self, service: str) -> Any:
        session = boto3.Session(
            aws_access_key_id=KEY_ID, aws_secret_access_key=SECRET_KEY, region_name=REGION
        )
        make: Any = session.client
        return make(service, endpoint_url=self.endpoint)

    def make_bucket(self) -> str:
        name = unique("bucket")
        self.raw("s3").create_bucket(Bucket=name)
        return name


def start_embedded(data: Path) -> EmbeddedAws:
    """Start the server on free ports; its log lies beside its data."""
    with data.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "local.aws", "--data", str(data)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, data.with_suffix(".log").read_text()
    return EmbeddedAws(process, json.loads(line)["endpoint"])


def stop_embedded(aws: EmbeddedAws) -> None:
    aws.process.terminate()
    aws.process.wait(timeout=20)
    assert aws.process.stdout is not None
    aws.process.stdout.close()


def unique(what: str) -> str:
    return f"{what}-{uuid4().hex[:12]}"


def make_table(client: Any) -> str:
    """A table as the deployment makes it; see `adapters/dynamo/keys.py`."""
    name = unique("table")
    columns = ("pk", "sk", "owned_pk", "owned_sk", "active_pk", "active_sk")
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": c, "AttributeType": "S"} for c in columns],
        KeySchema=_key_schema("pk", "sk"),
        GlobalSecondaryIndexes=[_index("owned"), _index("active")],
    )
    return name


def _index(name: str) -> dict[str, Any]:
    return {
        "IndexName": name,
        "KeySchema": _key_schema(f"{name}_pk", f"{name}_sk"),
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }


def _key_schema(partition: str, sort: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": partition, "KeyType": "HASH"},
        {"AttributeName": sort, "KeyType": "RANGE"},
    ]
