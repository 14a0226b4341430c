"""The boot script in each shell, with each tool alone, against a real HTTP server."""

import hashlib
import http.server
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bundle.build import Bundle
from bundle.script import LONGEST, render
from tests.agent.bundle.conftest import REPOSITORY
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess, make_root
from tests.agent.runtime.loopback import Loopback

TEMPLATE = REPOSITORY / "agent/podferry_agent/bootstrap.sh"
BASICS = ("mkdir", "cat", "tail", "tar", "gzip", "rm")
DOWNLOADERS = ("curl", "wget", "python3", "perl", "bash")
# Stands for the bundle's loader: says how it was started and with what.
LOADER = """#!/bin/sh
echo "argv: $*"
echo "library path: ${LD_LIBRARY_PATH-unset}, kept: $PF_LL"
"""


def has_own_wget() -> bool:
    """Whether the busybox here runs its tools from within its shell, found in `PATH` or not."""
    program = shutil.which("busybox")
    if program is None:
        return False
    ask = [program, "sh", "-c", "wget --help"]
    return subprocess.run(ask, env={"PATH": ""}, capture_output=True, check=False).returncode == 0


def only_with(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(shell) is None, reason=f"this machine has no shell {shell}"
    )


PLAIN_SHELLS = [pytest.param((name,), marks=only_with(name), id=name) for name in ("dash", "bash")]
BUSYBOX = ("busybox", "sh")
SHELLS = [*PLAIN_SHELLS, pytest.param(BUSYBOX, marks=only_with("busybox"), id="busybox sh")]


@dataclass
class Site:
    """A server for one file behind a URL with a query, as a presigned one has."""

    body: bytes
    requests: list[str]
    url: str = ""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()


def a_bundle() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("lib/ld.so")
        member.mode, member.size = 0o755, len(LOADER)
        archive.addfile(member, io.BytesIO(LOADER.encode()))
        # Bytes of every value, and more than fit into one read.
        noise = tarfile.TarInfo("lib/noise")
        noise.size = 300_000
        archive.addfile(noise, io.BytesIO(os.urandom(noise.size)))
    return buffer.getvalue()


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site(a_bundle(), [])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append(self.path)
            is_right = self.path == "/b/bundle.tgz?X-Amz-Signature=ab%2Fc"
            self.send_response(200 if is_right else 403)
            self.send_header("Content-Length", str(len(served.body)))
            self.end_headers()
            self.wfile.write(served.body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = Loopback(Handler)
    server.start()
    served.url = f"{server.url}/b/bundle.tgz?X-Amz-Signature=ab%2Fc"
    yield served
    server.close()


@dataclass
class Boot:
    """Runs the script in a box that has only the given tools."""

    site: Site
    directory: Path

    def run(
        self, *tools: str, shell: tuple[str, ...] = ("sh",), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        program = shutil.which(shell[0])
        assert program is not None
        root = self.directory / "root"
        root.mkdir(exist_ok=True)
        return subprocess.run(
            [program, *shell[1:], "-c", render(TEMPLATE)],
            env={
                "PATH": str(self._tools(tools)),
                "PF_BUNDLE_URL": self.site.url,
                "PF_BUNDLE_SHA256": self.site.sha256,
                "PF_ROOT": str(root),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    def _tools(self, names: tuple[str, ...]) -> Path:
        folder = self.directory / "tools"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in (*BASICS, *names):
            source = sys.executable if name == "python3" else shutil.which(name)
            if source is None:
                pytest.skip(f"this machine has no {name}")
            # Not a link: a Python in a virtual environment finds itself by its path.
            (folder / name).write_text(f'#!/bin/sh\nexec {source} "$@"\n')
            (folder / name).chmod(0o755)
        return folder


@pytest.fixture
def boot(site: Site, tmp_path: Path) -> Boot:
    return Boot(site, tmp_path)


def test_script_is_short_enough_for_every_provider() -> None:
    assert len(render(TEMPLATE)) <= LONGEST


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("downloader", DOWNLOADERS)
def test_bundle_is_fetched_with_any_downloader_in_any_shell(
    boot: Boot, downloader: str, shell: tuple[str, ...]
) -> None:
    done = boot.run("sha256sum", downloader, shell=shell)
    home = f"{boot.directory}/root/.podferry"
    expected = f"argv: --library-path {home}/lib {home}/bin/python3 -I -B -m podferry_agent"
    assert done.stdout.splitlines()[:1] == [expected], done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("shell", PLAIN_SHELLS)
def test_box_without_any_downloader_says_what_to_add(boot: Boot, shell: tuple[str, ...]) -> None:
    done = boot.run("sha256sum", shell=shell)
    assert done.returncode == 1
    assert done.stderr.startswith("podferry-boot: download failed, add curl or wget: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not has_own_wget(), reason="no busybox here that brings its own wget")
def test_busybox_downloads_with_its_own_wget(boot: Boot) -> None:
    done = boot.run("sha256sum", shell=BUSYBOX)
    assert done.stdout.startswith("argv: "), done.stderr


@pytest.mark.parametrize("checker", ["sha256sum", "openssl", "shasum"])
def test_any_checksum_tool_will_do(boot: Boot, checker: str) -> None:
    done = boot.run("curl", checker)
    assert done.stdout.startswith("argv: "), done.stderr


def test_box_without_a_checksum_tool_is_refused(boot: Boot) -> None:
    done = boot.run("curl")
    assert done.returncode == 1
    assert done.stderr == "podferry-boot: cannot check, add sha256sum\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_promise_11_bundle_with_another_hash_is_not_run(boot: Boot, shell: tuple[str, ...]) -> None:
    wrong = hashlib.sha256(b"another bundle").hexdigest()
    done = boot.run("curl", "sha256sum", shell=shell, PF_BUNDLE_SHA256=wrong)
    assert done.returncode == 1
    assert done.stderr == f"podferry-boot: wrong hash {boot.site.sha256}, rent again\n"
    assert not (boot.directory / "root/.podferry/lib").exists()


def test_missing_hash_is_not_taken_for_a_match(boot: Boot) -> None:
    done = boot.run("curl", "sha256sum", PF_BUNDLE_SHA256="")
    assert done.returncode == 1
    assert done.stdout == ""


@pytest.mark.parametrize("downloader", ["curl", "wget", "python3", "perl", "bash"])
def test_refused_url_is_a_failed_download(boot: Boot, downloader: str) -> None:
    url = boot.site.url.replace("ab%2Fc", "expired")
    done = boot.run("sha256sum", downloader, PF_BUNDLE_URL=url)
    assert done.returncode == 1
    assert done.stderr.startswith("podferry-boot: download failed")
    assert "X-Amz-Signature" not in done.stderr


def test_box_without_tar_says_what_to_add(boot: Boot) -> None:
    boot.run("curl", "sha256sum", PF_BUNDLE_SHA256="0")
    (boot.directory / "tools/tar").unlink()
    done = subprocess.run(
        ["/bin/sh", "-c", render(TEMPLATE)],
        env={
            "PATH": str(boot.directory / "tools"),
            "PF_BUNDLE_URL": boot.site.url,
            "PF_BUNDLE_SHA256": boot.site.sha256,
            "PF_ROOT": str(boot.directory / "root"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("podferry-boot: cannot unpack, add tar and gzip: ")


def test_restarted_box_does_not_fetch_again(boot: Boot) -> None:
    boot.run("curl", "sha256sum")
    done = boot.run("curl", "sha256sum", PF_BUNDLE_URL="http://127.0.0.1:1/gone")
    assert done.stdout.startswith("argv: "), done.stderr
    assert len(boot.site.requests) == 1


def test_library_path_of_the_image_is_kept_for_its_programs(boot: Boot) -> None:
    done = boot.run("curl", "sha256sum", LD_LIBRARY_PATH="/opt/libs")
    assert done.stdout.splitlines()[1] == "library path: unset, kept: /opt/libs"


def test_root_that_cannot_be_written_is_named(boot: Boot, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = boot.run("curl", "sha256sum", PF_ROOT=str(tmp_path / "file"))
    assert done.returncode == 1
    assert f"podferry-boot: use a writable root: no {tmp_path}/file/.podferry\n" in done.stderr


def test_script_and_real_bundle_lead_to_a_registered_agent(
    bundle: Bundle, site: Site, plane: FakeControlPlane, tmp_path: Path
) -> None:
    site.body = bundle.path.read_bytes()
    root = make_root(tmp_path / "box")
    agent = AgentProcess(plane, root, tmp_path / "boot.log")
    agent.environment = {"PF_BUNDLE_URL": site.url, "PF_BUNDLE_SHA256": bundle.sha256}
    agent.command = ("/bin/sh", "-c", render(TEMPLATE))
    agent.start()
    try:
        plane.wait_for(lambda: plane.heartbeats)
        assert plane.do("run", {"startup_script": "echo up", "timeout_seconds": 10})["probe_ok"]
    finally:
        agent.kill_box()
