"""The files that a GPU driver puts into a container, without a GPU.

NVIDIA's container toolkit binds driver libraries, `nvidia-smi` and device files from the host into
each container, read-only, and adds a symlink in the container's own layer. Captures must leave all
of them alone, so local boxes carry the same set.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from local.boxes.spec import GPU

_SCRIPT = """#!/bin/sh
# Stands for NVIDIA's tool: answers the queries that a pod's agent asks.
name='{model}'; memory={memory_mib}; driver='{driver_version}'; cuda='{cuda_version}'
uuids='{uuids}'
fail() {{ echo "nvidia-smi: $1" >&2; exit 2; }}
unit() {{ case $options in *nounits*) echo "$1";; *) echo "$1 $2";; esac; }}
value() {{
  case $1 in
    name|gpu_name) echo "$name";;
    index) echo "$index";;
    count) echo {count};;
    uuid|gpu_uuid) echo "$uuid";;
    driver_version) echo "$driver";;
    memory.total) unit "$memory" MiB;;
    memory.used) unit 0 MiB;;
    memory.free) unit "$memory" MiB;;
    utilization.gpu) unit 0 %;;
    utilization.memory) unit 0 %;;
    temperature.gpu) echo 35;;
    *) fail "Field \\"$1\\" is not a valid field to query.";;
  esac
}}
row() {{
  line=''
  for field in $fields; do
    item=$(value "$field") || exit 2
    line="$line${{line:+, }}$item"
  done
  echo "$line"
}}
query() {{
  case $options in csv*) ;; *) fail '"--format=" must include csv, for example csv,noheader';; esac
  case $options in *noheader*) ;; *) echo "$fields" | sed 's/ /, /g';; esac
  index=0
  for uuid in $uuids; do row || exit 2; index=$((index + 1)); done
}}
fields=''; options=''; listing=''
for argument in "$@"; do
  case $argument in
    --query-gpu=*) fields=$(echo "${{argument#*=}}" | tr ',' ' ');;
    --format=*) options=${{argument#*=}};;
    -L|--list-gpus) listing=1;;
    *) fail "Unrecognized option: $argument";;
  esac
done
if [ -n "$fields" ]; then query; exit; fi
if [ -n "$listing" ]; then
  index=0
  for uuid in $uuids; do echo "GPU $index: $name (UUID: $uuid)"; index=$((index + 1)); done
  exit 0
fi
echo "NVIDIA-SMI $driver    Driver Version: $driver    CUDA Version: $cuda"
"""


@dataclass(frozen=True, slots=True)
class DriverFile:
    """One file of the machine that appears in the box as a mount of its own."""

    source: Path
    target: str
    is_read_only: bool = True


@dataclass(frozen=True, slots=True)
class Driver:
    """The mounts of a fake driver, and the symlinks it leaves in the box's layer."""

    files: tuple[DriverFile, ...]
    links: tuple[tuple[str, str], ...]
    """(path in the box, what it points to)."""


def write_driver(gpu: GPU, directory: Path, library_directory: str) -> Driver:
    """Write the machine's side of the driver into `directory`."""
    version = gpu.driver_version
    contents = {
        f"{library_directory}/libcuda.so.1": f"simulated libcuda {version}\n",
        f"{library_directory}/libnvidia-ml.so.{version}": f"simulated libnvidia-ml {version}\n",
        "/usr/bin/nvidia-smi": _tool(gpu, directory),
        "/dev/nvidiactl": "",
    }
    contents |= {f"/dev/nvidia{index}": "" for index in range(gpu.count)}
    files = []
    for target, text in contents.items():
        source = directory / Path(target).name
        source.write_text(text)
        source.chmod(0o755 if target.endswith("nvidia-smi") else 0o644)
        files.append(DriverFile(source, target, is_read_only=not target.startswith("/dev/")))
    link = (f"{library_directory}/libnvidia-ml.so.1", f"libnvidia-ml.so.{version}")
    return Driver(tuple(files), (link,))


def _tool(gpu: GPU, directory: Path) -> str:
    return _SCRIPT.format(
        model=gpu.model.replace("'", ""),
        memory_mib=gpu.memory_mib,
        driver_version=gpu.driver_version,
        cuda_version=gpu.cuda_version,
        count=gpu.count,
        uuids=" ".join(_uuid(directory, index) for index in range(gpu.count)),
    )


def _uuid(directory: Path, index: int) -> str:
    """A GPU keeps its id for as long as its machine exists."""
    digest = hashlib.sha256(f"{directory}{index}".encode()).hexdigest()
    parts = (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])
    return "GPU-" + "-".join(parts)
