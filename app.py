"""Synthesizes the stacks: `python app.py`, or through the CDK CLI (`npx cdk deploy --all`)."""

import argparse
import os
import sys
from pathlib import Path

from infra.errors import InfraError
from infra.node import use_node
from infra.sources import REPOSITORY, Sources


def main() -> None:
    """Write the cloud assembly, or end with one line that says what is missing."""
    parser = argparse.ArgumentParser(prog="app.py", description=__doc__)
    parser.add_argument("-c", "--context", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("-o", "--output", type=Path, default=REPOSITORY / "cdk.out")
    arguments = parser.parse_args()
    try:
        synthesize(arguments.context, arguments.output)
    except InfraError as error:
        sys.exit(f"podferry: {error}")


def synthesize(pairs: list[str], output: Path) -> None:
    """Import the CDK late: that starts Node, which has to be found first."""
    use_node()
    try:
        from infra.application import context_of, make_app, parse_context  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise InfraError(
            f"{error.name} is not installed for {sys.executable}: activate the virtual "
            "environment with the requirements of this repository"
        ) from error
    context = context_of(REPOSITORY / "cdk.json") | parse_context(pairs)
    # Under the CDK CLI the directory comes from CDK_OUTDIR.
    outdir = None if "CDK_OUTDIR" in os.environ else output
    make_app(Sources(), outdir, context).synth()


if __name__ == "__main__":
    main()
