"""What every `SnapshotObjects` promises, through the requests that a machine makes."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

import pytest
import urllib3

from podferry.adapters.aws.objects import S3SnapshotObjects
from podferry.adapters.memory.objects import MemoryObjects
from podferry.domain.errors import InternalError, SnapshotCorruptError, SnapshotMissingError
from podferry.domain.snapshot import SnapshotKind
from podferry.ports.objects import ObjectFacts, SignedUpload, SnapshotObjects
from tests.contract.embedded import EmbeddedAws

VOLUME, ENVIRONMENT = SnapshotKind.VOLUME, SnapshotKind.ENVIRONMENT
KEY = "acct_1/snap_1/packs/" + "ab" * 32
BODY = bytes(range(256)) * 64


class Machine(Protocol):
    """The far end of signed URLs."""

    def put(self, url: str, headers: dict[str, str], body: bytes) -> int: ...

    def get(self, url: str, byte_range: str | None = None) -> tuple[int, bytes]: ...


@dataclass
class MemoryMachine:
    objects: MemoryObjects

    def put(self, url: str, headers: dict[str, str], body: bytes) -> int:
        return self.objects.receive(url, headers, body)

    def get(self, url: str, byte_range: str | None = None) -> tuple[int, bytes]:
        return self.objects.serve(url, byte_range)


@dataclass
class HTTPMachine:
    pool: urllib3.PoolManager

    def put(self, url: str, headers: dict[str, str], body: bytes) -> int:
        return self.pool.request("PUT", url, headers=headers, body=body).status

    def get(self, url: str, byte_range: str | None = None) -> tuple[int, bytes]:
        headers = {} if byte_range is None else {"range": byte_range}
        answer = self.pool.request("GET", url, headers=headers)
        return answer.status, answer.data


@dataclass
class Bench:
    """A store and a machine that knows nothing but the URLs it is given."""

    objects: SnapshotObjects
    machine: Machine

    def sign(self, body: bytes, key: str = KEY) -> SignedUpload:
        return self.objects.sign_upload(VOLUME, key, len(body), sha256(body))

    def put(self, upload: SignedUpload, body: bytes, **headers: str) -> int:
        changed = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.machine.put(upload.url, upload.headers | changed, body)

    def store(self, body: bytes, key: str = KEY) -> None:
        assert self.put(self.sign(body, key), body) == 200


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.fixture
def http() -> Iterator[HTTPMachine]:
    with urllib3.PoolManager(retries=False, timeout=20, maxsize=20) as pool:
        yield HTTPMachine(pool)


@dataclass
class S3Bench(Bench):
    """A bench whose buckets can be reached past our adapter."""

    buckets: dict[SnapshotKind, str]
    raw: Any


@pytest.fixture
def s3(embedded: EmbeddedAws, http: HTTPMachine) -> S3Bench:
    buckets = {kind: embedded.make_bucket() for kind in SnapshotKind}
    objects = S3SnapshotObjects(embedded.clients, buckets)
    return S3Bench(objects, http, buckets, embedded.raw("s3"))


@pytest.fixture(params=["memory", "embedded"])
def bench(request: pytest.FixtureRequest) -> Bench:
    if request.param == "memory":
        objects = MemoryObjects()
        return Bench(objects, MemoryMachine(objects))
    made: Bench = request.getfixturevalue("s3")
    return made


@pytest.mark.parametrize("body", [b"", b"x", BODY])
def test_a_signed_upload_stores_the_object(bench: Bench, body: bytes) -> None:
    bench.store(body)

    assert bench.objects.facts(VOLUME, KEY) == ObjectFacts(size=len(body), sha256=sha256(body))
    assert bench.objects.read(VOLUME, KEY) == body


def test_promise_11_an_object_is_written_once(bench: Bench) -> None:
    first, again, other = bench.sign(BODY), bench.sign(BODY), bench.sign(b"other")
    assert bench.put(first, BODY) == 200

    assert bench.put(first, BODY) == 412
    assert bench.put(again, BODY) == 412
    assert bench.put(other, b"other") == 412

    assert bench.objects.read(VOLUME, KEY) == BODY


def test_another_body_of_the_same_length_is_refused(bench: Bench) -> None:
    assert bench.put(bench.sign(b"right"), b"wrong") == 400

    assert bench.objects.facts(VOLUME, KEY) is None


def test_promise_11_the_signature_covers_every_header(bench: Bench) -> None:
    upload, right = bench.sign(b"right"), b"right"

    assert bench.put(upload, b"longer body", content_length="11") == 403
    for name in set(upload.headers) - {"content-length"}:
        changed = {**upload.headers, name: "AAAA"}
        assert bench.machine.put(upload.url, changed, right) in {400, 403}, name
        left_away = {key: value for key, value in upload.headers.items() if key != name}
        assert bench.machine.put(upload.url, left_away, right) in {400, 403}, name

    assert bench.objects.facts(VOLUME, KEY) is None


def test_promise_11_the_signature_covers_the_key(bench: Bench) -> None:
    upload = bench.sign(BODY)
    elsewhere = upload.url.replace("snap_1", "snap_2")
    download = bench.objects.sign_download(VOLUME, KEY).replace("snap_1", "snap_2")
    bench.store(BODY, KEY.replace("snap_1", "snap_2"))

    assert bench.machine.put(elsewhere, upload.headers, BODY) == 403
    assert bench.machine.get(download)[0] == 403


def test_promise_11_a_url_for_one_method_does_not_serve_another(bench: Bench) -> None:
    upload, download = bench.sign(BODY), bench.objects.sign_download(VOLUME, KEY)

    assert bench.machine.put(download, upload.headers, BODY) == 403
    assert bench.put(upload, BODY) == 200
    assert bench.machine.get(upload.url)[0] == 403


def test_a_signed_download_reads_whole_or_by_range(bench: Bench) -> None:
    bench.store(BODY)
    url = bench.objects.sign_download(VOLUME, KEY)

    assert bench.machine.get(url) == (200, BODY)
    assert bench.machine.get(url) == (200, BODY)
    assert bench.machine.get(url, "bytes=100-299") == (206, BODY[100:300])


def test_a_signed_download_of_nothing_is_404(bench: Bench) -> None:
    assert bench.machine.get(bench.objects.sign_download(VOLUME, KEY))[0] == 404


@pytest.mark.parametrize("body", [b"x", BODY * 200])
def test_an_object_is_hashed_by_its_bytes(bench: Bench, body: bytes) -> None:
    bench.store(body)

    assert bench.objects.hashed(VOLUME, KEY) == ObjectFacts(size=len(body), sha256=sha256(body))
    with pytest.raises(SnapshotMissingError, match="other"):
        bench.objects.hashed(VOLUME, KEY + "other")


def test_what_we_store_ourselves_is_written_once_and_compared(bench: Bench) -> None:
    digest = hashlib.sha256(BODY).hexdigest()
    for _ in range(2):
        bench.objects.put_once(ENVIRONMENT, KEY, BODY, digest)
    assert bench.objects.facts(ENVIRONMENT, KEY) == ObjectFacts(len(BODY), digest)
    other = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(SnapshotCorruptError, match="name already"):
        bench.objects.put_once(ENVIRONMENT, KEY, b"other", other)
    assert bench.objects.read(ENVIRONMENT, KEY) == BODY
    with pytest.raises(SnapshotCorruptError, match="bytes are not"):
        bench.objects.put_once(ENVIRONMENT, f"{KEY[:-2]}cd", BODY, other)
    assert bench.objects.facts(ENVIRONMENT, f"{KEY[:-2]}cd") is None


def test_a_range_of_an_object_is_read_up_to_its_end(bench: Bench) -> None:
    bench.store(BODY)

    assert bench.objects.read_range(VOLUME, KEY, 5, 1) == BODY[5:6]
    assert bench.objects.read_range(VOLUME, KEY, 300, 1000) == BODY[300:1300]
    assert bench.objects.read_range(VOLUME, KEY, len(BODY) - 3, 100) == BODY[-3:]
    with pytest.raises(SnapshotCorruptError, match=KEY):
        bench.objects.read_range(VOLUME, KEY, len(BODY), 1)
    with pytest.raises(SnapshotMissingError, match="other"):
        bench.objects.read_range(VOLUME, KEY + "other", 0, 1)


def test_a_missing_object_has_no_facts_and_cannot_be_read(bench: Bench) -> None:
    assert bench.objects.facts(VOLUME, KEY) is None
    with pytest.raises(SnapshotMissingError, match=KEY):
        bench.objects.read(VOLUME, KEY)


def test_a_listing_goes_on_behind_a_key_and_stays_below_its_prefix(bench: Bench) -> None:
    names = [f"acct_1/snap_1/packs/{number}" for number in range(5)]
    for name in (*names, "acct_1/snap_10/packs/0", "acct_1/snap_0/packs/0"):
        bench.store(name.encode(), name)

    first = bench.objects.listed(VOLUME, "acct_1/snap_1/", None, 3)
    rest = bench.objects.listed(VOLUME, "acct_1/snap_1/", first[-1].key, 3)

    assert [one.key for one in (*first, *rest)] == names
    assert {one.size for one in first} == {len(names[0])}
    assert {one.stored_at.utcoffset() for one in first} == {timedelta(0)}
    assert bench.objects.listed(VOLUME, "acct_1/snap_1/", rest[-1].key, 3) == []
    assert bench.objects.listed(ENVIRONMENT, "acct_1/snap_1/", None, 3) == []


def test_what_is_deleted_cannot_be_seen_any_more_and_nothing_else_goes(bench: Bench) -> None:
    keys = [f"acct_1/snap_1/packs/{number}" for number in range(3)]
    for key in keys:
        bench.store(BODY, key)

    bench.objects.delete(VOLUME, keys[:2])
    bench.objects.delete(VOLUME, [keys[0], "acct_1/snap_1/packs/never"])

    assert [one.key for one in bench.objects.listed(VOLUME, "acct_1/", None, 10)] == keys[2:]
    assert bench.objects.facts(VOLUME, keys[0]) is None
    with pytest.raises(SnapshotMissingError):
        bench.objects.read(VOLUME, keys[1])


def test_a_full_page_is_deleted_in_one_call(bench: Bench) -> None:
    """The names in S3's answer to a listing and in its deletion are limited to 1,000."""
    keys = [f"acct_1/snap_1/packs/{number:04}" for number in range(1000)]
    bench.store(BODY, keys[0])
    bench.store(BODY, keys[-1])

    bench.objects.delete(VOLUME, keys)

    assert bench.objects.listed(VOLUME, "acct_1/", None, 1000) == []


def test_the_two_kinds_are_kept_apart(bench: Bench) -> None:
    bench.store(BODY)

    assert bench.objects.facts(ENVIRONMENT, KEY) is None
    with pytest.raises(SnapshotMissingError, match="environment"):
        bench.objects.read(ENVIRONMENT, KEY)


def test_of_ten_uploads_to_one_key_one_wins(bench: Bench) -> None:
    bodies = [f"body {i}".encode() for i in range(10)]
    uploads = [partial(bench.put, bench.sign(body), body) for body in bodies]

    with ThreadPoolExecutor(len(uploads)) as pool:
        statuses = sorted(pool.map(lambda upload: upload(), uploads))

    assert statuses == [200] + [412] * 9
    assert bench.objects.read(VOLUME, KEY) in bodies


def test_a_signed_url_expires(embedded: EmbeddedAws, http: HTTPMachine) -> None:
    bucket = embedded.make_bucket()
    embedded.raw("s3").put_object(Bucket=bucket, Key=KEY, Body=BODY)
    objects = S3SnapshotObjects(embedded.clients, {VOLUME: bucket}, expiry=timedelta(seconds=1))
    url = objects.sign_download(VOLUME, KEY)
    upload = objects.sign_upload(VOLUME, "new", 1, sha256(b"x"))

    deadline = time.monotonic() + 10
    while (status := http.get(url)[0]) == 200 and time.monotonic() < deadline:
        time.sleep(0.1)

    assert status == 403
    assert http.put(upload.url, upload.headers, b"x") == 403
    assert S3SnapshotObjects(embedded.clients, {VOLUME: bucket}).read(VOLUME, KEY) == BODY


def test_nothing_is_served_without_a_signature(s3: S3Bench) -> None:
    s3.store(BODY)
    url = s3.objects.sign_download(VOLUME, KEY).partition("?")[0]

    assert s3.machine.get(url)[0] == 403
    assert s3.machine.put(url, {}, BODY) == 403


def test_the_facts_are_the_stores_own_and_not_what_the_signer_said(s3: S3Bench) -> None:
    s3.raw.put_object(
        Bucket=s3.buckets[VOLUME], Key=KEY, Body=b"damaged", ChecksumAlgorithm="SHA256"
    )

    assert s3.objects.facts(VOLUME, KEY) == ObjectFacts(size=7, sha256=sha256(b"damaged"))


def test_an_object_stored_without_a_sha256_has_none(s3: S3Bench) -> None:
    s3.raw.put_object(Bucket=s3.buckets[VOLUME], Key=KEY, Body=b"x", ChecksumAlgorithm="CRC32")

    assert s3.objects.facts(VOLUME, KEY) == ObjectFacts(size=1, sha256=None)


def test_in_a_versioned_bucket_what_is_deleted_can_be_brought_back(s3: S3Bench) -> None:
    bucket = s3.buckets[VOLUME]
    s3.raw.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.store(BODY)
    s3.objects.delete(VOLUME, [KEY])
    assert s3.objects.listed(VOLUME, "acct_1/", None, 10) == []

    (marker,) = s3.raw.list_object_versions(Bucket=bucket, Prefix=KEY)["DeleteMarkers"]
    s3.raw.delete_object(Bucket=bucket, Key=KEY, VersionId=marker["VersionId"])

    assert s3.objects.read(VOLUME, KEY) == BODY


def test_a_deletion_that_is_refused_in_part_is_an_error(embedded: EmbeddedAws) -> None:
    clients = embedded.new_clients()
    refused = [{"Key": KEY, "Code": "AccessDenied", "Message": "no"}]
    clients.s3.meta.events.register(
        "after-call.s3.DeleteObjects", lambda parsed, **_: parsed.update(Errors=refused)
    )
    objects = S3SnapshotObjects(clients, {VOLUME: embedded.make_bucket()})

    with pytest.raises(InternalError, match=f"AccessDenied to: delete {KEY}"):
        objects.delete(VOLUME, [KEY])


def test_a_missing_bucket_is_our_mistake_and_not_a_missing_object(embedded: EmbeddedAws) -> None:
    objects = S3SnapshotObjects(embedded.clients, {VOLUME: "bucket-that-is-not-there"})

    with pytest.raises(InternalError, match="NoSuchBucket"):
        objects.read(VOLUME, KEY)


def test_the_headers_name_the_checksum_as_s3_wants_it(s3: S3Bench) -> None:
    headers = s3.sign(BODY).headers

    assert headers == {
        "content-length": str(len(BODY)),
        "x-amz-checksum-sha256": base64.b64encode(hashlib.sha256(BODY).digest()).decode(),
        "if-none-match": "*",
    }
