"""The base is a usable copy of the host, built once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from local.boxes.base import (
    BaseBuildError,
    ImageNotFoundError,
    check_image,
    ensure_base,
    remove_unused_bases,
)
from local.boxes.spec import BoxSpec, Isolation


def test_the_base_is_built_once_and_kept(base):
    stamp = base.stat().st_mtime_ns
    assert ensure_base(base.parent) == base
    assert base.stat().st_mtime_ns == stamp


def test_two_builders_at_once_make_one_base(tmp_path):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(ensure_base(tmp_path))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == [found[0]]


def test_bases_that_no_box_was_started_on_are_removed_and_the_present_one_stays(tmp_path):
    present = ensure_base(tmp_path / "cache")
    names = ("base-used", "base-old", "base-older.unfinished", "box-probe-1")
    used, old, half, other = (tmp_path / "cache" / name for name in names)
    for directory in (used, old, half, other):
        (directory / "etc").mkdir(parents=True)
    box = BoxSpec(tmp_path / "box", used, Isolation.ROOT, ("/bin/true",))
    box.directory.mkdir()
    assert sorted(remove_unused_bases(tmp_path / "cache", [box.save()])) == [old, half]
    assert {p for p in present.parent.iterdir() if p.is_dir()} == {present, used, other}
    assert remove_unused_bases(tmp_path / "cache", []) == [used]
    assert remove_unused_bases(tmp_path / "nothing", []) == []


def test_the_base_keeps_the_layout_of_the_host(base):
    for name in ("bin", "sbin", "lib", "lib64"):
        host = Path("/", name)
        if host.is_symlink():
            assert (base / name).readlink() == host.readlink()
        elif host.is_dir():
            assert (base / name).is_dir()


def test_the_base_holds_no_path_of_the_builder(base):
    assert list((base / "root").iterdir()) == []
    assert not (base / "home" / os.environ.get("USER", "nobody")).exists()


def test_no_file_in_the_base_is_set_uid(base):
    listing = subprocess.run(
        ["find", str(base), "-perm", "/6000"], capture_output=True, text=True, check=True
    )
    assert listing.stdout == ""


def test_the_base_is_open_to_all_users_of_a_box_whatever_the_umask(tmp_path):
    script = f"import pathlib; from local.boxes.base import *; ensure_base(pathlib.Path({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", script], check=True, umask=0o077)
    (built,) = tmp_path.glob("base-*")
    modes = {name: (built / name).stat().st_mode & 0o7777 for name in ("usr/bin", "tmp", "root")}
    assert modes == {"usr/bin": 0o755, "tmp": 0o1777, "root": 0o700}
    closed = subprocess.run(
        ["find", str(built), "-type", "f", "!", "-perm", "-444"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert closed.stdout == ""


def test_python_in_a_box_has_what_an_agent_needs(make_box):
    box = make_box()
    box.start()
    modules = "ssl, sqlite3, ctypes, hashlib, json, http.client, zlib, lzma, venv, ensurepip"
    result = box.run(["python3", "-c", f"import {modules}; print('fine')"])
    assert result.stdout == b"fine\n", result.stderr


@pytest.mark.parametrize(
    "name", ["docker.io/library/debian:12", "podferry/base:1", "localhost:5000/a/b", "x@sha256:0"]
)
def test_any_other_image_name_stands_for_the_base(name):
    check_image(name)


@pytest.mark.parametrize(
    "name", ["broken/nonexistent:1", "broken/nonexistent", "docker.io/broken/nonexistent:latest"]
)
def test_the_broken_image_cannot_be_pulled(name):
    with pytest.raises(ImageNotFoundError, match="manifest unknown"):
        check_image(name)


def test_a_base_that_cannot_be_built_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BaseBuildError, match="ldd"):
        ensure_base(tmp_path)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
