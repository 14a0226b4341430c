"""Clients are made late, and signed URLs name the right host."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import botocore.session
import pytest
from botocore.stub import Stubber

from podferry.adapters.aws.bundle import BundleSource, S3AgentBundle
from podferry.adapters.aws.clients import AwsClients
from podferry.adapters.aws.objects import S3SnapshotObjects
from podferry.domain.snapshot import SnapshotKind
from tests.unit.adapters.clients import some_clients

SHA256 = "ab" * 32


@pytest.fixture(autouse=True)
def no_endpoint_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)


class CountingSession(botocore.session.Session):
    """Remembers which clients were made."""

    made: list[str]

    def create_client(self, service_name: str, *args: Any, **kwargs: Any) -> Any:
        self.made.append(service_name)
        return super().create_client(service_name, *args, **kwargs)


def test_a_client_is_made_when_it_is_first_asked_for_and_once() -> None:
    session = CountingSession()
    session.made = []
    session.set_credentials("x", "x")
    session.set_config_variable("region", "eu-central-1")
    clients = AwsClients(session)
    objects = S3SnapshotObjects(clients, {SnapshotKind.VOLUME: "volumes"})
    assert session.made == []

    objects.sign_download(SnapshotKind.VOLUME, "a")
    objects.sign_download(SnapshotKind.VOLUME, "b")

    assert session.made == ["s3"]


def test_a_signed_url_names_the_region_of_its_bucket() -> None:
    objects = S3SnapshotObjects(some_clients(), {SnapshotKind.VOLUME: "volumes"})

    url = urlsplit(objects.sign_download(SnapshotKind.VOLUME, "acct_1/snap_1/root"))

    assert (url.scheme, url.hostname) == ("https", "volumes.s3.eu-central-1.amazonaws.com")
    assert parse_qs(url.query)["X-Amz-Expires"] == ["900"]


def test_promise_11_an_upload_is_bound_to_its_headers_and_nothing_else() -> None:
    objects = S3SnapshotObjects(some_clients(), {SnapshotKind.VOLUME: "volumes"})

    upload = objects.sign_upload(SnapshotKind.VOLUME, "acct_1/snap_1/root", 5, SHA256)

    signed = parse_qs(urlsplit(upload.url).query)["X-Amz-SignedHeaders"][0].split(";")
    assert set(signed) == {*upload.headers, "host"}


def a_bundle(clients: AwsClients) -> S3AgentBundle:
    source = BundleSource(bucket="assets", key="asset", sha256=SHA256)
    return S3AgentBundle(clients, "agents", source)


@pytest.mark.parametrize(
    ("endpoint", "start"),
    [
        (None, "http://agents.s3.eu-central-1.amazonaws.com/agent/"),
        ("https://127.0.0.1:4566", "https://127.0.0.1:4566/agents/agent/"),
        ("http://127.0.0.1:4566", "http://127.0.0.1:4566/agents/agent/"),
        ("https://evil-amazonaws.com", "https://agents.evil-amazonaws.com/agent/"),
    ],
)
def test_machines_without_tls_can_fetch_the_bundle_from_aws(
    endpoint: str | None, start: str
) -> None:
    clients = some_clients(endpoint)
    with Stubber(clients.s3) as stubber:
        stubber.add_response("head_object", {"ContentLength": 1})
        url = a_bundle(clients).url()

    assert url.startswith(f"{start}{SHA256}.tar.gz?")
    assert parse_qs(urlsplit(url).query)["X-Amz-Expires"] == ["3600"]


def test_the_bundle_is_looked_up_once_per_process() -> None:
    clients = some_clients()
    bundle = a_bundle(clients)
    with Stubber(clients.s3) as stubber:
        stubber.add_response("head_object", {"ContentLength": 1})
        bundle.url()
        bundle.url()
        stubber.assert_no_pending_responses()
