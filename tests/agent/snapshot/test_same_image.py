"""Two machines that began as one image: what they have in common is stored once."""

import os
import shutil
from pathlib import Path

from podferry_agent.snapshot.directorystore import DirectoryStore
from podferry_agent.snapshot.manifest import load_root
from tests.agent.snapshot.conftest import Bench

MEGABYTE = 1 << 20


def an_image(tree: Path, megabytes: int = 24) -> None:
    """Content that does not compress, so that bytes stored are bytes read."""
    for number in range(megabytes):
        folder = tree / f"usr/lib/part{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"lib{number:02}.so").write_bytes(os.urandom(MEGABYTE - 4096))
        for small in range(20):
            (folder / f"note{number:02}-{small}").write_bytes(os.urandom(200))


def machine_with(bench: Bench, name: str, image: Path, tool: bytes) -> None:
    tree = bench.make(name)
    shutil.copytree(image, tree, dirs_exist_ok=True)
    (tree / "opt").mkdir()
    (tree / "opt/tool").write_bytes(tool)
    (tree / "usr/lib/part0/note00-0").unlink()


def test_the_first_capture_of_a_second_machine_stores_the_difference_only(
    environment: Bench, tmp_path: Path
) -> None:
    image = tmp_path / "image"
    an_image(image)
    machine_with(environment, "first", image, os.urandom(MEGABYTE))
    machine_with(environment, "second", image, os.urandom(MEGABYTE))
    first = environment.capture("first", "snap_1").summary
    second = environment.capture("second", "snap_2", parent="snap_1").summary
    assert first.stored_bytes > 24 * MEGABYTE
    assert second.stored_bytes < 1.1 * MEGABYTE, "the tool, and nothing of the image"
    owners = {
        pack.snapshot_id
        for pack in load_root(DirectoryStore(environment.store_directory), "snap_2").packs
    }
    assert owners == {"snap_1", "snap_2"}
    environment.make("third")
    environment.restore("third", "snap_2")
    assert environment.differences("second", "third") == []
