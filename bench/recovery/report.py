"""Writes docs/recovery.md from what was measured."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.recovery.phases import PHASES
from bench.recovery.results import Measured, all_kept
from bench.recovery.window import WRITE_SECONDS

Row = dict[str, Any]
_STEPS = 6  # of the histogram


def write_report(path: Path) -> None:
    kept = all_kept()
    parts = (
        _recoveries([each for each in kept if each.name.startswith("phases")]),
        *(_window(each) for each in kept if each.name == "window"),
        *(_slowdown(each) for each in kept if each.name == "slowdown"),
    )
    lines = ["# Recovery, loss and the price of saves", "", "Made by `python -m bench.recovery`."]
    for part in parts:
        lines += ["", *part]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _conditions(measured: Measured, command: str) -> list[str]:
    options = " ".join(f"--{name} {value}" for name, value in measured.options.items())
    line = f"`python -m bench.recovery {command} {options}` on {measured.machine}."
    return [f"{line} {measured.note}".strip()]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _seconds(value: float) -> str:
    return f"{value:.1f} s"


# Recoveries


def _recoveries(measured: list[Measured]) -> list[str]:
    lines = [
        "## From a reclaim without notice to running",
        "",
        (
            "A simulated provider takes the machine of a pod that has an environment and a volume "
            "to restore, and warns nobody. No clock is skipped. A loss takes a minute of silence "
            "and the provider's word, and is looked for once a minute: that is the first phase. "
            "In the volume are noise, text and small files of both. Machine, store and control "
            "plane share this host: a real machine takes longer to boot, and its network has "
            "another speed."
        ),
    ]
    for each in measured:
        lines += ["", *_recovery(each)]
    return lines


def _recovery(measured: Measured) -> list[str]:
    rows = measured.rows
    rounds = [f"round {number + 1}" for number in range(len(rows))]
    table = [
        [phase, *(_seconds(row["seconds"][place]) for row in rows), _median(rows, _phase(place))]
        for place, phase in enumerate(PHASES)
    ]
    total = ["**all**", *(_seconds(row["total"]) for row in rows)]
    table.append([*total, _median(rows, lambda row: float(row["total"]))])
    return [
        f"### {measured.options['gb']:g} GB of volume",
        "",
        *_conditions(measured, "phases"),
        "",
        *_table(["phase", *rounds, "median"], table),
        "",
        *_restored(rows),
    ]


def _phase(place: int) -> Callable[[Row], float]:
    return lambda row: float(row["seconds"][place])


def _median(rows: list[Row], value: Callable[[Row], float]) -> str:
    return _seconds(statistics.median(value(row) for row in rows))


def _restored(rows: list[Row]) -> list[str]:
    facts = []
    for kind in ("environment", "volume"):
        newest = rows[-1][kind]
        took = statistics.median(row[kind]["duration_seconds"] for row in rows)
        facts.append(
            f"Of the {kind} {newest['written_bytes'] / 1e9:.2f} of {newest['bytes'] / 1e9:.2f} GB "
            f"in {newest['files']:,} files were written, which took the engine {took:.1f} s."
        )
    same = sum(row["is_same"] for row in rows)
    facts.append(f"The volume came back byte for byte in {same} of {len(rows)} rounds.")
    return [" ".join(facts)]


# Loss


def _window(measured: Measured) -> list[str]:
    interval = measured.options["interval"]
    lost = sorted(row["lost_seconds"] for row in measured.rows)
    unsaid = [row["lost_seconds"] - row["said_seconds"] for row in measured.rows]
    gapless = sum(row["is_gapless"] for row in measured.rows)
    beyond = sum(value > interval for value in lost)
    figures = [
        ["interval between saves", f"{interval} s"],
        ["kills", str(len(lost))],
        ["least", _seconds(lost[0])],
        ["median", _seconds(statistics.median(lost))],
        ["mean", _seconds(statistics.fmean(lost))],
        ["9 of 10 below", _seconds(lost[-(-len(lost) * 9 // 10) - 1])],
        ["most", _seconds(lost[-1])],
        ["kills that took more than an interval", str(beyond)],
        ["without a gap before the newest line", f"{gapless} of {len(lost)}"],
        ["more than the pod itself told", _seconds(max(0.0, *unsaid)) + " at most"],
    ]
    return [
        "## What a reclaim without notice takes with it",
        "",
        (
            f"A writer in each pod appends a line with its time every {WRITE_SECONDS} s. Machines "
            "are taken at random moments of one interval, evenly spread. Lost is the time from the "
            "newest line that came back to the kill. Saves begin an interval apart: an interval "
            "and the time of one save may be lost, half an interval is expected. Only the silence "
            "that proves a loss is skipped, when all machines of a round are gone. The age that a "
            "pod tells of its state (`recovered_from`) ends with the last heartbeat of its machine."
        ),
        "",
        *_conditions(measured, "window"),
        "",
        *_table(["", ""], figures),
        "",
        *_table(["lost", "kills"], _histogram(lost, interval)),
    ]


def _histogram(lost: list[float], interval: float) -> list[list[str]]:
    step = interval / _STEPS
    edges = [(number * step, (number + 1) * step) for number in range(_STEPS)]
    rows = [
        [f"{low:.0f} to {high:.0f} s", str(sum(low <= value < high for value in lost))]
        for low, high in edges
    ]
    return [*rows, [f"{interval} s and more", str(sum(value >= interval for value in lost))]]


# Price


def _slowdown(measured: Measured) -> list[str]:
    cells = [_kind(kind, measured.rows) for kind in dict.fromkeys(r["kind"] for r in measured.rows)]
    saves = [save for row in measured.rows for save in row["saves"]]
    return [
        "## What a save costs the programs beside it",
        "",
        (
            "The engine as in an agent (niced, half a core at most, may pause a writer for a "
            "moment), programs of one kind on all cores. Stretches with and without saves take "
            "turns within a round; each save is a first one, so that there is work all the time: "
            "the worst case. Over an interval only the share of it counts in which a save works."
        ),
        "",
        *_conditions(measured, "slowdown"),
        "",
        *_table(["programs", "alone", "beside saves", "median ratio", "worst", "best"], cells),
        "",
        _saves(saves, measured.options["mb"]),
    ]


def _kind(kind: str, rows: list[Row]) -> list[str]:
    own = [row for row in rows if row["kind"] == kind]
    ratios = [row["beside_saves"] / row["alone"] for row in own]
    alone, beside = (
        f"{statistics.median(row[name] for row in own):,.0f} MB/s"
        for name in ("alone", "beside_saves")
    )
    ratio = (statistics.median(ratios), min(ratios), max(ratios))
    return [kind, alone, beside, *(f"{value:.2f}" for value in ratio)]


def _saves(saves: list[Row], mb: int) -> str:
    if not saves:
        return "No save came to its end within a stretch."
    seconds, used, paused = (
        statistics.median(save[name] for save in saves)
        for name in ("seconds", "processor_seconds", "paused_ms")
    )
    return (
        f"A first save of {mb} MB took {seconds:.1f} s and {used:.1f} processor seconds, and "
        f"paused writers for {paused:.0f} ms (median of {len(saves)} that came to an end)."
    )
