"""`docs/providers.md`, made from what the adapters declare of their providers.

`python -m podferry.adapters.providers.overview` writes it.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

from podferry.adapters.providers.registry import (
    EVERY_CALL,
    PROVIDERS,
    AdapterClass,
    adapter_class,
)
from podferry.domain.offer import BillingRule, Channel
from podferry.ports.gpu_cloud import BootTraits, CloudTraits

_HEAD = """\
# Providers

What the adapters declare of each provider, in `traits` and `min_interval_seconds` of their classes
(`layers/podferry/python/podferry/adapters/providers`). The contract tests hold offers and machines
to it. Made from the code by `make openapi`.

"""
_FOOT = """
- *Start script*: how Podferry's boot script gets onto the machine, and its longest size, with all
  that shares a field or body with it: its environment, and on a VM the script around it.
- *Reclaim notice*: the least warning before a spot machine is taken away.
- *New in lists*: for how long a machine that was just rented may be missing from lists. Until then
  nothing is concluded from its absence.
- *Failed is final*: whether a machine that failed costs nothing more. Others are given up first.
"""
_CHANNELS = {
    Channel.ENTRYPOINT: "entry point of the container",
    Channel.STARTUP_SCRIPT: "startup script",
    Channel.CLOUD_INIT: "cloud-init",
    Channel.SSH: "brought over SSH",
}
_UNITS = {1: "second", 60: "minute", 3600: "hour"}

_ROWS: dict[str, Callable[[AdapterClass], str]] = {
    "Machines": lambda kind: _listed(tuple(kind.traits.boots)),
    "Markets": lambda kind: _listed(kind.traits.markets),
    "Billed by": lambda kind: _billing(kind.traits.billing),
    "Start script": lambda kind: _by_kind(
        kind.traits,
        lambda boot: f"{_CHANNELS[boot.channel]}, {boot.bootstrap_limit:,} characters",
    ),
    "Reclaim notice": lambda kind: _seconds(kind.traits.reclaim_notice_seconds),
    "Given up while it starts": lambda kind: _yes(is_so=kind.traits.can_cancel_starting),
    "Failed is final": lambda kind: _yes(is_so=kind.traits.failed_is_final),
    "Shows the contract's price": lambda kind: _yes(is_so=kind.traits.shows_price),
    "Shows when the bill began": lambda kind: _yes(is_so=kind.traits.shows_billing_start),
    "Time to boot": lambda kind: _by_kind(
        kind.traits, lambda boot: _seconds(boot.deadline_seconds)
    ),
    "Looked at every": lambda kind: _seconds(kind.traits.poll_seconds),
    "New in lists after": lambda kind: _seconds(kind.traits.listing_settles_seconds),
    "Between calls": lambda kind: _intervals(kind.min_interval_seconds),
}


def rendered() -> str:
    """The page as it is stored."""
    kinds = {name: adapter_class(name) for name in sorted(PROVIDERS)}
    lines = [["", *(f"`{name}`" for name in kinds)], ["---"] * (len(kinds) + 1)]
    lines += [[title, *map(cell, kinds.values())] for title, cell in _ROWS.items()]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return _HEAD + table + _FOOT + "".join(_about(kinds))


def _about(kinds: dict[str, AdapterClass]) -> Iterator[str]:
    """Each provider's peculiarities and their source, which its module begins with."""
    for name, kind in kinds.items():
        text = inspect.getdoc(import_module(kind.__module__)) or ""
        yield f"\n## `{name}`\n\n{text}\n"


def _by_kind(traits: CloudTraits, cell: Callable[[BootTraits], str]) -> str:
    """One word for all kinds if it is the same, else one for each."""
    cells = {kind: cell(boot) for kind, boot in traits.boots.items()}
    if len(set(cells.values())) == 1:
        return next(iter(cells.values()))
    return "; ".join(f"{kind}: {text}" for kind, text in cells.items())


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(word.replace("_", " ") for word in words)


def _billing(rule: BillingRule) -> str:
    text = f"started {_UNITS[rule.increment_seconds]}"
    if rule.minimum_seconds > rule.increment_seconds:
        text += f", at least {_seconds(rule.minimum_seconds)}"
    return text


def _intervals(by_call: Mapping[str, float]) -> str:
    parts = (
        f"{seconds:g} s {'any' if call == EVERY_CALL else f'`{call}`'}"
        for call, seconds in by_call.items()
    )
    return ", ".join(parts) or "-"


def _seconds(number: int | None) -> str:
    return "-" if number is None else f"{number} s"


def _yes(*, is_so: bool) -> str:
    return "yes" if is_so else "no"


def main() -> None:
    """Write the page into `docs/` of the checkout that this is run in."""
    Path("docs/providers.md").write_text(rendered(), encoding="utf-8")


if __name__ == "__main__":
    main()
