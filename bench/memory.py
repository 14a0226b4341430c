"""`python -m bench.memory`: the peak memory of a capture of one very large file, or of many names.

Packs are dropped once they are sealed and counted; pages and the root are kept, so that a second
capture builds on the first. Not a test: it takes minutes. A file of 100 GB needs no 100 GB of disk
on a filesystem with reflinks (xfs, btrfs): one GiB of data is shared again and again, and one page
of each MiB is then written anew, so that no chunk is like another and none is a hole.
"""

import argparse
import errno
import fcntl
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench.measure import run
from bench.tools import own_environment

MIB = 1 << 20
GIB = 1 << 30
_FICLONERANGE = 0x4020940D
_RANGE = struct.Struct("=qQQQ")  # source fd, its offset, length, offset in the target
_PAGE = 4096
_LIMIT_SECONDS = 3600
_UNTIL_TIMES_PROVE = 3  # seconds: a file that was just written is read again


def make_large_file(path: Path, size: int) -> bool:
    """No zeros, no holes, no two equal chunks; whether its data is shared by reflinks."""
    base = _some_data(GIB)
    with path.open("w+b") as file:
        file.write(base)
        file.flush()
        is_shared = _cloned(file.fileno(), size)
        if not is_shared:
            for _ in range(1, size // GIB):
                file.write(base)
            file.flush()
        for place in range(0, size, MIB):
            os.pwrite(file.fileno(), random.randbytes(_PAGE), place + MIB // 2)
    return is_shared


def _some_data(size: int) -> bytes:
    """Noise, and text for an eighth of it, so that each block is compressed."""
    words = [random.randbytes(6).hex().encode() for _ in range(4000)]
    text = b" ".join(random.choices(words, k=MIB // 8 // 13)).ljust(MIB // 8, b".")
    return (random.randbytes(MIB - len(text)) + text) * (size // MIB)


def _cloned(fd: int, size: int) -> bool:
    os.fsync(fd)
    try:
        for place in range(GIB, size, GIB):
            fcntl.ioctl(fd, _FICLONERANGE, _RANGE.pack(fd, 0, min(GIB, size - place), place))
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.EXDEV):
            raise
        room = shutil.disk_usage(f"/proc/self/fd/{fd}").free
        if room < size:
            raise SystemExit(f"no reflinks here, and {size >> 30} GiB do not fit") from error
        return False
    return True


def make_many_files(directory: Path, count: int) -> None:
    for number in range(count):
        path = directory / f"d{number // 1000:05}/file-{number:08}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"%d\n" % number)


def capture_once(work: Path, number: int) -> None:
    """In a process of its own, whose peak is that of the engine."""
    from podferry_agent.snapshot import CaptureSpec, capture  # noqa: PLC0415
    from podferry_agent.snapshot.directorystore import DirectoryStore  # noqa: PLC0415

    class WithoutPacks(DirectoryStore):
        def put(self, name: str, body: bytes | memoryview, sha256: str) -> None:
            if not name.startswith("packs/"):
                super().put(name, body, sha256)

    spec = CaptureSpec(
        kind="volume",
        snapshot_id=f"s{number}",
        parent=f"s{number - 1}" if number else None,
        chunk_key=bytes(32),
        root=os.fsencode(work),
        state_dir=os.fsencode(work / "state"),
    )
    store = WithoutPacks(work / "store", spec.snapshot_id, is_checking=False)
    outcome = capture(spec, store, lambda _: None, threading.Event())
    (work / "summary.json").write_text(json.dumps(outcome.summary.as_dict()))


def _measured(work: Path, number: int, what: str) -> None:
    command = f"{sys.executable} -m bench.memory --work {work} --capture {number}"
    found = run(command, own_environment(), _LIMIT_SECONDS)
    if found["status"]:
        raise SystemExit(str(found["error"]))
    summary = json.loads((work / "summary.json").read_text())
    print(
        f"{what}: {summary['bytes'] / 1e9:.1f} GB in {summary['files']} files, "
        f"{summary['new_bytes'] / 1e9:.1f} GB new: {found['wall']:.1f} s, "
        f"processor {found['cpu']:.1f} s, peak {int(found['rss']) >> 20} MiB",
        flush=True,
    )


def make(args: argparse.Namespace) -> None:
    if args.files:
        make_many_files(args.work, args.files)
        return
    is_shared = make_large_file(args.work / "large.bin", args.gib * GIB)
    how = "shared by reflinks" if is_shared else "written in full"
    print(f"a file of {args.gib} GiB, {how}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--gib", type=int, default=100, help="size of the one large file")
    parser.add_argument("--files", type=int, default=0, help="this many small files instead")
    parser.add_argument("--work", type=Path, help="a directory on the filesystem to use")
    parser.add_argument("--capture", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        make(args)
        return
    if args.capture is not None:
        capture_once(args.work, args.capture)
        return
    with tempfile.TemporaryDirectory(prefix="bench-memory-", dir=args.work) as directory:
        work = Path(directory)
        tree = work / "workspace"
        tree.mkdir()
        # A process of its own: a child's peak begins with what its parent has.
        options = ["--work", str(tree), "--gib", str(args.gib), "--files", str(args.files)]
        subprocess.run([sys.executable, "-m", "bench.memory", "--make", *options], check=True)
        time.sleep(_UNTIL_TIMES_PROVE)
        _measured(work, 0, "first capture")
        _measured(work, 1, "nothing changed")
        if not args.files:
            with (tree / "large.bin").open("ab") as file:
                file.write(random.randbytes(MIB))
            _measured(work, 2, "1 MiB appended")


if __name__ == "__main__":
    main()
