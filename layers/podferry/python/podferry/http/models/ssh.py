"""How to log in to a pod, as users see it."""

from pydantic import Field

from podferry.domain.host_key import SSH_PORT, SSH_USER, HostKey
from podferry.domain.machine import Machine
from podferry.http.models.fields import Output


class SshView(Output):
    """Where and as whom to log in, and the key by which to know the pod."""

    host: str | None = Field(description="`null` while the provider shows no address.")
    port: int | None
    user: str
    host_key: str = Field(description="The public part. It stays the same when the pod moves.")
    host_key_fingerprint: str = Field(description="As `ssh-keygen -lf` prints it.")
    known_hosts: str = Field(
        description=(
            "A line for a `known_hosts` file. It also names the pod's id: with "
            "`-o HostKeyAlias=<pod id>` the line of one machine is good for the next."
        )
    )

    @classmethod
    def of(cls, key: HostKey | None, machine: Machine | None) -> "SshView | None":
        """`None` before the first machine of the pod made its key."""
        if key is None:
            return None
        ports = () if machine is None else machine.ports
        address = next(((p.host, p.external) for p in ports if p.internal == SSH_PORT), None)
        host, port = address or (None, None)
        names = key.id if address is None else f"[{host}]:{port},{key.id}"
        return cls(
            host=host,
            port=port,
            user=SSH_USER,
            host_key=key.public_key,
            host_key_fingerprint=key.fingerprint,
            known_hosts=f"{names} {key.public_key}",
        )
