"""A base that all tests share, and boxes on it that are thrown away after the test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local.boxes.base import ensure_base
from local.boxes.box import Box
from local.boxes.ladder import find_isolation
from local.boxes.spec import BoxSpec, Isolation

MakeBox = Callable[..., Box]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def isolation(base: Path) -> Isolation:
    return find_isolation(base).isolation


@pytest.fixture
def make_box(base: Path, isolation: Isolation, tmp_path: Path) -> Iterator[MakeBox]:
    made: list[Box] = []

    def make(script: str = "sleep infinity", **settings: object) -> Box:
        values = {
            "directory": tmp_path / f"box-{len(made)}",
            "base": base,
            "isolation": isolation,
            "argv": ("/bin/sh", "-c", script),
            **settings,
        }
        box = Box(BoxSpec(**values))
        made.append(box)
        return box

    yield make
    for box in made:
        box.destroy()


def eventually(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


@pytest.fixture(name="eventually")
def eventually_fixture() -> Callable[..., bool]:
    return eventually
