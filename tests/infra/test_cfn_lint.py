"""cfn-lint knows rules of CloudFormation and of workflow files that the CDK does not check."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from infra.catalog import FUNCTIONS, STEP_FUNCTIONS, WORKFLOWS
from infra.sources import REPOSITORY, Sources
from tests.infra import workflow_walker as walker
from tests.infra.templates import Assembly, Resource

CFN_LINT = (str(Path(sys.executable).with_name("cfn-lint")), "--config-file", "infra/cfnlint.yaml")
AN_ARN = "arn:aws:lambda:us-east-1:123456789012:function:step"


@pytest.fixture(scope="module")
def findings(assembly: Assembly, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What cfn-lint says, by file; one run, because most of its time goes into starting up."""
    workflows = {spec.title: an_inline_workflow(spec.name) for spec in WORKFLOWS}
    broken = an_inline_workflow("stop")
    broken["Properties"]["Definition"]["StartAt"] = "Nowhere"
    directory = tmp_path_factory.mktemp("templates")
    return lint(
        assembly.state.path,
        assembly.control.path,
        a_template(directory / "workflows.json", workflows),
        a_template(directory / "broken.json", {"Stop": broken}),
    )


def lint(*templates: Path) -> dict[str, list[str]]:
    command = [*CFN_LINT, "--format", "json", *map(str, templates)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    found: dict[str, list[str]] = {template.name: [] for template in templates}
    for finding in json.loads(done.stdout):
        found[Path(finding["Filename"]).name].append(finding["Message"])
    return found


def a_template(path: Path, resources: dict[str, Resource]) -> Path:
    path.write_text(json.dumps({"Resources": resources}))
    return path


def an_inline_workflow(name: str) -> Resource:
    """Our templates refer to the file in S3, where cfn-lint does not look; inline it does."""
    titles = (spec.title for spec in FUNCTIONS if spec.name in STEP_FUNCTIONS)
    return {
        "Type": "AWS::StepFunctions::StateMachine",
        "Properties": {
            "RoleArn": "arn:aws:iam::123456789012:role/workflow",
            "DefinitionSubstitutions": {f"{title}Arn": AN_ARN for title in titles},
            "Definition": walker.load(Sources().workflow(name)).graph,
        },
    }


def test_both_templates_are_clean(assembly: Assembly, findings: dict[str, list[str]]) -> None:
    assert findings[assembly.state.path.name] == []
    assert findings[assembly.control.path.name] == []


def test_the_workflow_files_are_clean(findings: dict[str, list[str]]) -> None:
    assert findings["workflows.json"] == []


def test_a_mistake_in_a_workflow_file_would_be_found(findings: dict[str, list[str]]) -> None:
    assert any("Nowhere" in message for message in findings["broken.json"])
