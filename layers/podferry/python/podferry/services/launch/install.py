"""Bring our bootstrap onto a machine that its provider only opens for SSH.

The way has three parts: log in and keep the host key, upload, start. Each run does the next one, or
finds that it cannot be done yet; the workflow waits between runs. How far it came stands in
`Machine.install`, written after each part, before the start also ahead of it.

Nothing of it can make two agents. The machine itself starts the bootstrap once, whoever asks how
often, and there is one boot token, of which the first agent to register makes use.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from podferry.domain.boot_key import BootKey
from podferry.domain.errors import (
    BootFailedError,
    HostChangedError,
    LoginRefusedError,
    MachineError,
    UnreachableError,
)
from podferry.domain.machine import FINAL_STATES, Install, Machine
from podferry.domain.operation import Operation
from podferry.ports.installer import Access, Installer
from podferry.ports.store import Change, Create, Update
from podferry.services.boot_keys import boot_token
from podferry.services.clouds import Clouds
from podferry.services.launch.boot_watch import BootWatch
from podferry.services.launch.request import LaunchRequests
from podferry.services.operations import Operations
from podferry.services.records import Records

NEXT_PART_SECONDS = 1
REFUSAL_PATIENCE = timedelta(minutes=5)
"""Images let keys in some seconds after their SSH server is up. After this long it is no delay."""
_DONE = {"is_installed": True}


@dataclass(frozen=True, slots=True)
class InstallAgent:
    """One part of the way in each run."""

    records: Records
    operations: Operations
    clouds: Clouds
    watch: BootWatch
    requests: LaunchRequests
    installer: Installer

    def run(self, operation_id: str) -> dict[str, Any]:
        """`{"is_installed": true}`, or false with the seconds to wait before the next run.

        Raises:
            BootFailedError: it does not let us in, is another machine than before, what was
                started has ended, the deadline is over, or its provider says it will not come.
            PriceRaisedError: the contract costs more than the pod's cap.
            OperationCancelledError: no longer wanted.
        """
        operation = self.operations.load(operation_id)
        self.operations.check_wanted(operation)
        machine = self.records.store.get(Machine, operation.machine_id or "")
        if _is_over(machine):
            return _DONE
        cloud = self.clouds.of(machine)
        machine = self.watch.look(operation, machine, cloud)
        wait = self.watch.wait_seconds(machine)
        if machine.login is not None:
            was = machine.install
            self._go_on(operation, machine)
            machine = self.records.store.get(Machine, machine.id)
            if _is_over(machine):
                return _DONE
            is_further = _parts(machine.install) > _parts(was)
            wait = NEXT_PART_SECONDS if is_further else wait
        self.watch.check_deadline(machine, cloud)
        return {"is_installed": False, "wait_seconds": wait}

    def _go_on(self, operation: Operation, machine: Machine) -> None:
        install = machine.install or Install()
        try:
            self._next_part(operation, machine, install)
        except UnreachableError as error:
            self._note(machine.id, word=error.detail)
        except LoginRefusedError as error:
            since = install.refused_since or self.records.now()
            self._note(machine.id, word=error.detail, refused_since=since)
            if self.records.now() - since > REFUSAL_PATIENCE:
                raise _failed(machine, error) from error
        except HostChangedError as error:
            if install.start_asked_at is None:
                raise _failed(machine, error) from error
            # The pod's own SSH server has the port by now: the agent is there and will report.
            self._note(machine.id, word=error.detail)

    def _next_part(self, operation: Operation, machine: Machine, install: Install) -> None:
        key = self.records.store.find(BootKey, machine.id)
        if key is None or machine.login is None:
            return  # Its agent has registered meanwhile, or it is given back.
        access = Access(login=machine.login, private_key=key.private_key, host_key=install.host_key)
        if install.host_key is None:
            self._keep_host_key(operation, machine.id, self.installer.greet(access))
        elif install.uploaded_at is None:
            token = boot_token(machine.id, key.token_secret())
            pod = self.operations.pod_of(operation)
            self.installer.upload(access, self.requests.of(pod, machine, token, key))
            self._note(machine.id, uploaded_at=self.records.now())
        else:
            asked = install.start_asked_at or self.records.now()
            self._note(machine.id, start_asked_at=asked)
            self.installer.start(access)
            self._note(machine.id, started_at=self.records.now())

    def _keep_host_key(self, operation: Operation, machine_id: str, host_key: str) -> None:
        """The first one counts; a run at the same time that saw another one is told by its use."""

        def plan() -> Sequence[Change]:
            machine = self._unspent(machine_id)
            if machine.install is not None and machine.install.host_key is not None:
                return []
            pod = self.operations.pod_of(operation)
            event = self.records.pod_event(
                pod, "machine.reached", operation, machine_id=machine.id, host_key=host_key
            )
            return [*self._with(machine, host_key=host_key, progress=True), event]

        self.records.apply(plan)

    def _note(self, machine_id: str, **fields: Any) -> None:
        """Write down how far it came, or what stood in the way."""
        progress = "word" not in fields

        def plan() -> Sequence[Change]:
            return self._with(self._unspent(machine_id), progress=progress, **fields)

        self.records.apply(plan)

    def _with(self, machine: Machine, *, progress: bool, **fields: Any) -> list[Update | Create]:
        """A part that is done ends what stood in the way, and is a sign of life."""
        install = machine.install or Install()
        over = {"word": None, "refused_since": None} if progress else {}
        changed = replace(install, **{**over, **fields})
        if changed == install:
            return []
        at = self.records.now() if progress else machine.progress_at
        return [Update(replace(machine, install=changed, progress_at=at))]

    def _unspent(self, machine_id: str) -> Machine:
        """The machine, unless nothing may be brought to it any more.

        Raises:
            BootFailedError: it is being given back.
        """
        machine = self.records.store.get(Machine, machine_id)
        if machine.clearance is not None or machine.state in FINAL_STATES:
            raise BootFailedError(f"machine {machine.id} is being given back")
        return machine


def _is_over(machine: Machine) -> bool:
    """Started, or seen to run: the agent registers once only."""
    is_started = machine.install is not None and machine.install.started_at is not None
    return is_started or machine.registered_at is not None


def _parts(install: Install | None) -> int:
    if install is None:
        return 0
    return sum(part is not None for part in (install.host_key, install.uploaded_at))


def _failed(machine: Machine, error: MachineError) -> BootFailedError:
    return BootFailedError(f"machine {machine.id}: {error.detail}")
