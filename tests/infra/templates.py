"""Looks things up in synthesized templates."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.application import CONTROL_STACK, STATE_STACK

Resource = dict[str, Any]


@dataclass(frozen=True)
class Template:
    """One stack's template."""

    path: Path

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.path.read_text()))

    def of_type(self, kind: str) -> dict[str, Resource]:
        resources = self.body["Resources"]
        return {name: one for name, one in resources.items() if one["Type"] == kind}

    def properties(self, kind: str) -> list[dict[str, Any]]:
        return [one["Properties"] for one in self.of_type(kind).values()]

    def functions(self) -> dict[str, dict[str, Any]]:
        """The properties of each function, by the name of its directory."""
        prefix = f"{CONTROL_STACK}-"
        return {
            one["FunctionName"].removeprefix(prefix).replace("-", "_"): one
            for one in self.properties("AWS::Lambda::Function")
        }

    def statements(self, function: str) -> list[dict[str, Any]]:
        """What the function's role allows."""
        role = self.functions()[function]["Role"]["Fn::GetAtt"][0]
        policies = self.body["Resources"][role]["Properties"]["Policies"]
        return [one for policy in policies for one in policy["PolicyDocument"]["Statement"]]


@dataclass(frozen=True)
class Assembly:
    """What a synth wrote."""

    directory: Path

    @property
    def state(self) -> Template:
        return Template(self.directory / f"{STATE_STACK}.template.json")

    @property
    def control(self) -> Template:
        return Template(self.directory / f"{CONTROL_STACK}.template.json")

    def asset(self, key: str) -> Path:
        """The directory or file that an object key of a template stands for."""
        found = [path for path in self.directory.glob("asset.*") if Path(key).stem in path.name]
        (path,) = found
        return path


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def as_text(value: Any) -> str:
    """A template expression as one line: `Fn::Join` joined, references in angle brackets."""
    if isinstance(value, str):
        return value
    ((function, argument),) = value.items()
    match function:
        case "Fn::Join":
            return str(argument[0]).join(as_text(part) for part in argument[1])
        case "Fn::Sub":
            return str(argument)
        case "Ref" | "Fn::ImportValue":
            return f"<{argument}>"
        case "Fn::GetAtt":
            return f"<{'.'.join(argument)}>"
        case _:
            raise AssertionError(f"no text form for {value!r}")
