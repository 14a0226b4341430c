"""Programs that write to a volume while it is captured, and the checks of what each must leave.

`python -m tests.agent.snapshot.writers KIND PATH` writes until its standard input ends.
"""

import hashlib
import mmap
import os
import random
import select
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

PAGE = 4096
PAGES = 48
ACCOUNTS, BALANCE = 40, 100
REPOSITORY = Path(__file__).parents[3]
_WORD = struct.Struct("<Q")


@contextmanager
def writing(kind: str, path: Path) -> Iterator[int]:
    """The pid of a process that writes to `path`; it has begun, and has ended afterwards."""
    with running([sys.executable, "-m", __name__, kind, path]) as pid:
        yield pid


@contextmanager
def holding(path: Path, mode: str, content: bytes = b"") -> Iterator[int]:
    """The pid of a process that has opened `path`, has written something to it and waits."""
    program = (
        "import sys; file = open(sys.argv[1], sys.argv[2]);"
        "file.write(bytes.fromhex(sys.argv[3])); file.flush();"
        "sys.stdout.write('begun\\n'); sys.stdout.flush(); sys.stdin.read()"
    )
    with running_python(program, path, mode, content.hex()) as pid:
        yield pid


@contextmanager
def running_python(program: str, *arguments: str | Path) -> Iterator[int]:
    with running([sys.executable, "-c", program, *arguments]) as pid:
        yield pid


@contextmanager
def running(command: Sequence[str | Path]) -> Iterator[int]:
    """The pid of a program that says `begun`; it is killed in the end."""
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"begun\n"
            yield process.pid
        finally:
            process.kill()


def checkpoints(path: Path) -> Iterator[None]:
    """Written beside and renamed, as a good trainer does it."""
    for step in count():
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(sealed(random.randbytes(random.choice((900_000, 5_000_000))), step))
        temporary.replace(path)
        time.sleep(0.01)
        yield


def sealed(payload: bytes, step: int) -> bytes:
    body = _WORD.pack(step) + payload
    return body + hashlib.sha256(body).digest()


def check_checkpoint(content: bytes) -> None:
    assert hashlib.sha256(content[:-32]).digest() == content[-32:]


def log(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, b"".join(b"%09d\n" % number for number in range(200_000)))
    for number in count(200_000):
        os.write(fd, b"%09d\n" % number)
        if number % 50 == 0:
            time.sleep(0.001)
            yield


def check_log(content: bytes) -> None:
    whole = len(content) // 10
    assert content[: 10 * whole] == b"".join(b"%09d\n" % number for number in range(whole))
    assert len(content) == 10 * whole  # every line is one write


def bank_wal(path: Path) -> Iterator[None]:
    yield from _bank(path, "wal")


def bank_rollback(path: Path) -> Iterator[None]:
    yield from _bank(path, "delete")


def _bank(path: Path, mode: str) -> Iterator[None]:
    """Money moves between accounts; the sum stays."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.execute(f"pragma journal_mode={mode}")
    connection.execute("pragma synchronous=off")
    connection.execute("create table account (id integer primary key, balance, filler)")
    rows = [(number, BALANCE, bytes(3000)) for number in range(ACCOUNTS)]
    connection.executemany("insert into account values (?, ?, ?)", rows)
    while True:
        connection.execute("begin immediate")
        for _ in range(8):
            giver, taker = random.sample(range(ACCOUNTS), 2)
            change = "update account set balance = balance + ?, filler = ? where id = ?"
            connection.execute(change, (-7, random.randbytes(3000), giver))
            connection.execute(change, (7, random.randbytes(3000), taker))
        connection.execute("commit")
        yield


def check_bank(path: Path) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    found = connection.execute("select count(*), sum(balance) from account").fetchall()
    assert found == [(ACCOUNTS, ACCOUNTS * BALANCE)]
    connection.close()


def mapped(path: Path) -> Iterator[None]:
    """Pages are written in order, again and again, by stores that no time of the file shows."""
    path.write_bytes(bytes(PAGE * PAGES))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        for number in count(1):
            page = _WORD.pack(number) * (PAGE // 8)
            for place in range(PAGES):
                memory[PAGE * place : PAGE * (place + 1)] = page
            yield


def check_mapped(content: bytes) -> None:
    """At any moment some first pages are one round ahead, and at most one page is mixed."""
    words = [number for (number,) in _WORD.iter_unpack(content)]
    assert words == sorted(words, reverse=True)
    assert words[0] - words[-1] <= 1


def churn(path: Path) -> Iterator[None]:
    """Files that grow, shrink, come and go; each is one byte repeated, written at once."""
    path.mkdir(exist_ok=True)
    for number in count():
        file = path / f"{random.randrange(20)}"
        if number % 3 == 0:
            file.unlink(missing_ok=True)
            continue
        byte = random.randrange(256)
        size = 100 + 4000 * (byte % 9)
        fd = os.open(file, os.O_WRONLY | os.O_CREAT)
        os.ftruncate(fd, 0)
        os.pwrite(fd, bytes([byte]) * size, 0)
        os.close(fd)
        if number % 20 == 0:
            time.sleep(0.001)
            yield


def check_churn(content: bytes) -> None:
    """Of one writing, or the beginning of it: the kernel makes a file longer page by page."""
    assert content == content[:1] * len(content)
    assert not content or len(content) <= 100 + 4000 * (content[0] % 9)


KINDS: dict[str, Callable[[Path], Iterator[None]]] = {
    "checkpoints": checkpoints,
    "log": log,
    "bank_wal": bank_wal,
    "bank_rollback": bank_rollback,
    "mapped": mapped,
    "churn": churn,
}


def main(kind: str, path: str) -> None:
    os.nice(15)  # a capture of a live volume is nice itself, and has to come to something
    steps = KINDS[kind](Path(path))
    next(steps)
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], 0)[0]:
        next(steps)


if __name__ == "__main__":
    main(*sys.argv[1:])
