"""Which image a tag stands for, as the memory adapter and a registry on loopback say."""

from collections.abc import Iterator
from http import HTTPStatus

import pytest

from local.registry import Registry
from podferry.adapters.memory.registries import MemoryRegistries
from podferry.adapters.memory.surroundings import ManualClock
from podferry.adapters.registries.http import (
    ANY,
    KEEP,
    KEEP_FAILURE,
    PUBLIC,
    HttpRegistries,
    parse_addresses,
)
from podferry.domain.image import DIGEST, ImageName, parse_image
from podferry.ports.image_registry import ImageRegistries, Unresolved

DEBIAN = parse_image("debian:12")


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    yield server
    server.stop()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def over_http(registry: Registry, clock: ManualClock) -> HttpRegistries:
    return HttpRegistries(clock, {ANY: registry.url})


@pytest.fixture(params=["memory", "http"])
def registries(request: pytest.FixtureRequest) -> ImageRegistries:
    if request.param == "memory":
        return MemoryRegistries()
    return request.getfixturevalue("over_http")  # type: ignore[no-any-return]


def test_a_tag_has_one_digest_and_other_tags_have_others(registries: ImageRegistries) -> None:
    names = ["debian:12", "debian:11", "debian", "ghcr.io/debian:12", "a/b/c:12"]
    digests = [registries.digest(parse_image(name)) for name in names]
    assert all(isinstance(digest, str) and DIGEST.fullmatch(digest) for digest in digests)
    assert registries.digest(DEBIAN) == digests[0]
    assert digests[0] != digests[1]


def test_the_digest_is_that_of_the_index_and_not_of_one_platform(
    over_http: HttpRegistries, registry: Registry
) -> None:
    import hashlib  # noqa: PLC0415 - of this test alone

    index = registry.catalog.manifest("library/debian", "12")
    assert b'"arm64"' in index
    assert over_http.digest(DEBIAN) == f"sha256:{hashlib.sha256(index).hexdigest()}"


def test_a_registry_that_does_not_say_the_digest_is_asked_for_the_manifest(
    over_http: HttpRegistries, registry: Registry, clock: ManualClock
) -> None:
    said = over_http.digest(DEBIAN)
    registry.catalog.says_digest = False
    assert HttpRegistries(clock, over_http.addresses).digest(DEBIAN) == said


def test_an_answer_is_kept_for_some_minutes_and_a_failure_for_seconds(
    over_http: HttpRegistries, registry: Registry, clock: ManualClock
) -> None:
    first = over_http.digest(DEBIAN)
    registry.catalog.move("library/debian:12")
    assert over_http.digest(DEBIAN) == first
    clock.advance(KEEP)
    moved = over_http.digest(DEBIAN)
    assert moved != first
    registry.catalog.status = HTTPStatus.SERVICE_UNAVAILABLE
    clock.advance(KEEP)
    assert isinstance(over_http.digest(DEBIAN), Unresolved)
    registry.catalog.status = None
    asked = len(registry.catalog.asked)
    assert isinstance(over_http.digest(DEBIAN), Unresolved)
    assert len(registry.catalog.asked) == asked
    clock.advance(KEEP_FAILURE)
    assert over_http.digest(DEBIAN) == moved


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (HTTPStatus.TOO_MANY_REQUESTS, "takes no more questions"),
        (HTTPStatus.BAD_GATEWAY, "answered 502"),
        (HTTPStatus.FORBIDDEN, "is private, or there is no such image"),
        (HTTPStatus.FOUND, "answered 302"),
    ],
)
def test_what_a_registry_refuses_is_said(
    over_http: HttpRegistries, registry: Registry, status: HTTPStatus, reason: str
) -> None:
    registry.catalog.status = status
    assert reason in reason_of(over_http, DEBIAN)


def test_a_private_repository_and_a_tag_that_is_not_there_are_told(
    over_http: HttpRegistries, registry: Registry
) -> None:
    registry.catalog.private.add("team/secret")
    private = reason_of(over_http, parse_image("registry.example.com/team/secret:1"))
    assert private == "registry.example.com/team/secret is private, or there is no such image"
    missing = reason_of(over_http, parse_image("broken/nonexistent:1"))
    assert missing == "docker.io/broken/nonexistent has no tag 1"


def test_a_registry_that_is_down_is_no_error(clock: ManualClock, registry: Registry) -> None:
    url = registry.url
    registry.stop()
    assert "did not answer" in reason_of(HttpRegistries(clock, {ANY: url}), DEBIAN)


@pytest.mark.parametrize(
    "image", ["127.0.0.1:1/a/b", "localhost/a", "169.254.169.254/latest/meta", "evil.example/a:1"]
)
def test_case_j14_no_host_is_asked_that_only_the_image_names(
    clock: ManualClock, image: str
) -> None:
    assert "is no registry that is asked" in reason_of(HttpRegistries(clock), parse_image(image))


def test_case_j14_a_token_is_not_asked_for_at_a_host_that_the_registry_names(
    clock: ManualClock, registry: Registry
) -> None:
    other = Registry()
    try:
        # As if the registry sent us elsewhere: what it says of itself is another address.
        port = registry.url.rpartition(":")[2]
        asked = HttpRegistries(clock, {ANY: f"http://localhost:{port}"})
        registry.catalog.asked.clear()
        forged = f'Bearer realm="{other.url}/token",service="x"'
        registry.catalog.challenge = forged
        assert "wants credentials" in reason_of(asked, DEBIAN)
        assert other.catalog.asked == []
    finally:
        other.stop()


def reason_of(registries: ImageRegistries, image: ImageName) -> str:
    answer = registries.digest(image)
    assert isinstance(answer, Unresolved), answer
    return answer.reason


def test_addresses_are_added_to_the_public_ones_or_replace_them_all() -> None:
    assert parse_addresses(None) == PUBLIC
    mine = "registry.example.com"
    assert parse_addresses(f"{mine}=https://{mine}") == {**PUBLIC, mine: f"https://{mine}"}
    assert parse_addresses("*=http://127.0.0.1:5") == {ANY: "http://127.0.0.1:5"}
    with pytest.raises(ValueError, match=r"registry 'a\.example'"):
        parse_addresses("a.example=ftp://a.example")
