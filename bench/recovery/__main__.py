"""`python -m bench.recovery`: what a pod loses, waits and pays for being saved.

Three measurements, each kept until it is made again: `phases`, `window` and `slowdown`. Each writes
docs/recovery.md from all that there are; `report` only does that. Not a test: nothing passes or
fails. The first two need what `python -m local build` makes.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.recovery import phases, slowdown, window
from bench.recovery.report import write_report


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.recovery", description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("docs/recovery.md"))
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("report", help="write the report of what was measured")

    command = _command(commands, "phases", phases.measure)
    command.add_argument("--gb", type=float, default=1.0, help="of data in the volume")
    command.add_argument("--rounds", type=int, default=3, help="kills, at most 3")

    command = _command(commands, "window", window.measure)
    command.add_argument("--kills", type=int, default=50)
    command.add_argument("--pods", type=int, default=8, help="that run at the same time")
    command.add_argument("--interval", type=int, default=60, help="seconds between saves")
    command.add_argument("--seed", type=int, default=1, help="of the moments of the kills")

    command = _command(commands, "slowdown", slowdown.measure)
    command.add_argument("--rounds", type=int, default=10)
    command.add_argument("--seconds", type=float, default=8.0, help="of each half of a round")
    command.add_argument("--mb", type=int, default=1000, help="of data in the volume")
    command.add_argument(
        "--ahead",
        action="store_true",
        help="before all other sessions (root): quiet on a machine with other work",
    )
    return parser.parse_args()


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    measure: Callable[[argparse.Namespace], None],
) -> argparse.ArgumentParser:
    told = (sys.modules[measure.__module__].__doc__ or "").splitlines()[0]
    command = commands.add_parser(name, help=told)
    command.add_argument("--work", type=Path, help="a directory on the disk to measure on")
    command.add_argument("--note", default="", help="a sentence about this run, for the report")
    command.set_defaults(measure=measure)
    return command


def main() -> int:
    args = _arguments()
    # Whoever ends us wants servers and boxes to end, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if args.command != "report":
        with tempfile.TemporaryDirectory(prefix="recovery-", dir=args.work) as data:
            args.data = Path(data)
            args.measure(args)
    write_report(args.report)
    print(f"wrote {args.report}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
