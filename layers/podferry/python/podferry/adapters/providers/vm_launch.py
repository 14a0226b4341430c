"""What a virtual machine runs at its first boot: the pod's container, and nothing else.

On a VM the pod lives in a container, so that a capture can be restored on any provider and the
VM's own root stays the machine's. The script is what EC2 and Lambda Cloud call user data and Google
calls a startup script; where a provider takes none, an `Installer` brings it over SSH, also to a
machine that is not virtual. It runs as root, with the VM's Docker and NVIDIA's container toolkit,
and must hold for every image that has both.

The VM ends with its container: when the agent ends, the machine shuts down. An agent that was
refused or replaced thus costs nothing more, wherever a VM that shuts down is given up.
"""

import re
import shlex

from podferry.domain.errors import ProviderRefusedError
from podferry.ports.gpu_cloud import LaunchRequest

SMALLEST_LIMIT = 16 * 1024
"""EC2's limit, before base64 (EC2 user guide, "instance user data")."""
MAX_BOOTSTRAP = 128 * 1024 - 1
"""What Linux lets one argument of a program have (execve(2), "Limits on size of arguments")."""
_NO_LIMIT = 2**31
CONTAINER = "podferry"
SSH_PORT = 22

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# These would change what the docker command itself does.
_NOT_OURS = re.compile(r"PATH|HOME|LD_.*|DOCKER_.*")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,1023}")

# Notes on the script, which is kept short because EC2 takes 16 KiB:
# - cloud-init runs it at the first boot only. The copy makes a VM that was rebooted go on with its
#   container; Google runs it at each boot by itself, and from elsewhere.
# - A script of ours says nothing unless something is wrong: its output is the VM's console.
# - An upgrade would restart the daemon, and with it the pod. The pod may want port 22, and nobody
#   has a key for the VM's own server. Stopped units are back after a reboot, before this runs.
# - Values reach docker by its environment: no command line shows them, and unlike those of an
#   env-file they may have several lines.
# - Docker's 64 MB of shared memory are too little for data loaders; a tenth of the memory less
#   than all of it keeps the VM's own services alive when a pod takes too much.
# - The daemon gives a container as long to end at shutdown as --stop-timeout says, which is
#   nearly all of EC2's two minutes for the last save.
_SCRIPT = r"""#!/bin/sh
C={container}
E(){{ echo "podferry-vm: $1" >&2; shutdown -h now; exit 1; }}
# Tries a command every 2 s, at most so many times.
W(){{ n=$1; shift; until o=$("$@" 2>&1); do n=$((n-1)); [ $n -gt 0 ] || return 1; sleep 2; done; }}
case $0 in /var/lib/cloud/instance*) cp -p "$0" /var/lib/cloud/scripts/per-boot/$C ;; esac
command -v docker >/dev/null || E "no docker here; launch an image with Docker and NVIDIA's toolkit"
W 90 docker version || E "docker does not answer: $o"
for u in {units}; do systemctl stop $u; done >/dev/null 2>&1
gpus=
if [ -e /dev/nvidiactl ] || grep -qs 0x10de /sys/bus/pci/devices/*/vendor; then
  # Some images build the driver at the first boot.
  W 150 nvidia-smi -L || E "the GPU's driver does not work: $o"
  gpus='--gpus all'
fi
if ! docker inspect $C >/dev/null 2>&1; then
  W 5 docker pull -q {image} || E "cannot pull the image: $o"
  kb=$(awk '/^MemTotal/{{print $2}}' /proc/meminfo)
  set -- run --name $C --network host --restart no --user 0 $gpus \
    --memory $((kb / 10 * 9))k --shm-size $((kb / 2))k --ulimit memlock=-1 --ulimit stack=67108864 \
    --log-opt max-size=16m --log-opt max-file=2 --stop-timeout 110 \
    {names} --entrypoint /bin/sh {image} -c {bootstrap}
else
  set -- start -a $C
fi
({exports}; exec docker "$@") &
p=$!
trap 'kill -TERM $p 2>/dev/null' TERM INT
while :; do wait $p; r=$?; kill -0 $p 2>/dev/null || break; done
[ $r = 0 ] || echo "podferry-vm: the container ended with $r" >&2
shutdown -h now
"""
_UPGRADES = ("apt-daily.timer", "apt-daily-upgrade.timer", "unattended-upgrades")
_SSH_SERVER = ("ssh.socket", "ssh", "sshd")


def start_script(request: LaunchRequest) -> str:
    """The script where nothing but Linux limits its size: it is brought over SSH.

    Raises:
        ProviderRefusedError: see `user_data`.
    """
    return user_data(request, max_bytes=_NO_LIMIT)


def user_data(request: LaunchRequest, max_bytes: int = SMALLEST_LIMIT) -> str:
    """The script for a launch: `request`'s container, started by the VM itself.

    A port of the pod is the same port of the VM, because the container has the VM's network.
    `request.ssh_public_key` is not used: the agent fetches the account's keys.

    Raises:
        ProviderRefusedError: the request cannot be a script of at most `max_bytes`.
    """
    _check(request)
    exports = (f"{name}={shlex.quote(value)}" for name, value in request.environment.items())
    text = _SCRIPT.format(
        container=CONTAINER,
        units=" ".join((*_UPGRADES, *(_SSH_SERVER if SSH_PORT in request.ports else ()))),
        image=shlex.quote(request.image),
        exports=" ".join(("export", *exports)) if request.environment else ":",
        names=" ".join(f"-e {name}" for name in request.environment),
        bootstrap=shlex.quote(request.bootstrap),
    )
    size = len(text.encode())
    if size > max_bytes:
        raise ProviderRefusedError(
            f"{request.offer.provider} cannot launch this: the start script of the VM has {size} "
            f"bytes, at most {max_bytes}; shorten the bootstrap or the environment"
        )
    return text


def _check(request: LaunchRequest) -> None:
    names = request.environment
    bad_names = sorted(n for n in names if not _NAME.fullmatch(n) or _NOT_OURS.fullmatch(n))
    problems = []
    if bad_names:
        problems.append(
            f"environment names must be words of a shell that Docker does not use, not {bad_names}"
        )
    if not _IMAGE.fullmatch(request.image):
        problems.append(f"{request.image!r} is not the name of an image")
    if (size := len(request.bootstrap.encode())) > MAX_BOOTSTRAP:
        problems.append(f"the bootstrap has {size} bytes, at most {MAX_BOOTSTRAP}")
    if any("\0" in text for text in (request.bootstrap, *request.environment.values())):
        problems.append("a value has a zero byte")
    if problems:
        raise ProviderRefusedError(
            f"{request.offer.provider} cannot launch this: {'; '.join(problems)}"
        )
