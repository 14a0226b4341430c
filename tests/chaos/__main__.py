"""Run seeds of chaos on one stack: `python -m tests.chaos --from 1 --seeds 200`.

Prints a line for each seed. A seed that breaks a promise leaves its plan, its log and what the
servers printed meanwhile below build/chaos; `--replay build/chaos/seed-7/plan.json` runs it again.
"""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.campaign import Campaign, Outcome
from tests.chaos.plan import STEPS, Plan


def main(arguments: Sequence[str]) -> int:
    """0 if no seed broke anything."""
    options = _parse(arguments)
    # Whoever ends us wants servers and boxes to end, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bad: list[int] = []
    with tempfile.TemporaryDirectory(prefix="chaos-") as data:
        campaign = Campaign(Path(data), options.failures, _say)
        try:
            for plan in _plans(options, campaign):
                outcome = campaign.run(plan)
                _tell(outcome, is_verbose=options.verbose)
                bad += [] if outcome.is_good else [plan.seed]
        finally:
            campaign.stop()
    _say(f"seeds with violations: {bad or 'none'}")
    return 1 if bad else 0


def _plans(options: argparse.Namespace, campaign: Campaign) -> Sequence[Plan]:
    if options.replay is not None:
        return [Plan.of_json(json.loads(options.replay.read_text()))]
    first = options.first
    seeds = range(first, first + options.seeds)
    return [campaign.plan(seed, options.steps) for seed in seeds]


def _tell(outcome: Outcome, *, is_verbose: bool) -> None:
    for line in outcome.log if is_verbose else ():
        _say(line)
    verdict = "good" if outcome.is_good else f"BROKEN, see {outcome.kept}"
    _say(f"seed {outcome.seed}: {outcome.seconds:.1f} s, {outcome.actions}: {verdict}")
    for violation in outcome.violations:
        _say(f"    {violation}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--steps", type=int, default=STEPS, help="actions in each run")
    parser.add_argument("--replay", type=Path, help="a plan.json instead of seeds")
    parser.add_argument("--failures", type=Path, default=Path("build/chaos"))
    parser.add_argument("--verbose", action="store_true", help="print what was done and when")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
