"""The server of an agent that died. Usually it has ended with it; a paused one cannot.

A quiesced box is paused, its server too: it does not notice that its agent is gone, and keeps the
port. So it is on disk who it is, and the next agent ends it, with its sessions.
"""

import logging
import signal
import time

from podferry_agent.fields import Fields
from podferry_agent.processes import find_process, is_alive, kill_group, list_processes, send_signal
from podferry_agent.state import StateStore

_LOG = logging.getLogger(__name__)
_RECORD = "ssh-process"
_END_SECONDS = 5.0


def note_process(store: StateStore, pid: int) -> None:
    found = find_process(pid)
    started = found.started if found is not None else 0
    store.save_if_possible(_RECORD, {"pid": pid, "started": started})


def end_leftover(store: StateStore) -> None:
    """Raises: SettingsError, WireError if what is stored cannot be read."""
    document = store.load(_RECORD)
    if document is None:
        return
    fields = Fields(document, "stored SSH process")
    pid, started = fields.integer("pid"), fields.integer("started")
    if not is_alive(pid, started):
        return
    _LOG.warning("ssh_server_left_over", extra={"pid": pid})
    for child in [p for p in list_processes() if p.parent == pid]:
        kill_group(child.pid)
    send_signal(pid, signal.SIGKILL)
    deadline = time.monotonic() + _END_SECONDS
    while is_alive(pid, started) and time.monotonic() < deadline:
        time.sleep(0.02)
