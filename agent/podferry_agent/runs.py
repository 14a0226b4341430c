"""The `run` command: makes the pod usable, and says so only when it is."""

import time
from dataclasses import dataclass

from podferry_agent.box import Box
from podferry_agent.commands import CommandContext
from podferry_agent.errors import CommandError
from podferry_agent.probe import probe_command, probe_gpu
from podferry_agent.redaction import LONGEST_SECRET, redact
from podferry_agent.secrets import PodSecrets
from podferry_agent.ssh.service import SshService
from podferry_agent.ssh_keys import write_authorized_keys
from podferry_agent.wire import RunArgs
from podferry_agent.workload import Workload, WorkloadSpec, WorkloadStatus

_LOG_TAIL_BYTES = 1500


@dataclass(frozen=True, slots=True)
class Run:
    """The handler of `run`: secrets, keys, SSH server, GPU check, startup script, probes."""

    box: Box
    secrets: PodSecrets
    workload: Workload
    ssh: SshService

    def handle(self, context: CommandContext) -> dict[str, object]:
        args = RunArgs.parse(context.command.fields())
        self.secrets.renew(context.cancelled)
        write_authorized_keys(self.box.root, args.ssh_authorized_keys)
        if args.ssh_port is not None:
            # Before the startup script: whoever wants to see why it hangs can log in.
            self.ssh.start(args.ssh_port, args.environment)
        if args.require_gpu:
            probe_gpu(self.box)
        status = self._start(args, context)
        probe_command(self.box)
        if args.ssh_port is not None:
            self.ssh.probe()
        return {
            "exit_code": status.exit_code,
            "serving": status.state == "serving",
            "probe_ok": True,
            "gpu_ok": True if args.require_gpu else None,
            "ssh_ok": None if args.ssh_port is None else True,
        }

    def _start(self, args: RunArgs, context: CommandContext) -> WorkloadStatus:
        if args.startup_script is None:
            self.workload.clear()
            return WorkloadStatus("none")
        spec = WorkloadSpec(args.startup_script, args.environment, args.port)
        try:
            self.workload.start(spec)
        except OSError as error:
            detail = f"the startup script cannot be started: {error}"
            raise CommandError("startup_failed", detail) from error
        deadline = time.monotonic() + args.timeout_seconds
        status = self.workload.wait_ready(deadline, context.cancelled)
        if status is None:
            self.workload.end(grace_seconds=5.0)
            context.raise_if_cancelled()
            raise CommandError("startup_timeout", self._timeout_detail(args))
        if status.state == "exited" and status.exit_code != 0:
            detail = f"the startup script ended with {status.exit_code}; {self._log_tail()}"
            raise CommandError("startup_failed", detail)
        return status

    def _timeout_detail(self, args: RunArgs) -> str:
        waited = f"after {args.timeout_seconds} s nothing accepts connections on port {args.port}"
        return f"{waited}; {self._log_tail()}"

    def _log_tail(self) -> str:
        # Cut after secrets were taken out: half of one would not be known as such.
        tail = self.workload.log.tail(_LOG_TAIL_BYTES + LONGEST_SECRET).decode(errors="replace")
        text = redact(tail)[-_LOG_TAIL_BYTES:].strip()
        return f"its last output: {text}" if text else "it wrote nothing"
