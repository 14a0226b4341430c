"""One name per GPU, whatever a provider calls it."""

import pytest

from podferry.adapters.providers.gpu_names import CANONICAL, canonical_name, vast_names


@pytest.mark.parametrize(
    ("model", "interface", "name"),
    [
        ("h100", "SXM", "H100 SXM"),
        ("h100", "sxm", "H100 SXM"),
        ("h100", "PCIE", "H100 PCIe"),
        ("h200", "SXM", "H200 SXM"),
        ("a100", "pcie", "A100 PCIe"),
        ("l40s", "PCIE", "L40S"),
        ("rtx4090", "PCIE", "RTX 4090"),
        ("rtx-a6000", "pcie", "RTX A6000"),
        ("h300", "sxm", "H300 SXM"),
        ("H100", "SXM5", "H100 SXM"),
        ("A100", "SXM4", "A100 SXM"),
        ("A10", "PCIe", "A10"),
        ("B200", "SXM6", "B200"),
        ("A100 SXM4", None, "A100 SXM"),
        ("H100 PCIE", None, "H100 PCIe"),
        ("H200", None, "H200 SXM"),
        ("RTX 6000Ada", None, "RTX 6000 Ada"),
        ("RTX 4080S", None, "RTX 4080 SUPER"),
        ("Tesla V100", None, "V100"),
        ("RTX 3090 Ti", None, "RTX 3090 Ti"),
        ("RTX_4090", None, "RTX 4090"),
        ("Radeon VII", None, "Radeon VII"),
    ],
)
def test_spellings_of_providers_lead_to_our_name(
    model: str, interface: str | None, name: str
) -> None:
    assert canonical_name(model, interface) == name


@pytest.mark.parametrize("name", CANONICAL)
def test_what_vast_is_asked_for_comes_back_under_our_name(name: str) -> None:
    assert {canonical_name(spelling) for spelling in vast_names(name)} == {name}


def test_a_name_that_nobody_knows_is_asked_for_as_it_is() -> None:
    assert vast_names("Radeon VII") == ("Radeon VII",)
