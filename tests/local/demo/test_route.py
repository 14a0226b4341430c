"""Where the demo's pod goes, and the table of its way."""

import argparse
import re
from pathlib import Path

import pytest

from local.demo.__main__ import (
    DEFAULT_DATA,
    DEFAULT_PROVIDERS,
    left_pod_named,
    route,
    with_data,
)
from local.demo.place import Place
from local.demo.report import hop_lines
from local.demo.story import Hop, Story
from local.providers.registry import SIMULATORS
from podferry.adapters.providers.registry import PROVIDERS, adapter_class
from podferry.domain.offer import Channel

MAKEFILE = Path(__file__).parents[3] / "Makefile"


def test_the_pod_goes_where_it_is_told_in_that_order() -> None:
    assert route("gce, lambda:vm,fluence") == (
        Place("gce"),
        Place("lambda", "vm"),
        Place("fluence"),
    )
    assert route(DEFAULT_PROVIDERS) == (Place("fluence"), Place("vastai"))
    assert [str(place) for place in route("gce, fluence:vm")] == ["gce", "fluence:vm"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fluence,azure", "no provider 'azure'; known are ec2, fluence, gce"),
        ("", "'' has an empty name; write two or more of ec2, fluence, gce"),
        ("fluence,", "empty name"),
        ("fluence", "two or more providers"),
        ("fluence,gce,fluence", "none twice in a row or at both ends"),
        ("fluence,fluence:vm,gce", "none twice in a row or at both ends"),
        ("fluence:tent,gce", "no kind 'tent'; known are container, vm, baremetal"),
    ],
)
def test_a_way_that_is_none_is_refused_with_its_reason(text: str, says: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=says):
        route(text)


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (DEFAULT_DATA, "make run"),
        (Path("/tmp/x"), "make run ARGS='--data /tmp/x'"),
        (Path("a b"), """make run ARGS='--data '"'"'a b'"'"''"""),
    ],
)
def test_what_was_left_behind_is_looked_at_with_the_same_data(data: Path, advice: str) -> None:
    assert with_data("make run", data) == advice


def test_an_interrupted_story_names_its_pod_and_how_to_go_on(tmp_path: Path) -> None:
    said: list[str] = []
    story = Story(None, (Place("lambda"), Place("gce")), None, Path(), said.append)
    story.pod_id = "pod_1"

    with pytest.raises(KeyboardInterrupt), left_pod_named(story, tmp_path):
        raise KeyboardInterrupt

    assert f"make run ARGS='--data {tmp_path}'" in said[0]
    assert f"make forget ARGS='--data {tmp_path}'" in said[1]


def test_every_provider_is_simulated_and_visited_by_demo_all() -> None:
    found = re.search(r"local\.demo --providers (\S+)", MAKEFILE.read_text(encoding="utf-8"))

    assert found is not None
    places = route(found[1])
    assert {place.provider for place in places} == set(PROVIDERS) == set(SIMULATORS)
    bare = {
        Place(name, kind)
        for name in PROVIDERS
        for kind, boot in adapter_class(name).traits.boots.items()
        if boot.channel is Channel.SSH
    }
    assert bare <= set(places)


def test_the_table_has_a_line_for_each_hop() -> None:
    story = Story(None, (Place("lambda"), Place("gce")), None, Path(), print)
    story.inventory = {"/a": [], "/b": []}
    story.costs = {"lambda": 12_500, "gce": 70}
    story.hops = [Hop("launch", "lambda", "vm", 9.87, None), Hop("start", "gce", "vm", 12.0, 3)]

    title, _, first, second = [line.split() for line in hop_lines(story)]

    assert "2" in title
    assert first == ["1", "launch", "lambda", "vm", "9.9", "-", "0.012500"]
    assert second == ["2", "start", "gce", "vm", "12.0", "3", "0.000070"]
