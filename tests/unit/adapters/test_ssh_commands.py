"""What is run on a machine over SSH, by a real shell in a directory of the test."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from podferry.adapters.ssh import commands

Run = Callable[[str, bytes], str]
SAYS = b"#!/bin/sh\necho up >>log\nexec sleep 30\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(commands, "DIRECTORY", str(tmp_path / "podferry"))
    # Nothing that has rights of its own.
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    def shell(command: str, given: bytes = b"") -> str:
        without_sudo = command.removeprefix("$(command -v sudo >/dev/null && echo sudo -n) ")
        done = subprocess.run(
            without_sudo, shell=True, input=given, capture_output=True, check=False, timeout=20
        )
        return done.stdout.decode().strip()

    return shell


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "podferry"


def end(place: Path) -> None:
    subprocess.run(["pkill", "-s", (place / "pid").read_text().strip()], check=False)


def test_an_upload_is_for_its_owner_only_and_can_be_repeated(run: Run, place: Path) -> None:
    for script in (b"#!/bin/sh\n", SAYS):
        assert run(commands.upload_command(len(script)), script) == commands.UPLOADED

    assert (place / "boot").read_bytes() == SAYS
    assert (place / "boot").stat().st_mode & 0o777 == 0o700
    assert place.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in place.iterdir()] == ["boot"]


def test_half_an_upload_leaves_what_was_there(run: Run, place: Path) -> None:
    run(commands.upload_command(len(SAYS)), SAYS)

    assert run(commands.upload_command(100), b"#!/bin/sh\nrm -rf") == ""

    assert (place / "boot").read_bytes() == SAYS
    assert [path.name for path in place.iterdir()] == ["boot"]


def test_a_start_without_an_upload_says_so(run: Run) -> None:
    assert run(commands.start_command(), b"") == commands.NOTHING


def test_case_p4_a_second_start_finds_the_first(run: Run, place: Path) -> None:
    run(commands.upload_command(len(SAYS)), SAYS)

    said = [run(commands.start_command(), b"") for _ in range(3)]

    end(place)
    assert said == [commands.STARTED] * 3
    assert (place / "log").read_text() == "up\n"


def test_what_was_started_is_not_replaced(run: Run, place: Path) -> None:
    run(commands.upload_command(len(SAYS)), SAYS)
    run(commands.start_command(), b"")

    assert run(commands.upload_command(5), b"false") == commands.UPLOADED

    end(place)
    assert (place / "boot").read_bytes() == SAYS


def test_a_bootstrap_that_has_ended_says_with_which_words(run: Run, place: Path) -> None:
    script = b"#!/bin/sh\necho no docker here\nexit 7\n"
    run(commands.upload_command(len(script)), script)
    run(commands.start_command(), b"")
    for _ in range(200):
        if (place / "ended").exists():
            break
        subprocess.run(["sleep", "0.02"], check=True)

    assert run(commands.start_command(), b"") == f"{commands.ENDED} 7: no docker here"
