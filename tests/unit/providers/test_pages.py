"""What is written about providers is what the code says."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from podferry.adapters.providers import overview
from podferry.adapters.providers.registry import PROVIDERS, adapter_class
from podferry.ports.gpu_cloud import BootTraits, CloudTraits, GpuCloud

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
ADAPTERS = "layers/podferry/python/podferry/adapters/providers"
EXAMPLE = "vastai"
"""Whose files stand for `<name>`."""

PAGE = (DOCS / "add-a-provider.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
TEXT = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
WORDS = [word.replace("<name>", EXAMPLE) for word in re.findall(r"`([^`\n]+)`", TEXT)]
PATHS = sorted({word for word in WORDS if "/" in word or word.endswith(".py")})
NAMES = sorted({word for word in WORDS if word.isidentifier()})
COMMANDS = [line for kind, block in BLOCKS if not kind for line in block.splitlines()]


def place(path: str) -> Path:
    return ROOT / path if "/" in path else ROOT / ADAPTERS / path


def table(title: str) -> list[str]:
    """The first column of the table whose first title this is."""
    rows = TEXT.partition(f"| {title} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [row.split("|")[1].strip().strip("`") for row in rows]


def test_the_page_of_providers_is_the_one_that_the_adapters_make() -> None:
    stored = (DOCS / "providers.md").read_text(encoding="utf-8")
    assert stored == overview.rendered(), "run: make openapi"


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_adapter_says_where_its_facts_are_from(name: str) -> None:
    assert f"\n## `{name}`\n" in overview.rendered()
    text = overview.rendered().partition(f"\n## `{name}`\n")[2].partition("\n## ")[0]
    assert re.search(r"\n\nFrom .* as of\s20\d\d-\d\d-\d\d\.", text, re.DOTALL)
    assert adapter_class(name).name == name


@pytest.mark.parametrize("path", PATHS)
def test_every_file_that_the_page_names_exists(path: str) -> None:
    assert place(path).exists()


@pytest.mark.parametrize("name", NAMES)
def test_every_name_on_the_page_stands_in_a_file_that_it_names(name: str) -> None:
    files = [place(path) for path in PATHS if path.endswith(".py")]
    assert any(re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")) for file in files)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", PAGE))
def test_every_link_leads_to_a_file(target: str) -> None:
    assert (DOCS / target).is_file()


def test_the_calls_are_those_of_the_port() -> None:
    calls = {name for name, found in vars(GpuCloud).items() if callable(found)}
    assert sorted(table("call")) == sorted(n for n in calls if not n.startswith("_"))


def test_the_traits_are_those_of_the_port() -> None:
    assert table("trait") == [field.name for field in fields(CloudTraits)]
    assert table("of a boot") == [field.name for field in fields(BootTraits)]


@pytest.mark.parametrize(
    ("block", "registry"),
    zip(
        [block for kind, block in BLOCKS if kind == "python"],
        [f"{ADAPTERS}/registry.py", "local/providers/registry.py"],
        strict=True,
    ),
)
def test_the_lines_stand_in_the_registries_like_this(block: str, registry: str) -> None:
    assert block in (ROOT / registry).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_one_of_this_repository(command: str) -> None:
    program, argument, *_ = command.split()
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{argument}: .*## ", makefile, re.MULTILINE)
    else:
        assert program == ".venv/bin/pytest"
        assert (ROOT / argument).is_dir()


def test_the_page_is_about_something() -> None:
    assert len(PATHS) > 12
    assert len(NAMES) > 20
    assert len(COMMANDS) == 3
