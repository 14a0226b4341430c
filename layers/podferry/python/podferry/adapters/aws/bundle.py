"""The agent bundle in a bucket of its own, from where machines can fetch it.

A deployment uploads the bundle as an asset; assets are not ours to give out. So the first rent
copies it to `agent/<sha256>.tar.gz`, once, after the copy's SHA-256 was compared with the one that
was pinned at deployment.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from botocore.exceptions import ClientError

from podferry.adapters.aws.errors import aws_errors, code_of
from podferry.domain.errors import InternalError

if TYPE_CHECKING:
    from podferry.adapters.aws.clients import AwsClients

URL_EXPIRY = timedelta(hours=1)
_AWS_HOSTS = (".amazonaws.com", ".amazonaws.com.cn")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSource:
    """Where the deployment put the bundle, and what it is."""

    bucket: str
    key: str
    sha256: str


class S3AgentBundle:
    """An `AgentBundle` that fills its bucket by itself."""

    def __init__(self, clients: AwsClients, bucket: str, source: BundleSource) -> None:
        self._clients = clients
        self._bucket = bucket
        self._source = source
        self._is_there = False

    def url(self) -> str:
        if not self._is_there:
            self._ensure()
            self._is_there = True
        with aws_errors("sign the URL of the agent bundle"):
            url = self._clients.s3.generate_presigned_url(
                "get_object",
                Params={"Bucket": self._bucket, "Key": self._key},
                ExpiresIn=int(URL_EXPIRY.total_seconds()),
            )
        return _without_tls(url)

    def sha256(self) -> str:
        return self._source.sha256

    @property
    def _key(self) -> str:
        return f"agent/{self._source.sha256}.tar.gz"

    def _ensure(self) -> None:
        with aws_errors("look up the agent bundle"):
            try:
                self._clients.s3.head_object(Bucket=self._bucket, Key=self._key)
            except ClientError as error:
                if code_of(error) not in {"404", "NoSuchKey", "NotFound"}:
                    raise
                self._copy()

    def _copy(self) -> None:
        source = self._source
        with aws_errors("read the agent bundle that was deployed"):
            answer = self._clients.s3.get_object(Bucket=source.bucket, Key=source.key)
            body = answer["Body"].read()
        digest = hashlib.sha256(body)
        if digest.hexdigest() != source.sha256:
            raise InternalError(
                f"the deployed agent bundle has SHA-256 {digest.hexdigest()}, the deployment says"
                f" {source.sha256}; build and deploy again"
            )
        with aws_errors("store the agent bundle"):
            self._clients.s3.put_object(
                Bucket=self._bucket,
                Key=self._key,
                Body=body,
                ContentType="application/gzip",
                ChecksumSHA256=base64.b64encode(digest.digest()).decode(),
            )


def _without_tls(url: str) -> str:
    """AWS serves the same signed URL without TLS, which many images have no client for.

    The bundle is no secret and the machine compares its SHA-256. A host of somebody else's may
    listen on one scheme only, so its URL stays as it is.
    """
    parts = urlsplit(url)
    if not (parts.hostname or "").endswith(_AWS_HOSTS):
        return url
    return urlunsplit(parts._replace(scheme="http"))
