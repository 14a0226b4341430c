"""`python -m bench`: our engine and other tools side by side, in one run, on one disk.

Each step is run by all tools, one after the other, before the next step; a ratio compares two runs
of one round, because the speed of a machine drifts. Not a test: nothing here passes or fails.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from bench.measure import Cost, run, touch_room, tree_bytes
from bench.report import write_report
from bench.tools import OURS, PEERS, Tool, compile_ours, environment_of, restic_over_options
from bench.trees import differences

PLAN = {
    "environment": ["first", "nothing", "package", "restore", "over"],
    "volume": ["first", "nothing", "log-and-database", "checkpoint", "restore"],
}
_RESTORES = ("restore", "over")
_LIMIT_SECONDS = 900


class Round:
    """All tools through all steps, once."""

    def __init__(self, work: Path, args: argparse.Namespace, number: int) -> None:
        self._work = work
        self._args = args
        self._number = number
        self._data = work / "data"
        self._home = work / "home"

    def run(self, tools: list[Tool]) -> Iterable[Cost]:
        self._make_data("make", self._data)
        for tree, steps in PLAN.items():
            if tree not in self._args.trees:
                continue
            alive = {tool.name: tool for tool in tools}
            for tool in tools:
                self._home.mkdir(exist_ok=True)
                command = self._filled(tool, tool.begin, tree, 0)
                run(command, environment_of(tool, self._home), _LIMIT_SECONDS)
            for place, step in enumerate(steps):
                if step not in ("first", "nothing", *_RESTORES):
                    self._make_data("change", self._data, "--step", step)
                saves = sum(s not in _RESTORES for s in steps[: place + 1])
                for tool in list(alive.values()):
                    cost = self._step(tool, tree, step, saves - 1)
                    yield cost
                    if cost.status not in (0, 1, 3):
                        del alive[tool.name]
            self._clean()
        shutil.rmtree(self._data)

    def _step(self, tool: Tool, tree: str, step: str, number: int) -> Cost:
        target = self._target(tool, tree)
        if step in _RESTORES:
            self._prepare(target, tree, step)
        template = tool.save if step not in _RESTORES else getattr(tool, step)
        command = self._filled(tool, template, tree, number)
        own = environment_of(tool, self._home)
        found = run(command, own, _LIMIT_SECONDS, ahead=self._args.ahead)
        stored = tree_bytes(self._repository(tool))
        if step in _RESTORES and self._number == 0:
            wrong = differences(self._source(tree), target)
            found["error"] = f"{wrong} differences {found['error']}" if wrong else found["error"]
        if step in _RESTORES:
            shutil.rmtree(self._work / "targets")  # one at a time, so that all fit in memory
        fixed = (tool.name, tree, step, self._number)
        return Cost(*fixed, stored=stored, **found)  # type: ignore[arg-type]

    def _prepare(self, target: Path, tree: str, step: str) -> None:
        """Nothing to restore onto, or a machine that has nearly everything."""
        target.parent.mkdir(parents=True, exist_ok=True)
        if step == "restore":
            touch_room(target.parent, tree_bytes(self._source(tree)))
            target.mkdir()
            return
        subprocess.run(["cp", "-a", self._source(tree), target], check=True)
        self._make_data("drift", target)

    def _filled(self, tool: Tool, template: str, tree: str, number: int) -> str:
        repository, target = self._repository(tool), self._target(tool, tree)
        is_volume = tree == "volume"
        words = {
            "src": self._source(tree),
            "repo": repository,
            "dst": target,
            "root": self._source(tree).parent if is_volume else self._source(tree),
            "dstroot": target.parent if is_volume else target,
        }
        return template.format(
            kind=tree,
            n=number,
            parent=f"--parent s{number - 1}" if number else "",
            restic_over=restic_over_options(),
            **{key: quote(str(path)) for key, path in words.items()},
        )

    def _source(self, tree: str) -> Path:
        return self._data / ("volume/workspace" if tree == "volume" else tree)

    def _repository(self, tool: Tool) -> Path:
        return self._work / "repositories" / tool.name.replace(" ", "")

    def _target(self, tool: Tool, tree: str) -> Path:
        base = self._work / "targets" / tool.name.replace(" ", "")
        return base / "workspace" if tree == "volume" else base

    def _clean(self) -> None:
        for name in ("repositories", "targets", "home"):
            shutil.rmtree(self._work / name, ignore_errors=True)

    def _make_data(self, action: str, root: Path, *more: str) -> None:
        options = [
            f"--scale={self._args.scale}",
            f"--environment-mb={self._args.environment_mb}",
        ]
        command = [sys.executable, "-m", "bench.data", action, str(root), *options, *more]
        subprocess.run(command, check=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="1: 3.5 GB of environment, 1 GB of volume"
    )
    parser.add_argument("--environment-mb", type=int, default=3500, help="at scale 1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", help="comma-separated; default: all that are installed")
    parser.add_argument("--trees", default="environment,volume")
    parser.add_argument("--work", type=Path, help="a directory on the disk to measure on")
    parser.add_argument("--results", type=Path, default=Path("build/bench.jsonl"))
    parser.add_argument("--report", type=Path, default=Path("docs/bench.md"))
    parser.add_argument(
        "--ahead",
        action="store_true",
        help="measure with real-time priority (root): quiet on a machine with other work",
    )
    parser.add_argument("--note", default="", help="a sentence about this run, for the report")
    parser.add_argument("--only-report", action="store_true", help="from earlier results")
    return parser.parse_args()


def _chosen(names: str | None) -> tuple[list[Tool], list[str]]:
    wanted = names.split(",") if names else [tool.name for tool in PEERS]
    unknown = set(wanted) - {tool.name for tool in PEERS} - {OURS.name}
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; there are {_names()}")
    there = [tool for tool in PEERS if tool.name in wanted and not tool.missing()]
    missing = [tool.name for tool in PEERS if tool.missing()]
    return [OURS, *there], missing


def _names() -> str:
    return ", ".join(tool.name for tool in PEERS)


def main() -> int:
    args = _arguments()
    tools, missing = _chosen(args.tools)
    args.results.parent.mkdir(parents=True, exist_ok=True)
    if not args.only_report:
        print(f"tools: {', '.join(t.name for t in tools)}; not installed: {', '.join(missing)}")
        _measure(args, tools)
    costs = [Cost(**json.loads(line)) for line in args.results.read_text().splitlines()]
    write_report(args.report, costs, (tools, missing), args.note)
    print(f"wrote {args.report}")
    return 0


def _measure(args: argparse.Namespace, tools: list[Tool]) -> None:
    compile_ours()
    print("installing the packages of the environment (once) ...", flush=True)
    subprocess.run([sys.executable, "-m", "bench.data", "install", "."], check=True)
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=args.work) as directory,
        args.results.open("w") as results,
    ):
        for number in range(args.rounds):
            for cost in Round(Path(directory), args, number).run(tools):
                results.write(json.dumps(cost.as_dict()) + "\n")
                results.flush()
                print(
                    f"{number} {cost.tree:12}{cost.step:17}{cost.tool:13}{cost.wall:8.2f} s "
                    f"cpu {cost.cpu:7.2f} s  {cost.rss >> 20:5} MiB  {cost.stored / 1e6:8.1f} MB"
                    f"  {cost.status} {cost.error.strip()}",
                    flush=True,
                )


if __name__ == "__main__":
    sys.exit(main())
