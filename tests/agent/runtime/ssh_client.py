"""The system's own ssh, scp, sftp and rsync, as a user would call them."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


def make_key(folder: Path, name: str = "id") -> Path:
    """A new key pair; returns the private file, the public one is beside it."""
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def public_line(key: Path) -> str:
    return key.with_name(f"{key.name}.pub").read_text().strip()


@dataclass(frozen=True)
class SshClient:
    """One user with one key; `known_hosts` pins the server."""

    port: int
    key: Path
    known_hosts: Path
    user: str = "root"

    def options(self) -> list[str]:
        pairs = {
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": self.known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
            "ConnectTimeout": "20",
        }
        return ["-F", "none", "-i", str(self.key), *(f"-o{k}={v}" for k, v in pairs.items())]

    def argv(self, *arguments: str) -> list[str]:
        return ["ssh", *self.options(), "-p", str(self.port), *arguments]

    def run(
        self, command: str, *extra: str, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        argv = self.argv(*extra, f"{self.user}@127.0.0.1", command)
        return subprocess.run(argv, input=stdin, capture_output=True, check=False, timeout=60)

    def ok(self, command: str, *extra: str, stdin: bytes = b"") -> str:
        """The output of a command that must succeed."""
        done = self.run(command, *extra, stdin=stdin)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def can_log_in(self) -> bool:
        return self.run("true").returncode == 0

    def scp(self, source: str, target: str, *extra: str) -> subprocess.CompletedProcess[bytes]:
        argv = ["scp", "-q", *self.options(), "-P", str(self.port), *extra, source, target]
        return subprocess.run(argv, capture_output=True, check=False, timeout=120)

    def sftp(self, batch: str) -> subprocess.CompletedProcess[bytes]:
        argv = ["sftp", "-q", *self.options(), "-P", str(self.port), "-b", "-", self._target]
        return subprocess.run(
            argv, input=batch.encode(), capture_output=True, check=False, timeout=60
        )

    def rsync(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        shell = " ".join(["ssh", *self.options(), "-p", str(self.port)])
        argv = ["rsync", "-e", shell, *arguments]
        return subprocess.run(argv, capture_output=True, check=False, timeout=60)

    def open(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A session that stays; the caller ends it."""
        pipe = subprocess.PIPE
        environment = {**os.environ, "SSH_AUTH_SOCK": ""}
        argv = self.argv(*arguments[:-1], self._target, *arguments[-1:])
        return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)

    @property
    def _target(self) -> str:
        return f"{self.user}@127.0.0.1"


def pin(known_hosts: Path, port: int, private_key: str) -> None:
    """Write what a user copies from the pod's view: the public part of the key."""
    file = known_hosts.with_suffix(".key")
    file.write_text(private_key)
    file.chmod(0o600)
    done = subprocess.run(["ssh-keygen", "-y", "-f", file], capture_output=True, check=True)
    file.unlink()
    known_hosts.write_text(f"[127.0.0.1]:{port} {done.stdout.decode()}")
