"""Runs in the pod: the work of a user, with every kind of file that tends to get lost."""

import os
import random
import sqlite3
import stat
import sys
from pathlib import Path

MIB = 1024 * 1024
WORKSPACE = Path("/workspace")
CHECKPOINTS = 3
CHECKPOINT_MIB = 64
NOTES: list[str] = []


def attempt(what: str, *call: object) -> None:
    """Some kinds of files need rights that this machine may not give; that is said, not hidden."""
    function, *arguments = call
    try:
        function(*arguments)  # type: ignore[operator]
    except OSError as error:
        NOTES.append(f"{what} ({error.strerror})")


def checkpoints() -> None:
    folder = WORKSPACE / "checkpoints"
    folder.mkdir(parents=True)
    for number in range(CHECKPOINTS):
        with (folder / f"step{number:04}.bin").open("wb") as file:
            for _ in range(CHECKPOINT_MIB):
                file.write(random.randbytes(MIB))
    with (folder / "sparse.bin").open("wb") as file:
        file.truncate(256 * MIB)
        file.seek(100 * MIB)
        file.write(b"data in the middle of a hole")


def database() -> None:
    with sqlite3.connect(WORKSPACE / "runs.sqlite") as connection:
        connection.execute("create table runs (id integer primary key, loss real)")
        rows = [(number, 1 / (number + 1)) for number in range(20_000)]
        connection.executemany("insert into runs values (?, ?)", rows)


def odd_files(folder: Path) -> None:
    folder.mkdir(parents=True)
    plain = folder / "plain"
    plain.write_text("text\n")
    (folder / "link").symlink_to("plain")
    (folder / "dangling").symlink_to("/nowhere/at/all")
    (folder / "loop").symlink_to("loop")
    (folder / "other").mkdir()
    os.link(plain, folder / "other" / "hard")
    base = os.fsencode(folder)
    for name in (b"new\nline", b"not-utf8-\xff\xfe", b"-dash", b"back\\slash", b"q'\"", b"n" * 255):
        Path(os.fsdecode(base + b"/" + name)).write_bytes(name)
    for mode in (0o000, 0o400, 0o755, 0o4755, 0o2755, 0o1777):
        path = folder / f"mode-{mode:o}"
        path.write_text(str(mode))
        path.chmod(mode)
    (folder / "empty-dir").mkdir(mode=0o500)
    owned = folder / "owned"
    owned.write_text("someone else's")
    attempt("a file of another owner", os.chown, owned, 1234, 2345)
    attempt("an extended attribute", os.setxattr, plain, "user.note", b"\x00binary")
    attempt("a FIFO", os.mkfifo, folder / "fifo")
    attempt("a device file", os.mknod, folder / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.utime(owned, ns=(-86_400_000_000_123, -86_400_000_000_123))
    deep = folder
    for _ in range(30):
        deep /= "deeper"
    deep.mkdir(parents=True)
    (deep / "bottom").write_text("here")


def environment() -> None:
    """Changes outside /workspace: new, changed and deleted files of the base."""
    odd_files(Path("/opt/odd"))
    Path("/etc/motd").write_text("this pod has moved before\n")
    Path("/etc/profile.d").mkdir(exist_ok=True)
    Path("/etc/profile.d/pod.sh").write_text("export FROM_THE_POD=1\n")
    for victim in ("/usr/bin/od", "/bin/od"):
        Path(victim).unlink(missing_ok=True)


def main() -> int:
    random.seed(7)
    checkpoints()
    database()
    odd_files(WORKSPACE / "odd")
    environment()
    for note in dict.fromkeys(NOTES):
        print(f"left out, because boxes on this machine cannot make it: {note}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
