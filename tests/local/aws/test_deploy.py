"""Deploying an assembly: order, failures, and the same bytes for the same files."""

import hashlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.aws import assembly as assemblies
from local.aws.assembly import Place
from local.aws.deploy import deploy, main
from local.aws.errors import DeployError
from local.aws.zipping import zip_directory

from .conftest import EmbeddedAWS


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port on which nobody listens: bound, so that nobody else can take it either."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


PLACE = Place(account="000000000000", region="us-east-1")
BUCKET = "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}"


def _write_assembly(directory: Path, templates: dict[str, Any], **needs: list[str]) -> Path:
    """A cloud assembly as the CDK writes it, from raw templates."""
    artifacts: dict[str, Any] = {}
    for name, template in templates.items():
        text = json.dumps(template)
        key = f"{hashlib.sha256(text.encode()).hexdigest()}.json"
        (directory / f"{name}.template.json").write_text(text)
        source = {"path": f"{name}.template.json", "packaging": "file"}
        places = {"here": {"bucketName": BUCKET, "objectKey": key}}
        files = {key: {"source": source, "destinations": places}}
        (directory / f"{name}.assets.json").write_text(json.dumps({"files": files}))
        artifacts[f"{name}.assets"] = {
            "type": "cdk:asset-manifest",
            "properties": {"file": f"{name}.assets.json"},
        }
        artifacts[name] = {
            "type": "aws:cloudformation:stack",
            "properties": {"stackTemplateAssetObjectUrl": f"s3://{BUCKET}/{key}"},
            "dependencies": [f"{name}.assets", *needs.get(name, [])],
        }
    (directory / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return directory


def _parameter(value: Any) -> dict[str, Any]:
    properties = {"Type": "String", "Value": value}
    return {"Type": "AWS::SSM::Parameter", "Properties": properties}


def test_stack_that_imports_comes_after_the_one_that_exports(
    server: EmbeddedAWS, tmp_path: Path
) -> None:
    exporting = {
        "Resources": {"Word": _parameter("hello")},
        "Outputs": {"Name": {"Value": {"Ref": "Word"}, "Export": {"Name": "order-word"}}},
    }
    importing = {
        "Resources": {"Copy": _parameter({"Fn::ImportValue": "order-word"})},
        "Outputs": {"Copied": {"Value": {"Fn::GetAtt": ["Copy", "Value"]}}},
    }
    # By name the importing stack would be first.
    stacks = {"AImporting": importing, "BExporting": exporting}
    directory = _write_assembly(tmp_path, stacks, AImporting=["BExporting"])

    outputs = deploy(directory, server.endpoint, lambda _: None)

    assert list(outputs) == ["BExporting", "AImporting"]
    assert outputs["AImporting"]["Copied"] == outputs["BExporting"]["Name"]


def test_failed_stack_names_the_resource_and_can_be_deployed_again(
    server: EmbeddedAWS, tmp_path: Path
) -> None:
    broken = {"Resources": {"Word": _parameter({"Fn::ImportValue": "nobody-exports-this"})}}
    with pytest.raises(DeployError) as failed:
        deploy(_write_assembly(tmp_path, {"Broken": broken}), server.endpoint, lambda _: None)
    repaired = {"Resources": {"Word": _parameter("hello")}}
    lines: list[str] = []
    deploy(_write_assembly(tmp_path, {"Broken": repaired}), server.endpoint, lines.append)

    assert "Word (AWS::SSM::Parameter): Export 'nobody-exports-this' not found" in str(failed.value)
    assert lines[0].startswith("Broken: CREATE_COMPLETE")


def test_unsupported_resource_type_is_named(server: EmbeddedAWS, tmp_path: Path) -> None:
    strange = {"Resources": {"Thing": {"Type": "AWS::Nothing::Thing", "Properties": {}}}}
    directory = _write_assembly(tmp_path, {"Strange": strange})

    with pytest.raises(DeployError, match=r"Strange: .*AWS::Nothing::Thing"):
        deploy(directory, server.endpoint, lambda _: None)


def test_changed_stack_is_updated(server: EmbeddedAWS, tmp_path: Path) -> None:
    for word in ("one", "two"):
        template = {
            "Resources": {"Word": _parameter(word)},
            "Outputs": {"Word": {"Value": {"Fn::GetAtt": ["Word", "Value"]}}},
        }
        directory = _write_assembly(tmp_path, {"Changing": template})
        outputs = deploy(directory, server.endpoint, lambda _: None)

    assert outputs["Changing"]["Word"] == "two"


def test_template_parameter_gets_its_value_and_changes(server: EmbeddedAWS, tmp_path: Path) -> None:
    template = {
        "Parameters": {"Url": {"Type": "String", "Default": "none"}},
        "Resources": {"Word": _parameter({"Ref": "Url"})},
        "Outputs": {"Word": {"Value": {"Fn::GetAtt": ["Word", "Value"]}}},
    }
    directory = _write_assembly(tmp_path, {"Asking": template})
    words: list[str] = []
    lines: list[str] = []
    for url in ("http://one", "http://two", "http://two"):
        values = {"Asking": {"Url": url}}
        outputs = deploy(directory, server.endpoint, lines.append, values)
        words.append(outputs["Asking"]["Word"])

    assert words == ["http://one", "http://two", "http://two"]
    assert lines[-1] == "Asking: no change"


def test_parameter_of_an_unknown_stack_is_refused(server: EmbeddedAWS, tmp_path: Path) -> None:
    directory = _write_assembly(tmp_path, {"Known": {"Resources": {"Word": _parameter("x")}}})

    with pytest.raises(DeployError, match="Misspelt"):
        deploy(directory, server.endpoint, lambda _: None, {"Misspelt": {"Url": "x"}})


def test_missing_assembly_is_a_clear_error(
    tmp_path: Path, server: EmbeddedAWS, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([str(tmp_path), "--endpoint", server.endpoint])

    assert code == 1
    assert "synthesize the app first" in capsys.readouterr().err


def test_missing_server_is_a_clear_error(tmp_path: Path, free_port: int) -> None:
    with pytest.raises(DeployError, match="start the embedded AWS first"):
        deploy(tmp_path, f"http://127.0.0.1:{free_port}", lambda _: None)


def test_stacks_in_a_circle_are_refused(tmp_path: Path) -> None:
    directory = _write_assembly(tmp_path, {"A": {}, "B": {}}, A=["B"], B=["A"])

    with pytest.raises(DeployError, match="depend on each other"):
        assemblies.read(directory, PLACE)


def test_same_files_give_the_same_archive(tmp_path: Path) -> None:
    for name in ("one", "two"):
        package = tmp_path / name / "package"
        package.mkdir(parents=True)
        for file in ("b.py", "a.py") if name == "one" else ("a.py", "b.py"):
            (package / file).write_text(file)
    cache = tmp_path / "two" / "package" / "__pycache__"
    cache.mkdir()
    (cache / "a.pyc").write_bytes(b"varies")

    assert zip_directory(tmp_path / "one") == zip_directory(tmp_path / "two")
