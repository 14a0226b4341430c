import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundle.build import Bundle, build
from tests.agent.runtime.fake_api import FakeControlPlane

REPOSITORY = Path(__file__).parents[3]
OWN_ROOT = ("unshare", "--user", "--map-root-user", "chroot")


def can_chroot() -> bool:
    try:
        done = subprocess.run([*OWN_ROOT, "/", "true"], check=False, capture_output=True)
    except FileNotFoundError:
        return False
    return done.returncode == 0


needs_chroot = pytest.mark.skipif(
    not can_chroot(), reason="this machine lets nobody make user namespaces"
)


@pytest.fixture(scope="session")
def bundle() -> Bundle:
    """The one that `make build` makes; built only when something that goes in has changed."""
    return build(REPOSITORY / "build/agent", Path(sys.executable))


@pytest.fixture(scope="session")
def shared_root(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the bundle and nothing else: no libc, no shell. Tests only read it."""
    return unpack(bundle, tmp_path_factory.mktemp("root"))


@pytest.fixture
def own_root(bundle: Bundle, tmp_path: Path) -> Path:
    """The same for tests that change it."""
    return unpack(bundle, tmp_path / "root")


@pytest.fixture
def plane() -> Iterator[FakeControlPlane]:
    control_plane = FakeControlPlane()
    yield control_plane
    control_plane.close()


def unpack(bundle: Bundle, root: Path) -> Path:
    (root / ".podferry").mkdir(parents=True)
    with tarfile.open(bundle.path) as archive:
        archive.extractall(root / ".podferry", filter="tar")
    return root


def python_in(root: Path) -> tuple[str, ...]:
    """The bundle's own Python with `root` as its root directory."""
    start = ("/.podferry/lib/ld.so", "--library-path", "/.podferry/lib", "/.podferry/bin/python3")
    return (*OWN_ROOT, str(root), *start, "-I", "-B")
