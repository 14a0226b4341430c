"""A synth is repeatable, reviewed, and says clearly what is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from aws_cdk import Stack
from aws_cdk import aws_s3 as s3

from infra.application import context_of, make_app, parse_context
from infra.build_layers import LayerBuildError
from infra.errors import ContextInvalidError, SourcesIncompleteError
from infra.sources import REPOSITORY, Sources
from tests.infra.conftest import a_tree, synthesize
from tests.infra.templates import Assembly

CFN_LINT = [
    sys.executable,
    "-m",
    "cfnlint",
    "--config-file",
    str(REPOSITORY / "infra/cfnlint.yaml"),
]


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
    local = synthesize(sources, tmp_path, target="local")
    assert local.state.body == assembly.state.body
    changed = _changed(assembly.control.body, local.control.body)
    assert [name for name in changed if not name.startswith("VendorLayer")] == []
    assert changed


def test_a_finding_of_cdk_nag_stops_the_synth(sources: Sources, tmp_path: Path) -> None:
    app = make_app(sources, tmp_path, context_of(REPOSITORY / "cdk.json"))
    s3.Bucket(Stack(app, "Careless"), "Open")
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    report = json.dumps(json.loads((tmp_path / "validation-report.json").read_text()))
    assert "AwsSolutions-S10" in report


def test_cfn_lint_accepts_both_templates(assembly: Assembly) -> None:
    paths = [str(assembly.state.path), str(assembly.control.path)]
    done = subprocess.run([*CFN_LINT, *paths], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


def test_missing_artefacts_are_named_with_the_command_that_makes_them(tmp_path: Path) -> None:
    sources = a_tree(tmp_path / "tree")
    sources.agent_bundle.unlink()
    with pytest.raises(SourcesIncompleteError, match=r"podferry-agent-x86_64.*`make build`"):
        make_app(sources, tmp_path / "out", {})


def test_a_missing_boot_script_is_named(tmp_path: Path) -> None:
    sources = a_tree(tmp_path / "tree")
    sources.bootstrap_script.unlink()
    with pytest.raises(LayerBuildError, match=r"bootstrap\.sh"):
        make_app(sources, tmp_path / "out", {})


def test_a_missing_workflow_file_is_named(tmp_path: Path) -> None:
    sources = a_tree(tmp_path / "tree")
    sources.workflow("stop").unlink()
    with pytest.raises(SourcesIncompleteError, match=r"infra/workflows/stop\.asl\.json"):
        make_app(sources, tmp_path / "out", {})


def test_context_pairs_are_read_and_wrong_ones_refused() -> None:
    assert parse_context(["target=local", "a=b=c"]) == {"target": "local", "a": "b=c"}
    with pytest.raises(ContextInvalidError, match="'local'"):
        parse_context(["local"])


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


def _changed(one: dict, other: dict) -> set[str]:
    """Names of the resources that differ, references to them by new names not counted."""
    resources, others = one["Resources"], other["Resources"]
    return {
        name for name in resources.keys() | others.keys() if resources.get(name) != others.get(name)
    }
