"""Names of images."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podferry.domain.image import BaseImage, ImageName, parse_image

DIGEST = "sha256:" + "0123456789abcdef" * 4
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reference", "registry", "repository", "tag"),
    [
        ("debian", "docker.io", "library/debian", "latest"),
        ("debian:12", "docker.io", "library/debian", "12"),
        ("docker.io/library/debian:12", "docker.io", "library/debian", "12"),
        ("docker.io/debian", "docker.io", "library/debian", "latest"),
        ("runpod/base:0.6", "docker.io", "runpod/base", "0.6"),
        ("ghcr.io/org/team/image:v1", "ghcr.io", "org/team/image", "v1"),
        ("localhost/image", "localhost", "image", "latest"),
        ("registry.example.com:5000/image", "registry.example.com:5000", "image", "latest"),
        ("registry.example.com:5000/a/b:2", "registry.example.com:5000", "a/b", "2"),
    ],
)
def test_a_reference_means_what_it_means_to_a_container_engine(
    reference: str, registry: str, repository: str, tag: str
) -> None:
    assert parse_image(reference) == ImageName(registry, repository, tag)


def test_a_digest_in_a_reference_is_read() -> None:
    assert parse_image(f"debian:12@{DIGEST}") == ImageName(
        "docker.io", "library/debian", "12", DIGEST
    )


@pytest.mark.parametrize(
    ("reference", "pinned"),
    [
        ("debian", f"debian@{DIGEST}"),
        ("debian:12", f"debian@{DIGEST}"),
        ("registry.example.com:5000/a/b", f"registry.example.com:5000/a/b@{DIGEST}"),
        (f"debian:12@{DIGEST}", f"debian@{DIGEST}"),
    ],
)
def test_a_machine_is_rented_by_digest_and_without_the_tag(reference: str, pinned: str) -> None:
    base = BaseImage(reference=reference, digest=DIGEST, looked_at=NOW)
    assert base.pinned == pinned


def test_without_a_digest_the_reference_stays_and_is_the_same_as_no_other() -> None:
    base = BaseImage(reference="debian:12", unresolved="down", looked_at=NOW)
    assert base.pinned == "debian:12"
    assert not base.is_same_image(base)


@given(st.from_regex(r"[a-z0-9][A-Za-z0-9._/:@-]{0,60}", fullmatch=True))
def test_every_reference_that_a_pod_may_have_is_read_and_pinning_is_stable(text: str) -> None:
    name = parse_image(text)
    assert name.registry
    base = BaseImage(reference=text, digest=DIGEST, looked_at=NOW)
    again = BaseImage(reference=base.pinned, digest=DIGEST, looked_at=NOW)
    assert again.pinned == base.pinned
