"""All instances of one simulated provider, and the boxes that are their machines.

Each living instance has one thread that walks it through its phases; requests only change phases
and kill boxes. What is on disk is enough to go on after the simulator was killed: boxes of running
instances are then started again on their old disks, as after a reboot of the host.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from local.boxes.base import ImageNotFoundError, check_image
from local.boxes.box import Box, BoxStartError, CommandResult
from local.boxes.door import Door
from local.boxes.network import SSH_PORT, free_port, ssh_listen
from local.boxes.spec import DEFAULT_ENVIRONMENT, BoxSpec, Isolation
from local.boxes.vm import VirtualMachine, in_container, vm_spec
from local.providers.clock import Clock
from local.providers.faults import Faults
from local.providers.forward import Forwarder
from local.providers.instance import Instance, Phase
from local.providers.store import Store

_POLL_SECONDS = 0.02
_PROVISIONING_SHARE = 0.4
_JOIN_SECONDS = 15.0
_SOMEBODY_ELSES_KEY = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
)


class NoSuchInstanceError(LookupError):
    """No instance has this id."""


class WrongPhaseError(Exception):
    """The instance is not in a phase in which this can be done."""


@dataclass(frozen=True, slots=True)
class BoxHost:
    """Where and how boxes are made on this machine."""

    base: Path
    isolation: Isolation
    directory: Path


class Provider(Protocol):
    """What differs between providers when a container starts."""

    @property
    def name(self) -> str: ...

    def container_environment(self, instance: Instance) -> dict[str, str]:
        """Variables that the provider adds to those of the customer."""
        ...

    def container_files(self, instance: Instance) -> dict[str, str]:
        """Files that the provider puts into the container."""
        ...


class Fleet:
    """Adds, walks and ends instances. Methods may be called from any thread."""

    def __init__(
        self, store: Store, host: BoxHost, clock: Clock, faults: Faults, boot_seconds: float
    ) -> None:
        self._store = store
        self._host = host
        self._clock = clock
        self._faults = faults
        self._boot_seconds = boot_seconds
        self._provider: Provider | None = None
        self._forwarder = Forwarder()
        self._state = threading.RLock()
        self._closing = threading.Event()
        self._boxes: dict[str, Box] = {}
        self._box_locks: dict[str, threading.Lock] = {}
        self._threads: list[threading.Thread] = []

    def open(self, provider: Provider) -> None:
        """Take up the instances of the last run."""
        self._provider = provider
        living = {each.id for each in self.all() if each.phase is not Phase.GONE}
        for directory in self._host.directory.glob("*"):
            if directory.name not in living:
                self._make_box(directory.name, ("/bin/true",)).destroy()
        for instance_id in living:
            self._start_life(instance_id)

    def close(self) -> None:
        """End every box and thread; instances stay as they are on disk."""
        self._closing.set()
        for box in list(self._boxes.values()):
            box.kill()
        for thread in list(self._threads):
            thread.join(_JOIN_SECONDS)
        self._forwarder.close()
        self._store.close()

    def all(self) -> list[Instance]:
        """Copies of all instances, gone ones too, oldest first."""
        with self._state:
            return copy.deepcopy(list(self._store.instances.values()))

    def get(self, instance_id: str) -> Instance:
        """A copy of one instance.

        Raises:
            NoSuchInstanceError: no instance has this id.
        """
        with self._state:
            if instance_id not in self._store.instances:
                raise NoSuchInstanceError(instance_id)
            return copy.deepcopy(self._store.instances[instance_id])

    def add(self, instance: Instance) -> None:
        """Remember a new instance and start to boot it, or only remember a stopped one."""
        with self._state:
            instance.history = [(self._clock.now(), instance.phase)]
            self._store.instances[instance.id] = instance
            self._store.save()
        self._start_life(instance.id)

    def change(self, instance_id: str, change: Callable[[Instance], None]) -> None:
        with self._state:
            change(self._store.instances[instance_id])
            self._store.save()

    def end(
        self, instance_id: str, phase: Phase, *, at: float | None = None, wipe: bool = False
    ) -> None:
        """Kill the box, if there is one, and leave the instance in `phase`.

        The disk is deleted when the instance is gone, or if `wipe` says so; ending one that is
        gone does nothing.
        """
        with self._box_lock(instance_id):
            if self.get(instance_id).phase is Phase.GONE or self._closing.is_set():
                return
            self._enter(instance_id, phase, at=at)
            box = self._boxes.get(instance_id)
            if box is not None:
                box.kill()
                self._retire(instance_id, box)
            if wipe or phase is Phase.GONE:
                self._make_box(instance_id, ("/bin/true",)).destroy()

    def resume(self, instance_id: str) -> None:
        """Start a stopped instance again on its old disk.

        Raises:
            WrongPhaseError: it is not stopped.
        """
        startable = (Phase.STOPPED, Phase.OFFLINE, Phase.EXITED)
        with self._state:
            phase = self.get(instance_id).phase
            if phase not in startable:
                raise WrongPhaseError(f"{instance_id} is {phase.value}; it cannot be resumed")
            self._enter(instance_id, Phase.PULLING)
        self._start_life(instance_id)

    def box(self, instance_id: str) -> Box:
        """The box of a running instance.

        Raises:
            WrongPhaseError: it has none.
        """
        box = self._boxes.get(instance_id)
        if box is None or not box.is_alive:
            raise WrongPhaseError(f"{instance_id} has no running box")
        return box

    def run(self, instance_id: str, argv: Sequence[str], timeout: float) -> CommandResult:
        """Run a command in the pod's container, which on a virtual machine is not its box.

        Raises:
            WrongPhaseError, BoxError: see `box` and `Box.run`.
        """
        is_machine = self.get(instance_id).user_data is not None
        inside = in_container(argv) if is_machine else argv
        return self.box(instance_id).run(inside, timeout)

    def find_box(self, instance_id: str) -> Box | None:
        return self._boxes.get(instance_id)

    def log_text(self, instance_id: str) -> str:
        """What the container wrote to its standard output and error."""
        path = self._host.directory / instance_id / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def save(self) -> None:
        with self._state:
            self._store.save()

    def _enter(self, instance_id: str, phase: Phase, *, at: float | None = None) -> None:
        with self._state:
            instance = self._store.instances[instance_id]
            instance.phase = phase
            instance.history.append((self._clock.now() if at is None else at, phase))
            self._store.save()

    def _box_lock(self, instance_id: str) -> threading.Lock:
        with self._state:
            return self._box_locks.setdefault(instance_id, threading.Lock())

    def _start_life(self, instance_id: str) -> None:
        thread = threading.Thread(target=self._live, args=(instance_id,), daemon=True)
        with self._state:
            self._threads = [each for each in self._threads if each.is_alive()]
            self._threads.append(thread)
        thread.start()

    def _live(self, instance_id: str) -> None:
        steps = {
            Phase.PROVISIONING: self._provision,
            Phase.PULLING: self._pull,
            Phase.RUNNING: self._run,
        }
        goes_on = True
        while goes_on and not self._closing.is_set():
            step = steps.get(self.get(instance_id).phase)
            goes_on = step is not None and step(instance_id)

    def _provision(self, instance_id: str) -> bool:
        extra = self._faults.number("slow_boot_seconds")
        seconds = self._boot_seconds * _PROVISIONING_SHARE + extra
        if not self._wait(instance_id, seconds, stuck_value=True):
            return False
        with self._box_lock(instance_id):
            if self.get(instance_id).phase is not Phase.PROVISIONING:
                return False
            fails = self._faults.take("boot_fails")
            self._enter(instance_id, Phase.FAILED if fails else Phase.PULLING)
        return not fails

    def _pull(self, instance_id: str) -> bool:
        seconds = self._boot_seconds * (1 - _PROVISIONING_SHARE)
        if not self._wait(instance_id, seconds, stuck_value="pulling"):
            return False
        instance = self.get(instance_id)
        try:
            check_image(instance.image)
        except ImageNotFoundError as error:
            self._fail_start(instance_id, f"Error response from daemon: {error}")
            return False
        return self._start_box(instance_id, Phase.PULLING)

    def _run(self, instance_id: str) -> bool:
        box = self._boxes.get(instance_id)
        if box is None:
            # The simulator was restarted: the host comes up again.
            if not self._start_box(instance_id, Phase.RUNNING):
                return False
            box = self._boxes[instance_id]
        box.wait()
        with self._box_lock(instance_id):
            # Somebody else may have ended this box, and even started the next one.
            if not self._closing.is_set() and self._retire(instance_id, box):
                self._enter(instance_id, Phase.EXITED)
        return False

    def _retire(self, instance_id: str, box: Box) -> bool:
        """Let go of a box that has ended, once."""
        if self._boxes.get(instance_id) is not box:
            return False
        del self._boxes[instance_id]
        for outside in self.get(instance_id).external_ports.values():
            self._forwarder.close_port(outside)
        return True

    def _wait(self, instance_id: str, seconds: float, *, stuck_value: object) -> bool:
        """Let boot time pass; false if the instance left its phase meanwhile."""
        phase = self.get(instance_id).phase
        waiting = threading.Event()
        timer = threading.Timer(seconds, waiting.set)
        timer.daemon = True
        timer.start()
        while not waiting.is_set() or self._faults.value("boot_never") == stuck_value:
            if self._closing.wait(_POLL_SECONDS) or self.get(instance_id).phase is not phase:
                timer.cancel()
                return False
        return self.get(instance_id).phase is phase

    def _start_box(self, instance_id: str, only_in: Phase) -> bool:
        with self._box_lock(instance_id):
            instance = self.get(instance_id)
            if instance.phase is not only_in or self._closing.is_set():
                return False
            self._open_ports(instance)
            box = self._make_machine(instance)
            try:
                box.start()
            except BoxStartError as error:
                self._fail_start(
                    instance_id, f"Error response from daemon: OCI runtime create failed: {error}"
                )
                return False
            self._boxes[instance_id] = box
            if self._closing.is_set():
                # It was started while all boxes were being ended.
                box.kill()
            if only_in is not Phase.RUNNING:
                self._enter(instance_id, Phase.RUNNING)
            return True

    def _fail_start(self, instance_id: str, message: str) -> None:
        def note(instance: Instance) -> None:
            instance.message, instance.start_failed = message, True

        self.change(instance_id, note)

    def _open_ports(self, instance: Instance) -> None:
        """Give each port its public number; a restart keeps the number if it is still free."""
        for port in instance.ports:
            number, _, protocol = port.partition("/")
            wanted = instance.external_ports.get(port, 0)
            inside = int(number)
            if inside == SSH_PORT:
                inside = instance.ssh_inside = free_port()
            if protocol == "udp":
                instance.external_ports[port] = int(number)
            else:
                instance.external_ports[port] = self._forwarder.open(inside, wanted)

        def note(stored: Instance) -> None:
            stored.external_ports = dict(instance.external_ports)

        self.change(instance.id, note)

    def _make_box(
        self, instance_id: str, argv: tuple[str, ...], instance: Instance | None = None
    ) -> Box:
        settings: dict[str, Any] = {}
        if instance is not None and self._provider is not None:
            hostname = self._hostname(instance_id)
            settings = {
                "environment": {
                    **DEFAULT_ENVIRONMENT,
                    **ssh_listen(instance.ssh_inside),
                    "HOSTNAME": hostname,
                    **self._provider.container_environment(instance),
                    **instance.environment,
                },
                "hostname": hostname,
                "gpu": instance.gpu,
                "provider_files": self._provider.container_files(instance),
            }
        return Box(BoxSpec(*self._place(instance_id), argv, **settings))

    def _make_machine(self, instance: Instance) -> Box:
        """The box of a container, or of a virtual machine."""
        if instance.user_data is None:
            return self._make_box(instance.id, tuple(instance.argv), instance)
        machine = VirtualMachine(
            instance.user_data,
            self._hostname(instance.id),
            instance.gpu,
            at_each_boot=instance.runs_user_data_at_each_boot,
            door=self._door(instance),
        )
        return Box(vm_spec(*self._place(instance.id), machine))

    def _door(self, instance: Instance) -> Door | None:
        """As it is found at this start of the machine."""
        if instance.door is None:
            return None
        wrong_key = self._faults.take("ssh_wrong_key")
        return replace(
            instance.door,
            port=instance.ssh_inside,
            public_key=_SOMEBODY_ELSES_KEY if wrong_key else instance.door.public_key,
            late_seconds=self._faults.number("ssh_late_seconds"),
            drops=self._faults.take("ssh_drops"),
            dies=self._faults.take("ssh_dies"),
            changes_key=self._faults.take("ssh_changes_key"),
        )

    def _hostname(self, instance_id: str) -> str:
        name = self._provider.name if self._provider is not None else "box"
        return f"{name}-{instance_id[:8]}"

    def _place(self, instance_id: str) -> tuple[Path, Path, Isolation]:
        return self._host.directory / instance_id, self._host.base, self._host.isolation
