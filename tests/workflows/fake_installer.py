"""Logs in to the machines of this world, with switches for what goes wrong over SSH."""

import itertools
from collections import Counter
from typing import TYPE_CHECKING

from podferry.domain.errors import (
    BootFailedError,
    HostChangedError,
    LoginRefusedError,
    UnreachableError,
)
from podferry.ports.gpu_cloud import LaunchRequest
from podferry.ports.installer import Access, KeyPair

if TYPE_CHECKING:
    from box import Box
    from world import World


class FakeInstaller:
    """An `Installer` whose machines are the world's boxes that were rented bare."""

    def __init__(self, world: "World") -> None:
        self.unreachable = 0
        """How many calls from now on nobody answers."""
        self.refuses = False
        """No machine takes a key."""
        self.changes_key: set[str] = set()
        """Before these calls the machine is exchanged for another one."""
        self.loses_answer: Counter[str] = Counter()
        """How many of these calls have their effect, and break off."""
        self.calls: list[str] = []
        self.starts: Counter[str] = Counter()
        """By machine, how often its bootstrap was really started."""
        self._world = world
        self._pairs = itertools.count(1)

    def make_key(self) -> KeyPair:
        number = next(self._pairs)
        return KeyPair(f"private-{number}", f"ssh-ed25519 public-{number}")

    def greet(self, access: Access) -> str:
        box = self._visit("greet", access)
        self._answered("greet")
        return box.host_key

    def upload(self, access: Access, request: LaunchRequest) -> None:
        box = self._visit("upload", access)
        if not self.starts[box.provider_id]:
            box.uploaded = request
        self._answered("upload")

    def start(self, access: Access) -> None:
        box = self._visit("start", access)
        if box.uploaded is None:
            raise BootFailedError("nothing was uploaded")
        if not self.starts[box.provider_id]:
            self.starts[box.provider_id] += 1
            box.request = box.uploaded
            box.next_beat = self._world.seconds + 2.0
            # The pod's own server has the port from now on.
            box.host_key = "ssh-ed25519 the-pods-own"
        self._answered("start")

    def _visit(self, call: str, access: Access) -> "Box":
        self.calls.append(call)
        found = [box for box in self._world.boxes() if box.provider_id == access.login.host]
        if self.unreachable or not found or found[0].is_dead:
            self.unreachable = max(self.unreachable - 1, 0)
            raise UnreachableError("nobody answers")
        box = found[0]
        if call in self.changes_key:
            box.host_key = "ssh-ed25519 somebody-else"
        if access.host_key not in {None, box.host_key}:
            raise HostChangedError("another host key than before")
        opens = access.private_key.replace("private", "public")
        if self.refuses or box.request.ssh_public_key != f"ssh-ed25519 {opens}":
            raise LoginRefusedError("it does not take our key")
        return box

    def _answered(self, call: str) -> None:
        if self.loses_answer[call]:
            self.loses_answer[call] -= 1
            raise UnreachableError("the connection broke")
