"""A synth is repeatable, reviewed, and says clearly what is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from aws_cdk import Stack
from aws_cdk import aws_s3 as s3

from infra.application import make_app
from infra.context import read_context
from infra.errors import ContextInvalidError, LayerBuildError, SourcesIncompleteError
from infra.preparation import prepare
from infra.sources import REPOSITORY, Sources, Target
from tests.infra.conftest import a_context, a_tree, synthesize
from tests.infra.templates import Assembly, Resource


def test_two_synths_give_the_same_bytes_whatever_caches_lie_about(
    assembly: Assembly, sources: Sources, tmp_path: Path
) -> None:
    for directory in (sources.function("api"), sources.package):
        (directory / "__pycache__").mkdir(exist_ok=True)
        (directory / "__pycache__" / "handler.pyc").write_text("a cache")
    again = synthesize(sources, tmp_path)
    for one, other in ((assembly.state, again.state), (assembly.control, again.control)):
        assert one.path.read_bytes() == other.path.read_bytes()
    assert not list(tmp_path.glob("asset.*/**/__pycache__"))


def test_the_local_target_changes_the_third_party_layer_only(
    assembly: Assembly, sources: Sources, tmp_path: Path
) -> None:
    local = synthesize(sources, tmp_path, "target=local")
    assert local.state.body == assembly.state.body
    changed = _changed(assembly.control.body, local.control.body)
    assert [name for name in changed if not name.startswith("VendorLayer")] == []
    assert changed


def test_a_finding_of_cdk_nag_stops_the_synth(sources: Sources, tmp_path: Path) -> None:
    app = make_app(sources, tmp_path, a_context())
    s3.Bucket(Stack(app, "Careless"), "Open")
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    report = json.dumps(json.loads((tmp_path / "validation-report.json").read_text()))
    assert "AwsSolutions-S10" in report


@pytest.mark.parametrize(
    ("target", "command"), [(Target.LAMBDA, "make build-lambda"), (Target.LOCAL, "make build")]
)
def test_missing_artefacts_are_named_with_the_command_that_makes_them(
    tmp_path: Path, target: Target, command: str
) -> None:
    sources = a_tree(tmp_path / "tree")
    sources.agent_bundle.unlink()
    with pytest.raises(SourcesIncompleteError) as caught:
        prepare(sources, target)
    assert str(caught.value) == (
        f"build/agent/podferry-agent-x86_64.tar.gz not built yet: run `{command}`"
    )


def test_a_missing_boot_script_is_named(tmp_path: Path) -> None:
    sources = a_tree(tmp_path / "tree")
    sources.bootstrap_script.unlink()
    with pytest.raises(LayerBuildError, match=r"bootstrap\.sh"):
        prepare(sources, Target.LAMBDA)


def test_a_missing_workflow_file_is_named(tmp_path: Path) -> None:
    sources = a_tree(tmp_path / "tree")
    sources.workflow("stop").unlink()
    with pytest.raises(SourcesIncompleteError, match=r"infra/workflows/stop\.asl\.json"):
        prepare(sources, Target.LAMBDA)


def test_context_comes_from_the_file_the_cli_and_the_command_line_in_this_order(
    tmp_path: Path,
) -> None:
    cdk_json = tmp_path / "cdk.json"
    cdk_json.write_text('{"context": {"a": "file", "b": "file", "c": "file"}}')
    cli = {"CDK_CONTEXT_JSON": '{"b": "cli", "c": "cli"}'}
    assert read_context(cdk_json, cli, ["c=x=y"]) == {"a": "file", "b": "cli", "c": "x=y"}


def test_a_context_pair_without_a_value_is_refused() -> None:
    with pytest.raises(ContextInvalidError, match="'local'"):
        read_context(REPOSITORY / "cdk.json", {}, ["local"])


def test_the_app_ends_with_one_line_about_a_wrong_target(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "app.py", "-c", "target=moon", "-o", str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == ("podferry: context target='moon' is none of: lambda, local\n")


def test_the_cdk_cli_and_the_plain_script_synthesize_the_same() -> None:
    """The CLI would add metadata and read a context that the script does not know."""
    settings = json.loads((REPOSITORY / "cdk.json").read_text())
    assert settings["app"] == "python3 app.py"
    for name in ("versionReporting", "pathMetadata", "assetMetadata"):
        assert settings[name] is False


def _changed(one: Resource, other: Resource) -> set[str]:
    """Names of the resources that differ, references to them by new names not counted."""
    resources, others = one["Resources"], other["Resources"]
    return {
        name for name in resources.keys() | others.keys() if resources.get(name) != others.get(name)
    }
