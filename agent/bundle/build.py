"""The build: decide what goes in, and if that is new, copy, patch, strip, compile and pack it."""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .archive import pack
from .errors import BundleError
from .interpreter import Interpreter, describe
from .libraries import find_libraries, is_elf, loader_name
from .native import build_native
from .script import render

AGENT_ROOT = Path(__file__).parents[1]
BUNDLED_AT = "/.podferry"
_LOADER_FILES = (
    (b"/etc/ld.so.preload", b"/.no/ld.so.preload"),
    (b"/etc/ld.so.cache", b"/.no/ld.so.cache"),
)


@dataclass(frozen=True)
class Plan:
    """Everything that goes into the bundle: place in it -> source."""

    interpreter: Interpreter
    files: dict[str, Path]
    loader: str

    def digest(self) -> str:
        """Changes when anything does that could change the bundle."""
        builder = {f"builder/{p.name}": p for p in sorted(Path(__file__).parent.glob("*.py"))}
        state = hashlib.sha256(f"{self.interpreter.full_version} {_strip()}".encode())
        for place, source in sorted({**builder, **self.files}.items()):
            content = hashlib.sha256(source.read_bytes()).hexdigest()
            state.update(f"{place} {content}\n".encode())
        return state.hexdigest()


@dataclass(frozen=True)
class Bundle:
    """What was built."""

    path: Path
    sha256: str
    is_new: bool


def build(out: Path, python: Path) -> Bundle:
    """Raises: BundleError with what to change."""
    out.mkdir(parents=True, exist_ok=True)
    script = render(AGENT_ROOT / "podferry_agent/bootstrap.sh")
    (out / "bootstrap.sh").write_text(script, encoding="utf-8")
    target = out / f"podferry-agent-{platform.machine()}.tar.gz"
    plan = make_plan(python)
    digest, digest_file = plan.digest(), target.with_suffix(".inputs")
    if target.exists() and digest_file.exists() and digest_file.read_text() == digest:
        return Bundle(target, _sha256_file(target), is_new=False)
    with tempfile.TemporaryDirectory(dir=out, prefix=".building-") as directory:
        staged = Path(directory)
        _stage(plan, staged / "tree")
        pack(staged / "tree", staged / "bundle")
        (staged / "bundle").replace(target)
    sha256 = _sha256_file(target)
    target.with_name(target.name + ".sha256").write_text(f"{sha256}  {target.name}\n")
    digest_file.write_text(digest)
    return Bundle(target, sha256, is_new=True)


def make_plan(python: Path) -> Plan:
    interpreter = describe(python)
    files = {
        "bin/python3": interpreter.program,
        **interpreter.library_files(),
        **interpreter.package_files(AGENT_ROOT / "requirements.txt"),
        **_agent_files(interpreter.bundled_library),
    }
    elf_files = [p for p in files.values() if p.suffix != ".py" and is_elf(p)]
    libraries = find_libraries(elf_files)
    files.update({f"lib/{name}": path for name, path in libraries.items()})
    return Plan(interpreter, files, loader_name(libraries))


def _agent_files(library: str) -> dict[str, Path]:
    sources = sorted((AGENT_ROOT / "podferry_agent").rglob("*.py"))
    files = [*sources, build_native()]
    return {f"{library}/{s.relative_to(AGENT_ROOT).as_posix()}": s for s in files}


def _stage(plan: Plan, tree: Path) -> None:
    for place, source in plan.files.items():
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, tree / place)
    loader = tree / "lib" / plan.loader
    loader.write_bytes(_patched(loader.read_bytes()))
    (tree / "lib/ld.so").symlink_to(plan.loader)
    places = [place for place in plan.files if place != f"lib/{plan.loader}"]
    _strip_all(tree / place for place in places)
    _compile(plan.interpreter, tree)


def _patched(loader: bytes) -> bytes:
    """A loader that reads neither the box's preload list nor its library cache.

    Both would bring libraries of the box into the agent: some GPU providers mount a preload list.
    """
    for old, new in _LOADER_FILES:
        if old not in loader:
            raise BundleError(f"this machine's dynamic loader does not mention {old.decode()}")
        loader = loader.replace(old, new)
    return loader


def _strip() -> str | None:
    return shutil.which("strip")


def _strip_all(paths: Iterable[Path]) -> None:
    """Smaller by half; without binutils the bundle is larger, that is all."""
    program = _strip()
    elf_files = [path for path in paths if path.suffix != ".py" and is_elf(path)]
    if program is not None and elf_files:
        # strip replaces files, and keeps a mode that cannot be written.
        for path in elf_files:
            path.chmod(0o755)
        subprocess.run([program, "--strip-unneeded", *elf_files], check=True)


def _compile(interpreter: Interpreter, tree: Path) -> None:
    compiler = Path(__file__).with_name("compiler.py")
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(
        # Not -I: it would ignore the hash seed.
        [interpreter.program, "-s", "-B", compiler, tree / "lib", f"{BUNDLED_AT}/lib"],
        check=True,
        env=environment,
    )


def _sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
