"""Writes what was measured as a table of ratios, and as a plot."""

import platform
import statistics
from collections.abc import Callable
from pathlib import Path

from bench import floors
from bench.floors import Runs
from bench.measure import Cost
from bench.tools import OURS, Tool

_TITLES = {
    ("environment", "first"): "environment: first capture",
    ("environment", "nothing"): "environment: nothing changed",
    ("environment", "package"): "environment: one package more",
    ("environment", "restore"): "environment: full restore",
    ("environment", "over"): "environment: restore over a base that has most files",
    ("volume", "first"): "volume: first capture",
    ("volume", "nothing"): "volume: nothing changed",
    ("volume", "log-and-database"): "volume: a log and a database grew",
    ("volume", "checkpoint"): "volume: a new checkpoint",
    ("volume", "restore"): "volume: full restore",
}
_ROW = "| {} | {:.2f} s | {:.2f} s | {} MiB | {} MB | {} | {} | {} |"
_LIMITS = Path(__file__).with_name("limits.md")  # why floors are missed, and what it would take


def write_report(
    path: Path, costs: list[Cost], tools: tuple[list[Tool], list[str]], note: str
) -> None:
    """`tools`: those that may have run, and the names of those that are not installed."""
    runs: Runs = {}
    for cost in costs:
        runs.setdefault((cost.tree, cost.step, cost.tool), []).append(cost)
    plot = path.with_suffix(".png")
    lines = [*_head(costs, *tools, note)]
    if _plot(plot, runs):
        lines += ["", f"![ratios]({plot.name})"]
    lines += ["", "## Floors", "", *floors.table(runs), "", *_LIMITS.read_text().splitlines()]
    for (tree, step), title in _TITLES.items():
        if (tree, step, OURS.name) in runs:
            lines += ["", f"## {title.capitalize()}", "", *_table(runs, tree, step)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _head(costs: list[Cost], tools: list[Tool], missing: list[str], note: str) -> list[str]:
    rounds = 1 + max(cost.round for cost in costs)
    used = {cost.tool for cost in costs}
    listed = [
        f"- {tool.name}: {tool.version() or 'this checkout'}"
        + (f"; {tool.remark}" if tool.remark else "")
        for tool in tools
        if tool.name in used
    ]
    return [
        "# The engine beside other tools",
        "",
        (
            f"Made by `python -m bench`: {rounds} round(s), all tools in turn for each step, "
            f"on one disk, on {platform.processor() or platform.machine()}, "
            f"Linux {platform.release()}, Python {platform.python_version()}. "
            "Whole processes, start included."
        ),
        "",
        (
            "Ratios are theirs / ours within one round, median of the rounds: above 1 ours is "
            "better. Processor seconds hold on a busy machine, wall seconds do not. Memory is the "
            "peak of the largest process. Stored is the repository after the step."
        ),
        "",
        *listed,
        f"- not installed here: {', '.join(missing) or 'none'}",
        *(["", note] if note else []),
    ]


def _table(runs: Runs, tree: str, step: str) -> list[str]:
    lines = [
        "| tool | wall | processor | memory | stored | wall ratio | processor ratio | remark |",
        "|---|---|---|---|---|---|---|---|",
    ]
    ours = runs[tree, step, OURS.name]
    for (of_tree, of_step, tool), costs in runs.items():
        if (of_tree, of_step) != (tree, step):
            continue
        remark = next((c.error.strip() for c in costs if c.error), "").split("\n")[0][:80]
        if any(cost.status for cost in costs):
            remark = f"exit status {costs[0].status}; {remark}"
        lines.append(
            _ROW.format(
                tool.replace("|", "\\|"),
                statistics.median(c.wall for c in costs),
                statistics.median(c.cpu for c in costs),
                int(statistics.median(c.rss for c in costs)) >> 20,
                round(costs[0].stored / 1e6),
                _ratio(costs, ours, lambda c: c.wall),
                _ratio(costs, ours, lambda c: c.cpu),
                remark.replace("|", "\\|"),
            )
        )
    return lines


def _ratio(theirs: list[Cost], ours: list[Cost], value: Callable[[Cost], float]) -> str:
    if theirs is ours:
        return "1"
    found = ratio(theirs, ours, value)
    return f"{found:.2f}x" if found else "-"


def ratio(theirs: list[Cost], ours: list[Cost], value: Callable[[Cost], float]) -> float | None:
    """Median over the rounds that both have."""
    own = {cost.round: value(cost) for cost in ours}
    pairs = [value(c) / own[c.round] for c in theirs if own.get(c.round)]
    return statistics.median(pairs) if pairs else None


def _plot(path: Path, runs: Runs) -> bool:
    """False without matplotlib: it is no requirement of the product."""
    try:
        from matplotlib.figure import (  # type: ignore[import-not-found]  # noqa: PLC0415
            Figure,
        )
    except ImportError:
        return False
    steps = [key for key in _TITLES if (*key, OURS.name) in runs]
    names = list(dict.fromkeys(tool for _, _, tool in runs if tool != OURS.name))
    figure = Figure(figsize=(10, 1.2 + 0.75 * len(steps)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / max(1, len(names))
    for place, name in enumerate(names):
        values = [
            ratio(runs.get((*key, name), []), runs[*key, OURS.name], lambda c: c.cpu) or 0
            for key in steps
        ]
        positions = [row + place * height for row in range(len(steps))]
        axes.barh(positions, values, height=height, label=name)
    axes.set_yticks([row + 0.4 for row in range(len(steps))], [_TITLES[key] for key in steps])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black")
    axes.set_xlabel("processor seconds: theirs / ours (right of the line ours is better)")
    axes.legend()
    figure.savefig(path, dpi=110)
    return True
