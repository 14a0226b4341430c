"""The agent bundle: copied once, checked, and fetched by machines without keys."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import pytest
import urllib3

from podferry.adapters.aws.bundle import BundleSource, S3AgentBundle
from podferry.domain.errors import InternalError
from tests.contract.embedded import EmbeddedAws

BODY = b"a tarball" * 1000
SHA256 = hashlib.sha256(BODY).hexdigest()
ASSET = "asset.tar.gz"


@dataclass
class Bench:
    embedded: EmbeddedAws
    s3: Any
    agents: str
    assets: str

    def bundle(self, sha256: str = SHA256) -> S3AgentBundle:
        source = BundleSource(bucket=self.assets, key=ASSET, sha256=sha256)
        return S3AgentBundle(self.embedded.clients, self.agents, source)

    def stored(self) -> list[str]:
        listed = self.s3.list_objects_v2(Bucket=self.agents).get("Contents", [])
        return [entry["Key"] for entry in listed]


@pytest.fixture
def bench(embedded: EmbeddedAws) -> Bench:
    made = Bench(embedded, embedded.raw("s3"), embedded.make_bucket(), embedded.make_bucket())
    made.s3.put_object(Bucket=made.assets, Key=ASSET, Body=BODY)
    return made


def test_anyone_with_the_url_fetches_the_bundle(bench: Bench) -> None:
    bundle = bench.bundle()

    with urllib3.PoolManager(retries=False, timeout=10) as pool:
        answer = pool.request("GET", bundle.url())
        unsigned = pool.request("GET", bundle.url().partition("?")[0])

    assert (answer.status, answer.data) == (200, BODY)
    assert unsigned.status == 403
    assert bundle.sha256() == SHA256
    assert bench.stored() == [f"agent/{SHA256}.tar.gz"]


def test_the_bundle_is_copied_once(bench: Bench) -> None:
    bench.bundle().url()
    bench.s3.delete_object(Bucket=bench.assets, Key=ASSET)

    assert SHA256 in bench.bundle().url()


def test_a_bundle_that_is_not_the_pinned_one_is_not_given_out(bench: Bench) -> None:
    other = hashlib.sha256(b"other").hexdigest()

    with pytest.raises(InternalError, match=f"{SHA256}.*{other}"):
        bench.bundle(other).url()

    assert bench.stored() == []


def test_a_missing_asset_is_named_by_its_code(bench: Bench) -> None:
    bench.s3.delete_object(Bucket=bench.assets, Key=ASSET)

    with pytest.raises(InternalError, match=r"NoSuchKey.*read the agent bundle"):
        bench.bundle().url()
