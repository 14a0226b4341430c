"""Unpacked code is shared, complete, and does not grow for ever."""

import io
import os
import threading
import zipfile
from pathlib import Path

from local.aws.code_store import KEPT, CodeStore


def _archive(name: str, mode: int = 0o644) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as files:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        files.writestr(entry, name)
    return buffer.getvalue()


def test_threads_that_unpack_the_same_archive_share_it(tmp_path: Path) -> None:
    store = CodeStore(tmp_path)
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(store.unpack(_archive("handler.py"))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(found)) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == [found[0].name]
    assert (found[0] / "handler.py").read_text() == "handler.py"


def test_programs_stay_executable(tmp_path: Path) -> None:
    directory = CodeStore(tmp_path).unpack(_archive("tool", 0o755))

    assert os.access(directory / "tool", os.X_OK)


def test_oldest_code_and_half_done_code_are_dropped(tmp_path: Path) -> None:
    store = CodeStore(tmp_path)
    used = [store.unpack(_archive(f"{number}.py")) for number in range(KEPT + 2)]
    for age, directory in enumerate(reversed(used)):
        os.utime(directory, (1_000_000 - age, 1_000_000 - age))
    (tmp_path / "half.draft").mkdir()

    store.prune()

    assert sorted(tmp_path.iterdir()) == sorted(used[2:])
