"""Proves that the pod is usable: a command runs in the box, and a needed GPU answers."""

import os
import subprocess

from podferry_agent.box import Box
from podferry_agent.errors import CommandError
from podferry_agent.gpus import run_nvidia_smi


def probe_command(box: Box) -> None:
    """Raises: CommandError if a shell of the box cannot run."""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", "echo ok"],
            cwd=box.working_directory(),
            env=box.environment({}),
            capture_output=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError("probe_failed", f"/bin/sh cannot run in the box: {error}") from error
    if done.returncode != 0 or done.stdout.strip() != b"ok":
        stderr = done.stderr.decode(errors="replace")[:500]
        detail = f"/bin/sh -c 'echo ok' ended with {done.returncode}: {stderr}"
        raise CommandError("probe_failed", detail)


def probe_gpu(box: Box) -> None:
    """Raises: CommandError unless nvidia-smi lists a GPU and its device can be opened."""
    listed = run_nvidia_smi(box, ["-L"])
    if not listed or "GPU 0" not in listed:
        raise CommandError(
            "gpu_unusable",
            "nvidia-smi lists no GPU in this box; give this machine up and rent another",
            retryable=True,
        )
    device = box.inside("/dev/nvidia0")
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError as error:
        raise CommandError(
            "gpu_unusable", f"/dev/nvidia0 cannot be opened: {error.strerror}", retryable=True
        ) from error
