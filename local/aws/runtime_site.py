"""The packages that AWS's Python runtime brings, and nothing of the developer's environment.

A function that forgets a dependency in its layer fails here as it would on AWS.
"""

import importlib.util
from pathlib import Path

from local.aws.errors import LocalAWSError

PACKAGES = (
    "awslambdaric",
    "boto3",
    "botocore",
    "dateutil",
    "jmespath",
    "runtime_client",
    "s3transfer",
    "simplejson",
    "six",
    "snapshot_restore_py",
    "urllib3",
)


def link(directory: Path) -> None:
    """Fills an empty directory with links to the installed packages."""
    for package in PACKAGES:
        source = _location(package)
        (directory / source.name).symlink_to(source)


def _location(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise LocalAWSError(
            f"the Python package {package} is missing: install the development requirements"
        )
    origin = Path(spec.origin)
    return origin.parent if spec.submodule_search_locations else origin
