"""One name per GPU model, whatever a provider calls it.

Our names are the display names of RunPod's public table of GPU types (2025-06-13), which tell
form factors apart. Vast.ai's spellings are those that gpuhunt 0.1.34 maps and Vast's own
documentation shows; EC2's are those of `DescribeInstanceTypes`; Fluence gives a lower-case model
and an interface (`h100`, `SXM`).
A model that is not in the table keeps its provider's words: it can be rented, by that name.
"""

import re

CANONICAL = (
    "A10", "A10G", "A30", "A40",
    "A100 PCIe", "A100 SXM", "A100X", "A800 PCIe",
    "H100 NVL", "H100 PCIe", "H100 SXM",
    "H200 NVL", "H200 SXM",
    "B200", "B300",
    "L4", "L40", "L40S",
    "P4", "P40", "P100", "T4", "V100",
    "RTX 2000 Ada", "RTX 4000 Ada", "RTX 5000 Ada", "RTX 5880 Ada", "RTX 6000 Ada",
    "RTX PRO 6000", "RTX PRO 6000 WS",
    "RTX A2000", "RTX A4000", "RTX A4500", "RTX A5000", "RTX A6000",
    "RTX 3060", "RTX 3060 Ti", "RTX 3070", "RTX 3070 Ti", "RTX 3080", "RTX 3080 Ti",
    "RTX 3090", "RTX 3090 Ti",
    "RTX 4060", "RTX 4060 Ti", "RTX 4070", "RTX 4070 Ti", "RTX 4080", "RTX 4080 SUPER",
    "RTX 4090", "RTX 4090D",
    "RTX 5060 Ti", "RTX 5070", "RTX 5070 Ti", "RTX 5080", "RTX 5090",
    "Quadro RTX 6000", "Quadro RTX 8000",
)  # fmt: skip

_OTHER_SPELLINGS = {
    "a100sxm4": "A100 SXM",
    "a2000": "RTX A2000",
    "a4000": "RTX A4000",
    "a4500": "RTX A4500",
    "a5000": "RTX A5000",
    "a6000": "RTX A6000",
    "h100sxm5": "H100 SXM",
    "h200": "H200 SXM",
    "h200sxm5": "H200 SXM",
    "rtx4080s": "RTX 4080 SUPER",
    "rtxproserver6000": "RTX PRO 6000",
    "rtxpro6000workstation": "RTX PRO 6000 WS",
    "qrtx6000": "Quadro RTX 6000",
    "qrtx8000": "Quadro RTX 8000",
}

VAST_SPELLINGS = {
    "A100 PCIe": ("A100 PCIE",),
    "A100 SXM": ("A100 SXM4",),
    "A800 PCIe": ("A800 PCIE",),
    "H100 PCIe": ("H100 PCIE",),
    "H200 SXM": ("H200",),
    "P4": ("Tesla P4",),
    "P40": ("Tesla P40",),
    "P100": ("Tesla P100",),
    "T4": ("Tesla T4",),
    "V100": ("Tesla V100",),
    "RTX 2000 Ada": ("RTX 2000Ada",),
    "RTX 4000 Ada": ("RTX 4000Ada",),
    "RTX 5000 Ada": ("RTX 5000Ada",),
    "RTX 5880 Ada": ("RTX 5880Ada",),
    "RTX 6000 Ada": ("RTX 6000Ada",),
    "RTX 4080 SUPER": ("RTX 4080S",),
    "Quadro RTX 6000": ("Q RTX 6000",),
    "Quadro RTX 8000": ("Q RTX 8000",),
}


def canonical_name(model: str, interface: str | None = None) -> str:
    """Our name of a provider's `model`, told apart by `interface` where a model has several."""
    for words in (f"{model} {interface or ''}", model):
        name = _BY_KEY.get(_key(words))
        if name is not None:
            return name
    return model.strip() if interface is None else f"{model} {interface}".strip().upper()


def vast_names(name: str) -> tuple[str, ...]:
    """What Vast.ai's search has to be asked for to find our `name`."""
    return VAST_SPELLINGS.get(name, (name,))


def _key(words: str) -> str:
    """Spaces, dashes, case and the maker's name do not tell GPUs apart."""
    return re.sub(r"nvidia|geforce|tesla|[^a-z0-9]", "", words.lower())


_BY_KEY = {_key(name): name for name in CANONICAL} | _OTHER_SPELLINGS
