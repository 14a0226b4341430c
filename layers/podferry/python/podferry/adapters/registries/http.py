"""The distribution API of container registries: one HEAD of a manifest, without credentials.

    HEAD <registry>/v2/<repository>/manifests/<tag>     401: WWW-Authenticate names a token service
    GET  <service>?service=...&scope=...                {"token": "..."}
    HEAD again, with the token                          Docker-Content-Digest: sha256:...

Only registries that are known by name are asked: a pod's user writes the image, and must not make a
function of ours call a host of theirs, or one that is near the function.
"""

import hashlib
import re
import ssl
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx

from podferry.domain.image import DIGEST, DOCKER_HUB, ImageName
from podferry.ports.image_registry import Unresolved
from podferry.ports.surroundings import Clock

ANY = "*"
"""Stands for every registry in a map of addresses."""
PUBLIC: dict[str, str] = {
    DOCKER_HUB: "https://registry-1.docker.io",
    "ghcr.io": "https://ghcr.io",
    "quay.io": "https://quay.io",
    "nvcr.io": "https://nvcr.io",
}
_TOKEN_SERVICES = {"https://registry-1.docker.io": "https://auth.docker.io"}
"""Where it is another host than the registry itself."""
_ACCEPTED = (
    "application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
_TIMEOUT = httpx.Timeout(5.0, connect=3.0)
_LARGEST_MANIFEST = 4 * 1024 * 1024
_KEPT = 256
KEEP = timedelta(minutes=10)
KEEP_FAILURE = timedelta(seconds=30)
_PARAMETER = re.compile(r'([a-z]+)="([^"]*)"')


class _NoDigestError(Exception):
    """Why a registry gave none."""


@dataclass(slots=True)
class HttpRegistries:
    """`ImageRegistries` over HTTP. `addresses` are by registry; `*` is for all others."""

    clock: Clock
    addresses: Mapping[str, str] = field(default_factory=lambda: PUBLIC)
    _answers: OrderedDict[ImageName, tuple[datetime, str | Unresolved]] = field(
        default_factory=OrderedDict
    )

    def digest(self, image: ImageName) -> str | Unresolved:
        """See the port."""
        now = self.clock.now()
        until, answer = self._answers.pop(image, (now, ""))
        if until <= now:
            answer = self._ask(image)
            until = now + (KEEP_FAILURE if isinstance(answer, Unresolved) else KEEP)
        self._answers[image] = (until, answer)
        if len(self._answers) > _KEPT:
            self._answers.popitem(last=False)
        return answer

    def _ask(self, image: ImageName) -> str | Unresolved:
        address = self.addresses.get(image.registry) or self.addresses.get(ANY)
        if address is None:
            known = ", ".join(sorted(self.addresses))
            return Unresolved(f"{image.registry} is no registry that is asked; those are {known}")
        try:
            with httpx.Client(verify=_tls(), timeout=_TIMEOUT, trust_env=False) as client:
                return _Question(client, address.rstrip("/"), image).ask()
        except _NoDigestError as error:
            return Unresolved(str(error))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Unresolved(f"{image.registry} did not answer: {type(error).__name__}")


@dataclass(frozen=True, slots=True)
class _Question:
    """About one image."""

    client: httpx.Client
    address: str
    image: ImageName

    def ask(self) -> str:
        headers = {"Accept": _ACCEPTED}
        answer = self.client.head(self._url, headers=headers)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            headers["Authorization"] = f"Bearer {self._token(answer)}"
            answer = self.client.head(self._url, headers=headers)
        self._check(answer)
        found = answer.headers.get("Docker-Content-Digest", "")
        return found if DIGEST.fullmatch(found) else self._hashed(headers)

    @property
    def _url(self) -> str:
        return f"{self.address}/v2/{self.image.repository}/manifests/{self.image.tag}"

    def _token(self, refusal: httpx.Response) -> str:
        challenge = refusal.headers.get("WWW-Authenticate", "")
        wanted = dict(_PARAMETER.findall(challenge))
        realm = wanted.pop("realm", "")
        if not challenge.lower().startswith("bearer ") or not self._is_own(realm):
            raise _NoDigestError(f"{self._name} wants credentials")
        answer = self.client.get(realm, params=wanted)
        if answer.status_code != httpx.codes.OK:
            raise _NoDigestError(f"{self._name} is private, or there is no such image")
        return _token_in(answer)

    def _is_own(self, realm: str) -> bool:
        """A token is asked for where the registry is, or where it is known to have its service."""
        own = {_origin(self.address), _TOKEN_SERVICES.get(self.address)}
        return _origin(realm) in own

    def _check(self, answer: httpx.Response) -> None:
        status = answer.status_code
        if status == httpx.codes.OK:
            return
        if status == httpx.codes.NOT_FOUND:
            raise _NoDigestError(f"{self._name} has no tag {self.image.tag}")
        if status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            raise _NoDigestError(f"{self._name} is private, or there is no such image")
        if status == httpx.codes.TOO_MANY_REQUESTS:
            raise _NoDigestError(f"{self.image.registry} takes no more questions for now")
        raise _NoDigestError(f"{self.image.registry} answered {status}")

    def _hashed(self, headers: Mapping[str, str]) -> str:
        """Some registries do not say the digest: it is that of the manifest's bytes."""
        digest, size = hashlib.sha256(), 0
        with self.client.stream("GET", self._url, headers=headers) as answer:
            self._check(answer)
            for part in answer.iter_bytes():
                size += len(part)
                if size > _LARGEST_MANIFEST:
                    raise _NoDigestError(f"{self._name} has a manifest that is no manifest")
                digest.update(part)
        return f"sha256:{digest.hexdigest()}"

    @property
    def _name(self) -> str:
        return f"{self.image.registry}/{self.image.repository}"


def parse_addresses(text: str | None) -> dict[str, str]:
    """The public registries, and what the operator adds: `registry.example.com=https://...,...`.

    Raises:
        ValueError: the text has another form.
    """
    pairs = [pair.partition("=") for pair in (text or "").split(",") if pair]
    wrong = [name for name, _, url in pairs if _origin(url) is None]
    if wrong:
        raise ValueError(f"the address of registry {wrong[0]!r} must be http(s)://host[:port]")
    return {**({} if any(n == ANY for n, _, _ in pairs) else PUBLIC), **{n: u for n, _, u in pairs}}


@cache
def _tls() -> ssl.SSLContext:
    """Costs more than a question."""
    return httpx.create_ssl_context(trust_env=False)


def _token_in(answer: httpx.Response) -> str:
    try:
        body: Any = answer.json()
    except ValueError as error:
        raise _NoDigestError("the registry's token service does not answer in JSON") from error
    token = (body.get("token") or body.get("access_token")) if isinstance(body, dict) else None
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        raise _NoDigestError("the registry's token service gives no token")
    return token


def _origin(url: str) -> str | None:
    parts = urlsplit(url)
    is_web = parts.scheme in {"http", "https"} and bool(parts.hostname)
    return f"{parts.scheme}://{parts.netloc}" if is_web else None
