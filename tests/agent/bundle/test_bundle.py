import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundle import build as builder
from bundle.build import Bundle, build
from bundle.errors import BundleError
from bundle.interpreter import describe
from bundle.script import render
from tests.agent.bundle.conftest import needs_chroot, python_in, unpack
from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess
from tests.agent.runtime.test_capture_restore import capture_args, restore_args

# Imports each extension and each module of the packages, as no single program does.
IMPORT_EVERYTHING = """
import importlib, pathlib, sys, threading
base = pathlib.Path("/.podferry/lib/python%d.%d" % sys.version_info[:2])
names = {path.name.partition(".")[0] for path in (base / "lib-dynload").glob("*.so")}
for package in sys.argv[1:]:
    names.add(package)
    for path in (base / package).rglob("*.pyc"):
        relative = path.relative_to(base).with_suffix("")
        names.add(".".join(relative.parts).removesuffix(".__init__"))
# Optional parts of the packages that need packages of their own.
optional = (".contrib.", ".http2", ".backend_cffi", "_win32", ".gss_unix", "asyncssh.crypto.x509")
skipped = {n for n in names if n.endswith("__main__") or any(part in n for part in optional)}
for name in sorted(names - skipped):
    importlib.import_module(name)
# A thread's end makes glibc load libgcc_s by name.
thread = threading.Thread(target=print, args=("thread",))
thread.start()
thread.join()
print(len(names))
"""


@pytest.fixture
def boxed_agent(plane: FakeControlPlane, own_root: Path, tmp_path: Path) -> Iterator[AgentProcess]:
    """The bundled agent, running in a root that holds nothing but the bundle."""
    agent = a_boxed_agent(plane, own_root, tmp_path)
    agent.start()
    plane.wait_for(lambda: plane.heartbeats)
    yield agent
    agent.kill_box()


def a_boxed_agent(plane: FakeControlPlane, root: Path, logs: Path) -> AgentProcess:
    agent = AgentProcess(plane, root, logs / f"{root.name}.log", {"PF_ROOT": "/"})
    agent.command = (*python_in(root), "-m", "podferry_agent")
    return agent


def run_in(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*python_in(root), *arguments]
    return subprocess.run(
        command,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_bundle_is_small(bundle: Bundle) -> None:
    assert bundle.path.stat().st_size < 25_000_000


def test_bundles_hash_is_written_beside_it(bundle: Bundle) -> None:
    written = bundle.path.with_name(f"{bundle.path.name}.sha256").read_text()
    assert written == f"{bundle.sha256}  {bundle.path.name}\n"
    assert hashlib.sha256(bundle.path.read_bytes()).hexdigest() == bundle.sha256


def test_same_inputs_give_the_same_bytes(bundle: Bundle, tmp_path: Path) -> None:
    again = build(tmp_path, Path(sys.executable))
    assert again.is_new
    assert again.sha256 == bundle.sha256


def test_bundle_that_is_up_to_date_is_not_built_again(bundle: Bundle) -> None:
    changed_at = bundle.path.stat().st_mtime_ns
    assert not build(bundle.path.parent, Path(sys.executable)).is_new
    assert bundle.path.stat().st_mtime_ns == changed_at


@needs_chroot
def test_everything_in_the_bundle_can_be_imported_where_there_is_no_libc(shared_root: Path) -> None:
    packages = (
        *("podferry_agent", "asyncssh", "blake3", "certifi", "cryptography", "pyfastcdc"),
        *("urllib3", "zstandard"),
    )
    done = run_in(shared_root, "-c", IMPORT_EVERYTHING, *packages)
    assert done.returncode == 0, done.stderr
    thread, count = done.stdout.split()
    assert thread == "thread"
    assert int(count) > 100


@needs_chroot
def test_bundle_has_the_compiled_helper_and_it_works_without_a_libc(shared_root: Path) -> None:
    script = (
        "import os; from podferry_agent.snapshot.native import helper;"
        "print(helper().scan(os.open('/.podferry', os.O_RDONLY))[0])"
    )
    done = run_in(shared_root, "-c", script)
    assert sorted(eval(done.stdout).split(b"\0")) == [b"bin", b"lib"], done.stderr


@needs_chroot
def test_preload_list_of_the_box_does_not_reach_the_agent(own_root: Path) -> None:
    (own_root / "etc").mkdir()
    (own_root / "etc/ld.so.preload").write_text("/usr/lib/libvgpu.so\n")
    done = run_in(own_root, "-c", "print('alive')")
    assert (done.stdout, done.stderr) == ("alive\n", "")


@needs_chroot
def test_agent_trusts_its_own_certificates_whatever_the_environment_says(shared_root: Path) -> None:
    script = (
        "from podferry_agent.box import clean_own_environment; clean_own_environment();"
        "from podferry_agent.api import build_pool;"
        "pool = build_pool(None, 1);"
        "print(len(pool.connection_pool_kw['ssl_context'].get_ca_certs()) > 50)"
    )
    broken = {"SSL_CERT_FILE": "/no/such.pem", "OPENSSL_CONF": "/no/such.cnf"}
    done = run_in(shared_root, "-c", script, **broken)
    assert done.stdout == "True\n", done.stderr


@needs_chroot
def test_bundled_agent_works_where_there_is_no_libc_and_no_proc(
    plane: FakeControlPlane, boxed_agent: AgentProcess
) -> None:
    facts = plane.registrations[0]["facts"]
    assert facts["libc"] is None
    assert facts["distro_id"] is None
    loader, *rest = python_in(boxed_agent.root)[5:]
    argv = [loader, *rest, "-c", "print(6 * 7)"]
    command = plane.enqueue("exec", {"argv": argv, "timeout_seconds": 10})
    assert plane.wait_end(command)["result"]["exit_code"] == 0
    assert plane.output(command, "stdout") == b"42\n"
    error = plane.fail("exec", {"script": "echo hello", "timeout_seconds": 5})
    assert error["detail"] == "cannot start: /bin/sh: No such file or directory"


@needs_chroot
def test_bundled_agent_carries_a_whole_root_to_another_machine(
    plane: FakeControlPlane, boxed_agent: AgentProcess, bundle: Bundle, tmp_path: Path
) -> None:
    (boxed_agent.root / "opt/deep").mkdir(parents=True)
    (boxed_agent.root / "opt/deep/tool").write_text("tool")
    (boxed_agent.root / "workspace").mkdir()
    (boxed_agent.root / "workspace/not-this").write_text("the volume travels by itself")
    plane.do("capture", capture_args("environment"))
    boxed_agent.kill_box()
    plane.token_sha256 = ""
    target = a_boxed_agent(plane, unpack(bundle, tmp_path / "next"), tmp_path)
    try:
        target.start()
        plane.do("restore", restore_args("environment"))
        assert (target.root / "opt/deep/tool").read_text() == "tool"
        assert not (target.root / "workspace/not-this").exists()
        assert (target.root / ".podferry/bin/python3").exists()
    finally:
        target.kill_box()


@needs_chroot
def test_bundled_agent_lives_through_the_replacement_of_usr(
    plane: FakeControlPlane, boxed_agent: AgentProcess
) -> None:
    root = boxed_agent.root
    for directory in ("usr/lib/x86_64-linux-gnu", "lib", "lib64", "etc"):
        (root / directory).mkdir(parents=True, exist_ok=True)
        # Whoever loads one of these dies.
        for name in ("libc.so.6", "libssl.so.3", "libnss_dns.so.2", "ld-linux-x86-64.so.2"):
            (root / directory / name).write_bytes(b"\x7fELF of another world")
    (root / "etc/nsswitch.conf").write_text("hosts: dns mymachines\n")
    loader, *rest = python_in(root)[5:]
    script = "import socket, ssl; print(socket.getaddrinfo('127.0.0.1', 80)[0][4][0])"
    argv = [loader, *rest, "-c", script]
    command = plane.enqueue("exec", {"argv": argv, "timeout_seconds": 10})
    plane.wait_end(command)
    assert plane.output(command, "stdout") == b"127.0.0.1\n"
    before = len(plane.heartbeats)
    plane.wait_for(lambda: len(plane.heartbeats) > before + 3)


def test_package_of_another_version_is_refused(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("urllib3==1.0\n")
    with pytest.raises(BundleError, match=r"urllib3==1\.0 is required, but .* has \d"):
        describe(Path(sys.executable)).package_files(requirements)


def test_missing_package_is_refused(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("nosuchpackage==1.0\n")
    with pytest.raises(BundleError, match="has nothing; install"):
        describe(Path(sys.executable)).package_files(requirements)


def test_unpinned_package_is_refused(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("urllib3\n")
    with pytest.raises(BundleError, match="must be NAME==VERSION"):
        describe(Path(sys.executable)).package_files(requirements)


def test_python_that_does_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="cannot be run"):
        describe(tmp_path / "python3")


def test_change_of_any_source_changes_the_inputs(tmp_path: Path) -> None:
    interpreter = describe(Path(sys.executable))
    agent = Path(builder.__file__).parents[1] / "podferry_agent/agent.py"
    plan = builder.Plan(interpreter, {"lib/podferry_agent/agent.py": agent}, "ld.so")
    changed = tmp_path / "changed.py"
    changed.write_text("# another")
    other = builder.Plan(interpreter, {"lib/podferry_agent/agent.py": changed}, "ld.so")
    assert other.digest() != plan.digest()


def test_boot_script_that_is_too_long_is_refused(tmp_path: Path) -> None:
    template = tmp_path / "bootstrap.sh"
    template.write_text("# a comment\n" + "  echo hello\n" * 110)
    with pytest.raises(BundleError, match="has 1210 characters, 1200 are the limit"):
        render(template)
