"""Synthesizes once per session, from the real sources and small stand-ins for what is built."""

import shutil
from pathlib import Path

import pytest

from infra.node import use_node

use_node()

from infra.application import make_app  # noqa: E402 - importing it starts Node
from infra.context import Context, read_context, target_of  # noqa: E402
from infra.preparation import prepare  # noqa: E402
from infra.sources import REPOSITORY, Sources, Target  # noqa: E402
from tests.infra.templates import Assembly  # noqa: E402


def a_tree(root: Path) -> Sources:
    """A repository with our code in it; packages, boot script and bundle are stand-ins."""
    without_caches = shutil.ignore_patterns("__pycache__", "*.pyc")
    for part in ("functions", "infra/workflows", "layers/podferry", "agent/podferry_agent"):
        shutil.copytree(REPOSITORY / part, root / part, ignore=without_caches)
    sources = Sources(root)
    sources.bootstrap_script.parent.mkdir(parents=True)
    sources.bootstrap_script.write_text("#!/bin/sh\n")
    sources.agent_bundle.parent.mkdir(parents=True, exist_ok=True)
    sources.agent_bundle.write_bytes(b"a bundle")
    for target in Target:
        packages = sources.vendor_layer(target) / "python"
        packages.mkdir(parents=True)
        (packages / "package.py").write_text(f"TARGET = {target.value!r}\n")
    return sources


def a_context(*pairs: str) -> Context:
    return read_context(REPOSITORY / "cdk.json", {}, pairs)


def synthesize(sources: Sources, outdir: Path, *pairs: str) -> Assembly:
    context = a_context(*pairs)
    prepare(sources, target_of(context))
    make_app(sources, outdir, context).synth()
    return Assembly(outdir)


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """Prepared for AWS, so that no test depends on another to have synthesized before it."""
    tree = a_tree(tmp_path_factory.mktemp("tree"))
    prepare(tree, Target.LAMBDA)
    return tree


@pytest.fixture(scope="session")
def assembly(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """The two templates. cdk-nag has passed, or this raises."""
    return synthesize(sources, tmp_path_factory.mktemp("cdk.out"))
