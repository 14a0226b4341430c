"""Snapshot objects in S3, one bucket per kind of snapshot.

Machines write and read through presigned URLs (signature version 4). What a signature covers cannot
be changed by who holds the URL: bucket, key, method, expiry, and for an upload the length, the
SHA-256 and `If-None-Match: *`, which makes S3 refuse to overwrite.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from podferry.adapters.aws.errors import aws_errors, code_of
from podferry.domain.errors import InternalError, SnapshotCorruptError, SnapshotMissingError
from podferry.domain.snapshot import SnapshotKind
from podferry.ports.objects import ListedObject, ObjectFacts, SignedUpload

if TYPE_CHECKING:
    from botocore.response import StreamingBody

    from podferry.adapters.aws.clients import AwsClients

DEFAULT_EXPIRY = timedelta(minutes=15)
_PIECE = 1024 * 1024
_MISSING = {"404", "NoSuchKey", "NotFound"}
_EXISTS = {"412", "PreconditionFailed"}
_WRONG_BYTES = {"BadDigest", "XAmzContentChecksumMismatch", "InvalidRequest"}
_TOO_FAR = {"416", "InvalidRange"}


class S3SnapshotObjects:
    """A `SnapshotObjects` over the buckets for environments and volumes."""

    def __init__(
        self,
        clients: AwsClients,
        buckets: Mapping[SnapshotKind, str],
        expiry: timedelta = DEFAULT_EXPIRY,
    ) -> None:
        self._clients = clients
        self._buckets = buckets
        self._expires_in = int(expiry.total_seconds())

    def sign_upload(self, kind: SnapshotKind, key: str, size: int, sha256: str) -> SignedUpload:
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        parameters = {
            **self._at(kind, key),
            "ContentLength": size,
            "ChecksumSHA256": checksum,
            "IfNoneMatch": "*",
        }
        headers = {
            "content-length": str(size),
            "x-amz-checksum-sha256": checksum,
            "if-none-match": "*",
        }
        return SignedUpload(self._sign("put_object", parameters), headers)

    def sign_download(self, kind: SnapshotKind, key: str) -> str:
        return self._sign("get_object", self._at(kind, key))

    def _sign(self, method: str, parameters: dict[str, Any]) -> str:
        with aws_errors("sign a URL"):
            return self._clients.s3.generate_presigned_url(
                method, Params=parameters, ExpiresIn=self._expires_in
            )

    def facts(self, kind: SnapshotKind, key: str) -> ObjectFacts | None:
        with aws_errors(f"look up {key}"):
            try:
                head = self._clients.s3.head_object(**self._at(kind, key), ChecksumMode="ENABLED")
            except ClientError as error:
                if code_of(error) in _MISSING:
                    return None
                raise
        return ObjectFacts(size=head["ContentLength"], sha256=_hex(head.get("ChecksumSHA256")))

    def read(self, kind: SnapshotKind, key: str) -> bytes:
        with aws_errors(f"read {key}"):
            return self._open(kind, key).read()

    def put_once(self, kind: SnapshotKind, key: str, body: bytes, sha256: str) -> None:
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        with aws_errors(f"store {key}"):
            try:
                self._clients.s3.put_object(
                    **self._at(kind, key), Body=body, ChecksumSHA256=checksum, IfNoneMatch="*"
                )
            except ClientError as error:
                if code_of(error) in _WRONG_BYTES:
                    raise SnapshotCorruptError(f"{key}: the bytes are not {sha256}") from error
                if code_of(error) not in _EXISTS:
                    raise
                self._require_same(kind, key, sha256)

    def _require_same(self, kind: SnapshotKind, key: str, sha256: str) -> None:
        facts = self.facts(kind, key)
        if facts is None or facts.sha256 != sha256:
            raise SnapshotCorruptError(f"{key}: another object has this name already")

    def read_range(self, kind: SnapshotKind, key: str, start: int, length: int) -> bytes:
        with aws_errors(f"read {key}"):
            try:
                return self._open(kind, key, f"bytes={start}-{start + length - 1}").read()
            except ClientError as error:
                if code_of(error) in _TOO_FAR:
                    raise SnapshotCorruptError(f"{key} ends before byte {start}") from error
                raise

    def hashed(self, kind: SnapshotKind, key: str) -> ObjectFacts:
        digest, size = hashlib.sha256(), 0
        with aws_errors(f"read {key}"):
            for piece in self._open(kind, key).iter_chunks(_PIECE):
                digest.update(piece)
                size += len(piece)
        return ObjectFacts(size=size, sha256=digest.hexdigest())

    def _open(self, kind: SnapshotKind, key: str, byte_range: str | None = None) -> StreamingBody:
        wanted = self._at(kind, key)
        if byte_range is not None:
            wanted["Range"] = byte_range
        try:
            return self._clients.s3.get_object(**wanted)["Body"]
        except ClientError as error:
            if code_of(error) in _MISSING:
                raise SnapshotMissingError(f"{key} is not in the {kind} store") from error
            raise

    def listed(
        self, kind: SnapshotKind, prefix: str, after: str | None, limit: int
    ) -> Sequence[ListedObject]:
        with aws_errors(f"list {prefix}"):
            page = self._clients.s3.list_objects_v2(
                Bucket=self._buckets[kind], Prefix=prefix, StartAfter=after or "", MaxKeys=limit
            )
        return [
            ListedObject(one["Key"], one["Size"], one["LastModified"])
            for one in page.get("Contents", [])
        ]

    def delete(self, kind: SnapshotKind, keys: Sequence[str]) -> None:
        """In a versioned bucket they are hidden; a rule of the bucket removes them for good."""
        with aws_errors(f"delete {len(keys)} objects such as {keys[0]}"):
            answer = self._clients.s3.delete_objects(
                Bucket=self._buckets[kind],
                Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True},
            )
        for refused in answer.get("Errors", []):
            raise InternalError(
                f"AWS answered {refused.get('Code')} to: delete {refused.get('Key')}; the others "
                "of its batch may be gone, and the next round deletes what is left"
            )

    def _at(self, kind: SnapshotKind, key: str) -> Any:
        return {"Bucket": self._buckets[kind], "Key": key}


def _hex(checksum: str | None) -> str | None:
    """Hex of S3's Base64; `None` for objects without one and for checksums of parts (`...-3`)."""
    if checksum is None:
        return None
    try:
        return base64.b64decode(checksum, validate=True).hex()
    except binascii.Error:
        return None
