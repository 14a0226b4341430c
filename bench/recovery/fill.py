"""Runs in a pod: fills its volume with so many MB, and prints in how many files.

Half of it is noise, a quarter text, and a quarter small files of both.
"""

import random
import sys
from pathlib import Path

MB = 1_000_000
LARGE, SMALL = 64 * MB, 40_000
PLACE = Path("/workspace/data")


def noise(size: int) -> bytes:
    return random.randbytes(size)


def text(size: int) -> bytes:
    lines: list[str] = []
    made = 0
    while made < size:
        line = f"step={len(lines)} loss={random.random():.6f} rate={random.randint(9000, 12000)}\n"
        lines.append(line)
        made += len(line)
    return "".join(lines).encode()[:size]


def put(name: str, body: bytes) -> int:
    path = PLACE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    return len(body)


def fill(size: int) -> int:
    some_text = text(8 * MB)
    written, count = 0, 0
    while written < size // 2:
        written += put(f"noise/{count:05}", noise(min(LARGE, size // 2 - written)))
        count += 1
    while written < size * 3 // 4:
        # Each file begins elsewhere in the text and bears its own number, so that none is another.
        start = random.randrange(len(some_text))
        body = (b"%d\n" % count + some_text[start:] + some_text[:start]) * (LARGE // len(some_text))
        written += put(f"text/{count:05}", body[: size * 3 // 4 - written])
        count += 1
    while written < size:
        start = random.randrange(len(some_text) - SMALL)
        body = noise(SMALL // 2) + some_text[start : start + SMALL // 2]
        written += put(f"small/{count // 1000:03}/{count:06}", body)
        count += 1
    return count


if __name__ == "__main__":
    random.seed(1)
    print(fill(int(sys.argv[1]) * MB))
