"""Builds the two Lambda layers below `build/layers`, without Docker.

    python -m infra.build_layers --target lambda     packages for Lambda's Python on x86_64
    python -m infra.build_layers --target local      the same packages for this interpreter

`vendor-<target>` holds the pinned third-party packages and is rebuilt only when the requirement
file or the target changes. `podferry` is our own package, the agent's, and the
machine's boot script as package data; it is a copy, so that the source tree stays free of generated
files.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from infra.errors import InfraError, LayerBuildError
from infra.sources import Sources, Target

LAMBDA_PYTHON = "3.12"
# Lambda's Python 3.12 runs on Amazon Linux 2023 (glibc 2.34), so these wheels load there.
LAMBDA_PLATFORM = "x86_64-manylinux_2_28"


@dataclass(frozen=True, slots=True)
class Wheels:
    """For which interpreter the packages are picked."""

    python: str
    platform: str | None

    @property
    def options(self) -> tuple[str, ...]:
        chosen = ("--python-version", self.python)
        return chosen if self.platform is None else (*chosen, "--python-platform", self.platform)

    @property
    def label(self) -> str:
        return f"{self.python} {self.platform or sysconfig.get_platform()}"


def wheels_for(target: Target) -> Wheels:
    """The interpreter that will import the layer."""
    if target is Target.LAMBDA:
        return Wheels(LAMBDA_PYTHON, LAMBDA_PLATFORM)
    return Wheels(platform.python_version(), None)


def build_vendor_layer(sources: Sources, target: Target) -> bool:
    """Install the pinned packages; `False` if the layer was up to date.

    Raises:
        LayerBuildError: the installer failed; its own words are in the message.
    """
    wheels = wheels_for(target)
    layer = sources.vendor_layer(target)
    stamp = layer.with_suffix(".stamp")
    wanted = _fingerprint(sources.requirements, wheels)
    if layer.is_dir() and stamp.is_file() and stamp.read_text() == wanted:
        return False
    stamp.unlink(missing_ok=True)
    partial = layer.with_suffix(f".partial-{os.getpid()}")
    try:
        _install(sources.requirements, wheels, partial / "python")
        _replace(layer, partial)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    stamp.write_text(wanted)
    return True


def stage_podferry_layer(sources: Sources) -> None:
    """Copy our package and the boot script; cheap, so every synth does it and is never stale.

    Raises:
        LayerBuildError: the agent, and with it the boot script, is not built.
    """
    if not sources.bootstrap_script.is_file():
        raise LayerBuildError(f"{sources.bootstrap_script} is missing: run `make build`")
    partial = sources.podferry_layer.with_suffix(f".partial-{os.getpid()}")
    package = partial / "python" / "podferry"
    try:
        for source in (sources.package, sources.engine):
            shutil.copytree(
                source,
                partial / "python" / source.name,
                ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
            )
        (package / "data").mkdir(exist_ok=True)
        shutil.copyfile(sources.bootstrap_script, package / "data" / "bootstrap.sh")
        _replace(sources.podferry_layer, partial)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _fingerprint(requirements: Path, wheels: Wheels) -> str:
    text = f"{wheels.label}\n".encode() + requirements.read_bytes()
    return hashlib.sha256(text).hexdigest()


def _install(requirements: Path, wheels: Wheels, into: Path) -> None:
    command = [
        *(sys.executable, "-m", "uv", "--quiet", "pip", "install", "--target", str(into)),
        *("--require-hashes", "--only-binary", ":all:", "--link-mode", "copy"),
        *wheels.options,
        *("--requirement", str(requirements)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LayerBuildError(
            f"the packages of {requirements} could not be installed for Python {wheels.label}:\n"
            f"{done.stderr.strip()}"
        )
    # Console scripts name this machine's interpreter and would change the layer's hash.
    shutil.rmtree(into / "bin", ignore_errors=True)
    (into / ".lock").unlink(missing_ok=True)


def _replace(layer: Path, partial: Path) -> None:
    shutil.rmtree(layer, ignore_errors=True)
    partial.rename(layer)


def main(arguments: list[str] | None = None) -> int:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m infra.build_layers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--target", type=Target, choices=list(Target), default=Target.LAMBDA)
    target = parser.parse_args(arguments).target
    sources = Sources()
    try:
        built = build_vendor_layer(sources, target)
        stage_podferry_layer(sources)
    except InfraError as error:
        sys.stderr.write(f"build_layers: {error}\n")
        return 1
    state = "built" if built else "up to date"
    sys.stdout.write(f"{sources.vendor_layer(target)}: {state}\n{sources.podferry_layer}: staged\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
