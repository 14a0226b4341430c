"""Reads a CDK cloud assembly (`cdk.out`): which stacks, in which order, with which files."""

import json
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from local.aws.errors import DeployError


@dataclass(frozen=True, slots=True)
class Place:
    """Account and region that stand in for the `${AWS::...}` placeholders of an assembly."""

    account: str
    region: str

    def fill(self, text: str) -> str:
        return (
            text.replace("${AWS::AccountId}", self.account)
            .replace("${AWS::Region}", self.region)
            .replace("${AWS::Partition}", "aws")
        )


@dataclass(frozen=True, slots=True)
class Asset:
    """One file or directory to put into an S3 bucket."""

    source: Path
    is_directory: bool
    bucket: str
    key: str


@dataclass(frozen=True, slots=True)
class Stack:
    """One stack and the S3 object that holds its template."""

    name: str
    bucket: str
    key: str
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Assembly:
    """Everything that has to be deployed; stacks come after those they depend on."""

    assets: tuple[Asset, ...]
    stacks: tuple[Stack, ...]


def read(directory: Path, place: Place) -> Assembly:
    """Reads `manifest.json` and what it names.

    Raises:
        DeployError: there is no assembly, or it has parts that cannot be deployed here.
    """
    manifest = directory / "manifest.json"
    if not manifest.exists():
        raise DeployError(f"{manifest} does not exist: synthesize the app first (python app.py)")
    artifacts: dict[str, dict[str, Any]] = json.loads(manifest.read_text())["artifacts"]
    _refuse_unsupported(artifacts)
    return Assembly(
        assets=tuple(_assets(directory, artifacts, place)),
        stacks=tuple(_stack(name, artifacts[name], place) for name in _order(artifacts)),
    )


def _refuse_unsupported(artifacts: dict[str, dict[str, Any]]) -> None:
    stages = [name for name, item in artifacts.items() if item["type"] == "cdk:cloud-assembly"]
    if stages:
        raise DeployError(f"CDK stages are not supported here: {', '.join(stages)}")


def _order(artifacts: dict[str, dict[str, Any]]) -> list[str]:
    stacks = {
        name for name, item in artifacts.items() if item["type"] == "aws:cloudformation:stack"
    }
    graph = {
        name: stacks.intersection(artifacts[name].get("dependencies", []))
        for name in sorted(stacks)
    }
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as cycle:
        raise DeployError(f"the stacks depend on each other: {cycle.args[1]}") from cycle


def _stack(name: str, artifact: dict[str, Any], place: Place) -> Stack:
    properties = artifact["properties"]
    url = place.fill(properties["stackTemplateAssetObjectUrl"])
    bucket, _, key = url.removeprefix("s3://").partition("/")
    tags = tuple(sorted((properties.get("tags") or {}).items()))
    return Stack(name=properties.get("stackName", name), bucket=bucket, key=key, tags=tags)


def _assets(directory: Path, artifacts: dict[str, dict[str, Any]], place: Place) -> list[Asset]:
    found = []
    for artifact in artifacts.values():
        if artifact["type"] == "cdk:asset-manifest":
            manifest = json.loads((directory / artifact["properties"]["file"]).read_text())
            if manifest.get("dockerImages"):
                raise DeployError("docker image assets are not supported here")
            for file in manifest.get("files", {}).values():
                found.extend(_destinations(directory, file, place))
    return found


def _destinations(directory: Path, file: dict[str, Any], place: Place) -> list[Asset]:
    source = file["source"]
    return [
        Asset(
            source=directory / source["path"],
            is_directory=source["packaging"] == "zip",
            bucket=place.fill(destination["bucketName"]),
            key=place.fill(destination["objectKey"]),
        )
        for destination in file["destinations"].values()
    ]
