"""A box that stands for a virtual machine: it runs user data first, and has a `docker`.

What a container engine needs of a machine is there: a disk that is not an overlay, the image (the
one base, as everywhere), and tools in /usr/local/sbin. `docker` is `local.boxes.docker`, which
starts a real box inside this one. User data runs at the first boot only, as cloud-init does it, or
at each, as Google's guest agent does. A machine with a `Door` has an SSH server besides
(`local.boxes.sshd`), and a `sudo` and a `systemctl` for who comes in by it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from local.boxes.door import DOOR_FILE, Door
from local.boxes.spec import (
    DEFAULT_ENVIRONMENT,
    GPU,
    BoxSpec,
    BoxSpecError,
    Isolation,
    Mount,
)

IMAGE = "/var/lib/docker/image"
CONTAINERS = "/var/lib/docker/containers"
SSH_PORT_VARIABLE = "VM_SSH_PORT"
PID_FILE = "/run/sshd.pid"
GPU_FILE = "/var/lib/docker/gpu.json"

_USER_DATA = "/var/lib/cloud/instance/scripts/part-001"
_PER_BOOT = "/var/lib/cloud/scripts/per-boot"
_SHUTDOWN = "/run/shutdown"
_IS_UP = "/run/is-up"
_PACKAGES = "/opt/vm/packages"
_CACHE = "/opt/vm/cache"
_PYTHON = f"/usr/local/bin/python3 -X pycache_prefix={_CACHE} -S -P"
_SSH_SERVER = f"PYTHONPATH=/opt/vm:{_PACKAGES} exec {_PYTHON} -m local.boxes.sshd"
_SOURCES = Path(__file__).resolve().parents[1]
_TOOLS: Mapping[str, str] = {
    "docker": f'#!/bin/sh\nPYTHONPATH=/opt/vm exec {_PYTHON} -m local.boxes.docker "$@"\n',
    "shutdown": "#!/bin/sh\n# The machine ends when user data, which may call this, has ended.\n"
    f"touch {_SHUTDOWN}\n[ ! -e {_IS_UP} ] || kill -TERM 1\n",
    "sudo": '#!/bin/sh\n[ "$1" != -n ] || shift\nexec "$@"\n',
    "systemctl": f'#!/bin/sh\n[ "$*" != "stop ssh" ] || kill -TERM "$(cat {PID_FILE})"\n',
}
# The first process stands for systemd: it lives on after user data has ended, unless the machine
# was shut down from inside, and passes on the wish of the provider that it ends (SIGTERM).
_BOOT = f"""
rm -f {_SHUTDOWN} {_IS_UP}
[ ! -e {DOOR_FILE} ] || ({_SSH_SERVER}) &
mkdir -p {_PER_BOOT}
set --
if [ ! -e /var/lib/cloud/booted ] || [ -n "$AT_EACH_BOOT" ]; then
  touch /var/lib/cloud/booted
  chmod 700 {_USER_DATA}
  set -- {_USER_DATA}
else
  for script in {_PER_BOOT}/*; do [ -x "$script" ] && set -- "$script"; done
fi
trap 'is_ending=1; kill -TERM $child 2>/dev/null' TERM
if [ $# -gt 0 ]; then
  "$@" & child=$!
  while :; do wait $child; kill -0 $child 2>/dev/null || break; done
fi
[ -n "$is_ending" ] || [ -e {_SHUTDOWN} ] && exit 0
trap 'exit 0' TERM
touch {_IS_UP}
[ ! -e {_SHUTDOWN} ] || exit 0
sleep infinity & wait
"""


@dataclass(frozen=True, slots=True)
class VirtualMachine:
    """What a simulated provider was asked for."""

    user_data: str
    hostname: str
    gpu: GPU | None = None
    at_each_boot: bool = False
    """Whether user data runs at later boots too."""
    door: Door | None = None
    """Only of a machine that somebody logs in to."""


def vm_spec(directory: Path, base: Path, isolation: Isolation, vm: VirtualMachine) -> BoxSpec:
    """Describe the box of a virtual machine; its tools and its disk are made in `directory`."""
    # What is not a script is something else to cloud-init; such a machine only stands there.
    user_data = vm.user_data if vm.user_data.startswith("#!") else "#!/bin/true\n"
    at_each_boot = {"AT_EACH_BOOT": "1"} if vm.at_each_boot else {}
    # The pod takes the machine's own port over.
    ssh_port = {SSH_PORT_VARIABLE: str(vm.door.port)} if vm.door else {}
    return BoxSpec(
        directory,
        base,
        isolation,
        ("/bin/sh", "-c", _BOOT),
        environment={**DEFAULT_ENVIRONMENT, "HOSTNAME": vm.hostname, **at_each_boot, **ssh_port},
        hostname=vm.hostname,
        gpu=vm.gpu,
        provider_files={
            _USER_DATA: user_data,
            GPU_FILE: json.dumps(asdict(vm.gpu) if vm.gpu else None),
            **({DOOR_FILE: vm.door.to_json()} if vm.door else {}),
        },
        mounts=_mounts(directory, base) + (_ssh_packages() if vm.door else ()),
        can_nest=True,
    )


def in_container(argv: Sequence[str]) -> list[str]:
    """What to run in a virtual machine so that `argv` runs in its container."""
    script = 'exec docker exec "$(docker ps -q)" "$@"'
    return ["/bin/sh", "-c", script, "sh", *argv]


def _ssh_packages() -> tuple[Mount, ...]:
    """The packages of this interpreter, of which the machine's SSH server is made."""
    found = find_spec("asyncssh")
    if found is None or found.origin is None:
        raise BoxSpecError("asyncssh is not installed; run `make setup`")
    return (Mount(Path(found.origin).parents[1], _PACKAGES, is_read_only=True),)


def _mounts(directory: Path, base: Path) -> tuple[Mount, ...]:
    tools, disk = directory / "tools", directory / "disk"
    # One for all machines: a base has no compiled files, and compiling takes a second or two.
    cache = base.parent / "compiled"
    for path in (tools, disk, cache):
        path.mkdir(parents=True, exist_ok=True)
    for name, text in _TOOLS.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    return (
        Mount(tools, "/usr/local/sbin", is_read_only=True),
        Mount(base, IMAGE, is_read_only=True),
        Mount(disk, CONTAINERS),
        Mount(cache, _CACHE),
        Mount(_SOURCES, "/opt/vm/local", is_read_only=True),
    )
