"""Keys that open machines while they boot: made with a launch, gone with its end."""

from podferry.domain.boot_key import BootKey
from podferry.domain.machine import Machine
from podferry.domain.offer import Channel
from podferry.ports.store import Delete
from podferry.services.identify import BOOT_PREFIX
from podferry.services.records import Records


def boot_token(machine_id: str, secret: str) -> str:
    """The one-time token that a machine is booted with."""
    return f"{BOOT_PREFIX}{machine_id}_{secret}"


def spent(records: Records, machine: Machine) -> list[Delete]:
    """The end of the machine's boot key, to be written with what makes it needless."""
    if machine.offer.channel is not Channel.SSH:
        return []
    key = records.store.find(BootKey, machine.id)
    return [] if key is None else [Delete(key)]
