"""What a machine needs to let its pod's user in: the pod's host key and the account's keys."""

from collections.abc import Sequence
from dataclasses import dataclass

from podferry.domain.host_key import HostKey, public_part
from podferry.domain.principal import Principal
from podferry.ports.store import Change, Check, Create
from podferry.services.agent.membership import current_place
from podferry.services.launch.restore import public_keys
from podferry.services.records import Records
from podferry.services.ssh_keys import PublicKey


@dataclass(frozen=True, slots=True)
class KeepHostKey:
    """A pod has one host key for its whole life: the first that one of its machines offered.

    Only the pod's present machine gets it. It lies in a row of its own, goes over the machine's own
    channel, and no message, event or log has it.
    """

    records: Records

    def keep(self, principal: Principal, offered: str | None) -> str | None:
        """The pod's private host key; `None` if it has none and none is offered.

        Of two that are offered at once, one is kept, and both machines are given that one.

        Raises:
            EpochStaleError: the machine is not the pod's any more.
            InvalidRequestError: what is offered is not an Ed25519 key.
        """
        if offered is None:
            pod = current_place(self.records, principal)[1]
            present = self.records.store.find(HostKey, pod.id)
            return None if present is None else present.private_key
        self.records.apply(lambda: self._plan(principal, offered))
        pod = current_place(self.records, principal)[1]
        return self.records.store.get(HostKey, pod.id).private_key

    def _plan(self, principal: Principal, offered: str) -> Sequence[Change]:
        machine, pod = current_place(self.records, principal)
        if self.records.store.find(HostKey, pod.id) is not None:
            return []
        key = PublicKey("ssh-ed25519", public_part(offered), "")
        row = HostKey(
            id=pod.id,
            account_id=pod.account_id,
            created_at=self.records.now(),
            private_key=offered,
            public_key=key.line(),
            fingerprint=key.fingerprint,
        )
        event = self.records.pod_event(
            pod, "pod.host_key_made", None, machine_id=machine.id, fingerprint=key.fingerprint
        )
        return [Create(row), Check(machine), event]


@dataclass(frozen=True, slots=True)
class ListLogins:
    """The public keys that open a pod at this moment."""

    records: Records

    def list(self, principal: Principal) -> list[str]:
        """Lines of an `authorized_keys` file, oldest first.

        Raises:
            EpochStaleError: the machine is not the pod's any more.
        """
        pod = current_place(self.records, principal)[1]
        return public_keys(self.records, pod)
