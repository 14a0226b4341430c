"""Layers hold pinned packages for the right interpreter and are built only when they have to be."""

import base64
import hashlib
import platform
import re
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from infra.build_layers import build_vendor_layer, stage_podferry_layer, wheels_for
from infra.errors import LayerBuildError
from infra.sources import Sources, Target

PIN = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; [^\\]+)? \\$")


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """A tree whose requirement file names one small wheel on disk, so nothing is fetched."""
    sources = Sources(tmp_path)
    sources.requirements.parent.mkdir(parents=True)
    sources.package.mkdir(parents=True)
    (sources.package / "__init__.py").write_text("")
    sources.engine.mkdir(parents=True)
    (sources.engine / "__init__.py").write_text("")
    sources.bootstrap_script.parent.mkdir(parents=True)
    sources.bootstrap_script.write_text("#!/bin/sh\nexit 0\n")
    require(sources, a_wheel(tmp_path))
    return sources


def a_wheel(directory: Path, body: str = "VALUE = 1\n") -> Path:
    """A package with one module and one console script."""
    info = "tiny-1.0.dist-info"
    files = {
        "tiny.py": body,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ntiny = tiny:main\n",
    }
    record = "".join(f"{name},{_record_hash(text)},{len(text)}\n" for name, text in files.items())
    wheel = directory / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(name, text)
    return wheel


def require(sources: Sources, wheel: Path, digest: str | None = None) -> None:
    digest = digest or hashlib.sha256(wheel.read_bytes()).hexdigest()
    sources.requirements.write_text(f"tiny @ {wheel.as_uri()} --hash=sha256:{digest}\n")


@pytest.mark.parametrize("target", list(Target))
def test_packages_are_installed_where_lambda_looks_for_them(
    sources: Sources, target: Target
) -> None:
    assert build_vendor_layer(sources, target) is True
    packages = sources.vendor_layer(target) / "python"
    assert (packages / "tiny.py").read_text() == "VALUE = 1\n"


def test_console_scripts_stay_out(sources: Sources) -> None:
    build_vendor_layer(sources, Target.LOCAL)
    names = {path.name for path in (sources.vendor_layer(Target.LOCAL) / "python").iterdir()}
    assert names == {"tiny.py", "tiny-1.0.dist-info"}


def test_a_layer_is_built_again_only_when_its_requirements_change(sources: Sources) -> None:
    assert build_vendor_layer(sources, Target.LOCAL) is True
    assert build_vendor_layer(sources, Target.LOCAL) is False
    require(sources, a_wheel(sources.root, "VALUE = 2\n"))
    assert build_vendor_layer(sources, Target.LOCAL) is True
    packages = sources.vendor_layer(Target.LOCAL) / "python"
    assert (packages / "tiny.py").read_text() == "VALUE = 2\n"


def test_a_layer_that_was_removed_is_built_again(sources: Sources) -> None:
    build_vendor_layer(sources, Target.LOCAL)
    sources.vendor_layer(Target.LOCAL).rename(sources.root / "elsewhere")
    assert build_vendor_layer(sources, Target.LOCAL) is True


def test_a_package_with_another_hash_is_refused_and_the_old_layer_stays(sources: Sources) -> None:
    build_vendor_layer(sources, Target.LOCAL)
    require(sources, a_wheel(sources.root), digest="0" * 64)
    with pytest.raises(LayerBuildError, match=r"(?i)hash"):
        build_vendor_layer(sources, Target.LOCAL)
    assert (sources.vendor_layer(Target.LOCAL) / "python" / "tiny.py").is_file()
    assert {path.name for path in sources.built_layers.iterdir()} == {"vendor-local"}


def test_the_lambda_target_is_lambdas_python_and_the_local_one_is_this(sources: Sources) -> None:
    assert wheels_for(Target.LAMBDA).python == "3.12"
    assert "manylinux" in str(wheels_for(Target.LAMBDA).platform)
    assert wheels_for(Target.LOCAL).python == platform.python_version()
    assert sources.vendor_layer(Target.LAMBDA) != sources.vendor_layer(Target.LOCAL)


def test_our_package_gets_the_boot_script_and_leaves_caches_behind(sources: Sources) -> None:
    (sources.package / "__pycache__").mkdir()
    (sources.package / "__pycache__" / "x.pyc").write_text("")
    stage_podferry_layer(sources)
    package = sources.podferry_layer / "python" / "podferry"
    assert {path.name for path in package.iterdir()} == {"__init__.py", "data"}
    assert (package / "data" / "bootstrap.sh").read_text() == "#!/bin/sh\nexit 0\n"


def test_our_package_is_staged_anew_each_time(sources: Sources) -> None:
    stage_podferry_layer(sources)
    (sources.package / "__init__.py").write_text("NEW = True\n")
    stage_podferry_layer(sources)
    staged = sources.podferry_layer / "python" / "podferry" / "__init__.py"
    assert staged.read_text() == "NEW = True\n"


def test_the_snapshot_format_comes_with_the_layer(sources: Sources) -> None:
    (sources.engine / "snapshot.py").write_text("FORMAT = 1\n")
    stage_podferry_layer(sources)
    staged = sources.podferry_layer / "python" / "podferry_agent"
    assert {path.name for path in staged.iterdir()} == {"__init__.py", "snapshot.py"}


def test_every_package_is_pinned_with_hashes_and_boto3_is_left_to_lambda() -> None:
    lines = Sources().requirements.read_text().splitlines()
    required = [line for line in lines if line and not line.startswith((" ", "#"))]
    names = [pin[1] for line in required if (pin := PIN.match(line))]
    assert len(names) == len(required)
    assert {"aws-lambda-powertools", "pydantic", "httpx"} <= set(names)
    assert not {"boto3", "botocore"} & set(names)
    text = Sources().requirements.read_text()
    assert len(re.findall(r"\\\n    --hash=sha256:", text)) >= len(names)


def test_what_is_tested_here_is_what_is_shipped() -> None:
    for line in Sources().requirements.read_text().splitlines():
        if pin := PIN.match(line):
            assert version(pin[1]) == pin[2], pin[1]


def _record_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
