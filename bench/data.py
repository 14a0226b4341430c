"""`python -m bench.data`: makes the trees that are measured, and changes them step by step.

A process of its own, so that numpy does not count as memory of the tools that are measured.

The environment is made of real files, of packages and of this machine, because compression and
file sizes decide the result. The volume is made of seeded random numbers: weights, images, logs,
a database.
"""

import argparse
import json
import os
import random
import shutil
import sqlite3
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

MB = 1_000_000
_WEIGHTS, _OPTIMIZER, _IMAGES, _LOGS = 320 * MB, 110 * MB, 7000, 40 * MB  # at scale 1
_PACKAGE_SHARE = 0.02  # of the environment's bytes: what one more package brings
_TENSOR = 8 << 20
_DATABASE_ROWS = 120_000


PACKAGES = Path(__file__).with_name("packages.txt")
SITE = Path("build/bench-packages")  # installed once for all runs


def install_packages() -> None:
    """The packages of the environment, with compiled modules; a second run finds them."""
    done = SITE / ".done"
    if done.exists() and done.read_text() == PACKAGES.read_text():
        return
    shutil.rmtree(SITE, ignore_errors=True)
    command = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet"]
    options = ["--python", sys.executable, "--target", str(SITE), "--compile-bytecode"]
    subprocess.run([*command, *options, "--link-mode=copy", "-r", str(PACKAGES)], check=True)
    done.write_text(PACKAGES.read_text())


def make(root: Path, scale: float, environment_mb: int) -> None:
    make_environment(root, int(environment_mb * scale) * MB)
    make_volume(root / "volume/workspace", scale)


def make_environment(root: Path, size: int) -> None:
    """Copies of real files up to a size; a little more waits in `package` for a later step."""
    sources = {SITE: "opt/venv/lib/python3/site-packages", Path("/usr"): "usr"}
    used = {"environment": 0, "package": 0}
    for source, place in sources.items():
        for path in _files_of(source):
            tree = "environment" if used["environment"] < size else "package"
            if tree == "package" and path.lstat().st_size > size * _PACKAGE_SHARE / 2:
                continue
            used[tree] += _copy(path, root / tree / place / path.relative_to(source))
            if used["package"] >= size * _PACKAGE_SHARE:
                return


def _files_of(source: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(source):
        if "firmware" in names:
            names.remove("firmware")  # belongs to the machine: not captured
        names.sort()
        yield from (Path(directory) / name for name in sorted(files))


def _copy(path: Path, copy: Path) -> int:
    status = path.lstat()
    copy.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISLNK(status.st_mode):
        copy.symlink_to(path.readlink())
    elif stat.S_ISREG(status.st_mode):
        shutil.copy2(path, copy)
        return status.st_size
    return 0


def make_volume(tree: Path, scale: float) -> None:
    rng = np.random.default_rng(1)
    checkpoint(tree / "checkpoints/step-1000", scale, 0.0)
    for number in range(int(_IMAGES * scale)):
        path = tree / f"images/{number // 500:03}/{number:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.bytes(int(5000 * 20 ** rng.random())))
    (tree / "logs").mkdir()
    (tree / "logs/train.log").write_bytes(_log(2, int(_LOGS * scale)))
    database = sqlite3.connect(tree / "runs.db")
    database.execute("create table runs(id integer primary key, parameters text, loss real)")
    _insert(database, range(int(_DATABASE_ROWS * scale)))
    database.close()


def checkpoint(directory: Path, scale: float, moved: float) -> None:
    """bf16 weights and fp32 optimizer state; `moved` is by how much training moved each."""
    directory.mkdir(parents=True)
    rng, step = np.random.default_rng(3), np.random.default_rng(4)
    for name, size, width in (("model", _WEIGHTS, 2), ("optimizer", _OPTIMIZER, 4)):
        count = max(1, int(size * scale) // _TENSOR)
        length = _TENSOR // width
        header = {
            f"layers.{i}": {
                "dtype": "BF16" if width == 2 else "F32",
                "shape": [length],
                "data_offsets": [i * _TENSOR, (i + 1) * _TENSOR],
            }
            for i in range(count)
        }
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with (directory / f"{name}.safetensors").open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _ in range(count):
                numbers = rng.standard_normal(length, dtype=np.float32) * np.float32(0.02)
                if moved:
                    numbers += step.standard_normal(length, dtype=np.float32) * np.float32(moved)
                file.write(numbers.tobytes() if width == 4 else _bf16(numbers))


def _bf16(numbers: "np.ndarray[tuple[int], np.dtype[np.float32]]") -> bytes:
    bits = numbers.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()


def _log(seed: int, size: int) -> bytes:
    rng, total = random.Random(seed), 0
    lines: list[str] = []
    while total < size:
        loss, rate = rng.random() * 2, rng.randint(9000, 12000)
        line = f"2026-01-01T00:00:{len(lines) % 60:02} step={len(lines)} {loss=:.6f} {rate=}\n"
        lines.append(line)
        total += len(line)
    return "".join(lines).encode()


def _insert(database: sqlite3.Connection, ids: range) -> None:
    rng = random.Random(ids.start)
    rows = ((i, f"{rng.getrandbits(512):0128x}", rng.random()) for i in ids)
    database.executemany("insert into runs values(?, ?, ?)", rows)
    database.commit()


def change(root: Path, step: str, scale: float) -> None:
    """One step of the plan; each is applied once, after those before it."""
    tree = root / "volume/workspace"
    if step == "package":
        shutil.copytree(root / "package", root / "environment", symlinks=True, dirs_exist_ok=True)
    elif step == "log-and-database":
        with (tree / "logs/train.log").open("ab") as file:
            file.write(_log(5, MB))
        database = sqlite3.connect(tree / "runs.db")
        _insert(database, range(10_000_000, 10_000_500))
        database.close()
    elif step == "checkpoint":
        checkpoint(tree / "checkpoints/step-2000", scale, 5e-5)


def drift(tree: Path) -> None:
    """As if it were another machine with nearly the same image."""
    files = sorted(p for p in tree.rglob("*") if p.is_file() and not p.is_symlink())
    for number, path in enumerate(files):
        if number % 150 == 7:
            body = path.read_bytes()
            path.write_bytes(bytes(255 - byte for byte in body[:64]) + body[64:])
        elif number % 150 == 40:
            path.unlink()
        elif number % 150 == 90:
            (path.parent / f"{path.name}.extra").write_bytes(b"only here")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.data", description=__doc__)
    parser.add_argument("action", choices=["install", "make", "change", "drift"])
    parser.add_argument("root", type=Path)
    parser.add_argument("--step", default="")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--environment-mb", type=int, default=3500)
    args = parser.parse_args()
    if args.action == "install":
        install_packages()
    elif args.action == "make":
        make(args.root, args.scale, args.environment_mb)
    elif args.action == "change":
        change(args.root, args.step, args.scale)
    else:
        drift(args.root)


if __name__ == "__main__":
    main()
