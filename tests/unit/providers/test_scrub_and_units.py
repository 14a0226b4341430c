"""Small translations: text without secrets, money and sizes in our units."""

from decimal import Decimal
from typing import Any

import pytest

from podferry.adapters.providers.scrub import scrub
from podferry.adapters.providers.units import bytes_of, gb_from_gib, gib_from_gb, microusd


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain words stay", "plain words stay"),
        ("line\n\tbreaks   go", "line breaks go"),
        ("key s3cret!", "key [removed]"),
        ("pfm_mach_01abc_defghijk rest", "[removed] rest"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [removed]"),
        ("https://b.test/k?X-Amz-Signature=1 x", "https://b.test/k?[removed] x"),
        ("a" * 40, "[removed]"),
    ],
)
def test_case_x5_secrets_do_not_survive_scrubbing(text: str, clean: str) -> None:
    assert scrub(text, "s3cret!", "") == clean


def test_long_text_is_cut() -> None:
    assert len(scrub("word " * 200)) == 303


@pytest.mark.parametrize(
    ("usd", "expected"),
    [("1.5", 1_500_000), ("0.3625", 362_500), ("0.0000001", 1), ("0", 0), ("1.2", 1_200_000)],
)
def test_prices_are_exact_and_rounded_up(usd: str, expected: int | None) -> None:
    assert microusd(Decimal(usd)) == expected


@pytest.mark.parametrize(
    ("count", "units", "expected"),
    [
        (Decimal(128), "Gi", 128 * 2**30),
        ("80Gi", "", 80 * 2**30),
        (Decimal("1.5"), "TiB", 3 * 2**39),
        (Decimal(2), "GB", 2 * 10**9),
        (Decimal(2), "parsec", None),
        ("", "", None),
    ],
)
def test_sizes_with_units_become_bytes(count: Any, units: str, expected: int | None) -> None:
    assert bytes_of(count, units) == expected


@pytest.mark.parametrize("gib", [1, 8, 20, 60, 1000])
def test_a_disk_asked_for_in_gigabytes_holds_the_gibibytes(gib: int) -> None:
    gb = gb_from_gib(gib)

    assert gib_from_gb(Decimal(gb)) == gib
    assert gb * 10**9 >= gib * 2**30 > (gb - 1) * 10**9
