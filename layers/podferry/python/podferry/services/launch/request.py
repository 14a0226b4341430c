"""What a machine is rented with, and what is brought to one that is rented bare."""

from dataclasses import dataclass

from podferry.domain.account import SshKey
from podferry.domain.boot_key import BootKey
from podferry.domain.host_key import SSH_PORT
from podferry.domain.machine import Machine
from podferry.domain.pod import Pod
from podferry.ports.gpu_cloud import LaunchRequest
from podferry.ports.objects import AgentBundle
from podferry.services.launch.base import ResolveBase
from podferry.services.records import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """What a machine needs to find its way to us."""

    api_url: str
    script: str
    """The POSIX shell script that fetches the agent and becomes it."""
    bundle: AgentBundle


@dataclass(frozen=True, slots=True)
class LaunchRequests:
    """Builds them from the rows."""

    records: Records
    bases: ResolveBase
    boot: Boot

    def of(self, pod: Pod, machine: Machine, token: str, key: BootKey | None) -> LaunchRequest:
        """Of a pod whose base is settled.

        `key` is the one that opens the machine while it boots, where there is one.
        """
        return LaunchRequest(
            stamp=machine.stamp,
            offer=machine.offer,
            image=pod.spec.image if pod.base is None else pod.base.pinned,
            bootstrap=self.boot.script,
            environment={
                "PF_API": self.boot.api_url,
                "PF_TOKEN": token,
                "PF_MACHINE": machine.id,
                "PF_BUNDLE_URL": self.boot.bundle.url(),
                "PF_BUNDLE_SHA256": self.boot.bundle.sha256(),
            },
            ports=ports_of(pod),
            ssh_public_key=self._users_key(pod) if key is None else key.public_key,
            disk_gib=pod.requirements.disk_gib,
        )

    def _users_key(self, pod: Pod) -> str | None:
        keys = self.records.store.list_owned(SshKey, pod.account_id, limit=1).items
        return keys[0].public_key if keys else None


def ports_of(pod: Pod) -> tuple[int, ...]:
    """The ports of the pod that have to be reached from outside."""
    return (SSH_PORT, *(port for port in pod.spec.ports if port != SSH_PORT))
