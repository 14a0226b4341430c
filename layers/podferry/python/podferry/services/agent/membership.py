"""Whether a machine is still its pod's machine."""

from podferry.domain.errors import EpochStaleError
from podferry.domain.machine import FINAL_STATES, Machine
from podferry.domain.pod import Pod
from podferry.domain.principal import Principal
from podferry.services.records import Records


def current_machine(records: Records, principal: Principal) -> Machine:
    """The machine behind the token, if it is the one that its pod runs (or starts) on.

    Raises:
        EpochStaleError: see `current_place`.
    """
    return current_place(records, principal)[0]


def current_place(records: Records, principal: Principal) -> tuple[Machine, Pod]:
    """The machine behind the token and its pod, if the pod runs (or starts) on it.

    Raises:
        EpochStaleError: it was given up or replaced; it must end itself and save nothing.
    """
    machine = records.store.get(Machine, principal.machine_id or "")
    pod = records.store.get(Pod, machine.pod_id)
    is_current = pod.machine_id == machine.id and machine.state not in FINAL_STATES
    if not is_current or machine.give_up_at is not None:
        raise EpochStaleError(f"machine {machine.id} is no longer the machine of pod {pod.id}")
    return machine, pod
