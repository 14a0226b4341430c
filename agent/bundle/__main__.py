"""`python -m agent.bundle --out build/agent`: builds the bundle, or says that it is up to date."""

import argparse
import sys
import time
from pathlib import Path

from .build import build
from .errors import BundleError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m agent.bundle", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/agent"), help="directory")
    parser.add_argument(
        "--python",
        type=Path,
        default=Path(sys.executable),
        help="the Python to bundle; it must have the packages of agent/requirements.txt",
    )
    arguments = parser.parse_args()
    started_at = time.monotonic()
    try:
        bundle = build(arguments.out, arguments.python)
    except BundleError as error:
        sys.stderr.write(f"agent.bundle: {error}\n")
        return 1
    seconds = time.monotonic() - started_at
    state = "built" if bundle.is_new else "up to date"
    size = bundle.path.stat().st_size / 1e6
    print(f"{bundle.path}: {state}, {size:.1f} MB, {seconds:.1f} s, sha256 {bundle.sha256}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
