"""A pod's secrets, for the machine that is about to start its programs (promise 11)."""

from dataclasses import dataclass

from podferry.domain.principal import Principal
from podferry.domain.secret import Secret, secret_id
from podferry.ports.key_vault import SecretVault
from podferry.services.agent.membership import current_place
from podferry.services.records import Records
from podferry.services.secrets import ref_of


@dataclass(frozen=True, slots=True)
class GivenSecrets:
    """Texts by the names of the variables that they go into."""

    variables: dict[str, str]
    missing: tuple[str, ...]
    """Secrets that the environment names and the account does not have (any more)."""


@dataclass(frozen=True, slots=True)
class GiveSecrets:
    """Only the pod's present machine gets them, and only those that the environment names."""

    records: Records
    vault: SecretVault

    def give(self, principal: Principal) -> GivenSecrets:
        """The present texts; the pod's events tell that this machine has them.

        Raises:
            EpochStaleError: the machine is not the pod's any more.
        """
        machine, pod = current_place(self.records, principal)
        names = set(pod.spec.secrets.values())
        rows = {n: self.records.store.find(Secret, secret_id(pod.account_id, n)) for n in names}
        texts = {n: self.vault.text(ref_of(row)) for n, row in rows.items() if row is not None}
        given = {v: texts[n] for v, n in pod.spec.secrets.items() if n in texts}
        if given:
            self.records.store.commit(
                self.records.background_event(
                    pod, "pod.secrets_given", machine_id=machine.id, secrets=sorted(texts)
                )
            )
        return GivenSecrets(given, tuple(sorted(names - texts.keys())))
