"""Numbers of versions follow each other, and a frozen capture says so itself."""

from dataclasses import replace

import pytest

from podferry.domain.garbage import Mark
from podferry.domain.snapshot import SnapshotKind
from podferry.domain.version import begun_as, freeze, version_id
from podferry.domain.volume import Environment, VersionRef
from tests.contract.entities import ACCOUNT, NOW, a_save, an_id


def an_environment() -> Environment:
    return Environment(
        id=an_id("env"), account_id=ACCOUNT, created_at=NOW, name="tools", image="debian:12"
    )


def test_versions_are_counted_from_one_without_a_gap() -> None:
    environment = an_environment()
    numbers = []
    for _ in range(3):
        frozen = freeze(environment, a_save(kind=SnapshotKind.ENVIRONMENT), None, NOW)
        numbers.append((frozen.version.number, frozen.snapshot.version))
        environment = frozen.environment
    assert numbers == [(1, 1), (2, 2), (3, 3)]
    assert environment.versions == 3


def test_ids_of_versions_sort_by_their_numbers_and_belong_to_one_environment() -> None:
    one, other = an_environment(), an_environment()
    ids = [version_id(one.id, number) for number in (1, 2, 9, 10, 11, 100, 999_999)]
    assert ids == sorted(ids)
    assert version_id(one.id, 1) != version_id(other.id, 1)


def test_a_frozen_capture_is_no_longer_marked_as_garbage() -> None:
    marked = replace(a_save(kind=SnapshotKind.ENVIRONMENT), mark=Mark(at=NOW, round=1))
    assert freeze(an_environment(), marked, None, NOW).snapshot.mark is None


@pytest.mark.parametrize(
    ("named", "is_named"), [({"label": "best"}, True), ({"version": 1}, True), ({}, False)]
)
def test_what_has_a_label_or_a_number_is_kept_by_name(named: dict[str, object], is_named: bool):
    assert a_save(**named).is_named is is_named


def test_an_environment_begins_as_a_version_with_its_image_and_capture() -> None:
    source = an_environment()
    capture = a_save(kind=SnapshotKind.ENVIRONMENT, summary={"bytes": 7})
    version = freeze(source, capture, None, NOW).version
    begun = begun_as(replace(an_environment(), image="other"), version)
    assert (begun.image, begun.head, begun.size_bytes) == ("debian:12", capture.id, 7)
    assert begun.made_from == VersionRef(environment_id=source.id, number=1)
    assert begun.versions == 0
