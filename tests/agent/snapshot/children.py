"""Runs a part of a test in a child process that has given something up: a root, a user, a right."""

import ctypes
import os
import struct
import traceback
from collections.abc import Callable

from podferry_agent.snapshot import ObjectNotFoundError

CAP_LINUX_IMMUTABLE = 9
OTHER_USER = 4242
_CAPABILITIES_V3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


class MemoryStore:
    """Objects in memory: a chroot has no other directory."""

    def __init__(self, objects: dict[tuple[str, str], bytes], snapshot_id: str) -> None:
        self.objects = objects
        self._snapshot_id = snapshot_id

    def put(self, name: str, body: bytes | memoryview, sha256: str) -> None:
        assert len(sha256) == 64
        self.objects[self._snapshot_id, name] = bytes(body)

    def get(self, snapshot_id: str, name: str, start: int = 0, length: int | None = None) -> bytes:
        try:
            body = self.objects[snapshot_id, name]
        except KeyError as error:
            raise ObjectNotFoundError(name) from error
        return body[start:] if length is None else body[start : start + length]


def in_child(action: Callable[[], str]) -> str:
    """What the action says in a child of this process; its failure is the test's."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = "ok " + action()
        except BaseException:  # noqa: BLE001
            answer = traceback.format_exc()
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    assert answer.startswith("ok "), answer
    return answer[3:]


def give_up_capability(number: int) -> None:
    """As in a container whose engine drops it; only in a child, there is no way back."""
    header = struct.pack("=Ii", _CAPABILITIES_V3, 0)
    data = ctypes.create_string_buffer(24)
    if _libc.capget(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    words = list(struct.unpack("=6I", data.raw))
    at = 3 * (number // 32)
    words[at : at + 3] = [word & ~(1 << number % 32) for word in words[at : at + 3]]
    if _libc.capset(header, struct.pack("=6I", *words)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def become_another_user() -> None:
    os.setgroups([])
    os.setgid(OTHER_USER)
    os.setuid(OTHER_USER)
