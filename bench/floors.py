"""What the engine has to reach beside other tools, and whether a run shows it."""

import statistics
from dataclasses import dataclass

from bench.measure import Cost
from bench.tools import OURS

Runs = dict[tuple[str, str, str], list[Cost]]
TAR = "tar | zstd -1"


@dataclass(frozen=True)
class Floor:
    """How many times as long another tool has to take."""

    tree: str
    step: str
    tool: str
    times: float


FLOORS = (
    Floor("environment", "first", "restic", 4),
    Floor("environment", "first", "borg", 3),
    Floor("environment", "first", TAR, 1.5),
    Floor("environment", "nothing", "restic", 5),
    Floor("environment", "nothing", "borg", 10),
    Floor("environment", "package", "restic", 4),
    Floor("environment", "restore", "restic", 2.5),
    Floor("environment", "restore", "borg", 3),
    Floor("environment", "restore", TAR, 1.7),
    Floor("environment", "over", "restic", 2),
    Floor("volume", "first", "restic", 4),
    Floor("volume", "checkpoint", "restic", 4),
    Floor("volume", "restore", "restic", 1.7),
    Floor("volume", "restore", "borg", 1.1),
)
_FEWER_BYTES = 0.25  # of a new checkpoint, than restic stores
_MEMORY = 2.0  # times restic's, at most


def table(runs: Runs) -> list[str]:
    """Markdown; a floor is met if the wall seconds say so."""
    lines = ["| work | against | floor | wall | processor | |", "|---|---|---|---|---|---|"]
    for floor in FLOORS:
        ours = runs.get((floor.tree, floor.step, OURS.name), [])
        theirs = runs.get((floor.tree, floor.step, floor.tool), [])
        if not ours or not theirs:
            continue
        wall = _ratio(theirs, ours, "wall")
        cells = (
            f"{floor.tree}: {floor.step}",
            floor.tool.replace("|", "\\|"),
            f"{floor.times:g}x",
            f"{wall:.2f}x",
            f"{_ratio(theirs, ours, 'cpu'):.2f}x",
        )
        lines.append(_row(*cells, is_met=wall >= floor.times))
    return [*lines, *_bytes_of_checkpoint(runs), *_memory(runs)]


def _row(*cells: str, is_met: bool) -> str:
    return f"| {' | '.join([*cells, 'met' if is_met else 'not met'])} |"


def _ratio(theirs: list[Cost], ours: list[Cost], field: str) -> float:
    own = {cost.round: getattr(cost, field) for cost in ours}
    pairs = [getattr(cost, field) / own[cost.round] for cost in theirs if own.get(cost.round)]
    return float(statistics.median(pairs))


def _bytes_of_checkpoint(runs: Runs) -> list[str]:
    added = {}
    for tool in (OURS.name, "restic"):
        before = runs.get(("volume", "log-and-database", tool))
        after = runs.get(("volume", "checkpoint", tool))
        if not before or not after:
            return []
        added[tool] = after[0].stored - before[0].stored
    fewer = 1 - added[OURS.name] / added["restic"]
    cells = (
        "volume: checkpoint",
        "restic",
        f"{_FEWER_BYTES:.0%} fewer bytes",
        f"{fewer:.1%} fewer",
    )
    return [_row(*cells, "", is_met=fewer >= _FEWER_BYTES)]


def _memory(runs: Runs) -> list[str]:
    """The worst step of all."""
    worst, where = 0.0, ""
    for (tree, step, tool), ours in runs.items():
        theirs = runs.get((tree, step, "restic"))
        if tool != OURS.name or not theirs:
            continue
        times = 1 / _ratio(theirs, ours, "rss")
        if times > worst:
            worst, where = times, f"{tree}: {step}"
    if not where:
        return []
    cells = (f"the worst: {where}", "restic", f"at most {_MEMORY:g}x its memory", f"{worst:.2f}x")
    return [_row(*cells, "", is_met=worst <= _MEMORY)]
