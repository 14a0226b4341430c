"""Synthesizes the stacks: `python app.py`, or by the CDK CLI: `make cdk ARGS="deploy --all"`."""

import argparse
import os
import sys
from pathlib import Path

from infra.context import read_context, target_of
from infra.errors import InfraError
from infra.node import use_node
from infra.preparation import prepare
from infra.sources import REPOSITORY, Sources


def main() -> None:
    """Write the cloud assembly, or end with one line that says what is missing."""
    parser = argparse.ArgumentParser(prog="app.py", description=__doc__)
    parser.add_argument("-c", "--context", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("-o", "--output", type=Path, default=REPOSITORY / "cdk.out")
    arguments = parser.parse_args()
    # The CDK CLI names a directory of its own.
    output = None if "CDK_OUTDIR" in os.environ else arguments.output
    try:
        synthesize(arguments.context, output)
    except InfraError as error:
        sys.exit(f"podferry: {error}")


def synthesize(pairs: list[str], output: Path | None) -> None:
    """Check everything, then import the CDK: that starts Node, which has to be found first."""
    sources = Sources()
    context = read_context(REPOSITORY / "cdk.json", os.environ, pairs)
    prepare(sources, target_of(context))
    use_node()
    try:
        from infra.application import make_app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise InfraError(
            f"{error.name} is not installed for {sys.executable}: activate the virtual "
            "environment with the requirements of this repository"
        ) from error
    make_app(sources, output, context).synth()


if __name__ == "__main__":
    main()
