"""What an environment needs of the machines that it is restored on, from the one it was made on."""

from dataclasses import dataclass, replace
from typing import Any

from podferry.domain.offer import Requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeOn:
    """A machine's system, as its agent reported it."""

    arch: str
    cuda: str | None = None
    """Newest CUDA that its driver takes; `None` without a GPU."""
    driver: str | None = None


def made_on(facts: dict[str, Any]) -> MadeOn | None:
    """From the facts of an agent's registration; `None` if it told no architecture."""
    arch = facts.get("arch")
    if not isinstance(arch, str):
        return None
    gpus = facts.get("gpus") or [{}]
    return MadeOn(arch=arch, cuda=facts.get("cuda_version"), driver=gpus[0].get("driver_version"))


def with_floor(wanted: Requirements, origin: MadeOn | None) -> Requirements:
    """The requirements together with what the environment itself asks for.

    Programs of an environment are built for a CUDA that the driver of its machine took. Drivers of
    the same CUDA major version take them, too (NVIDIA: "minor version compatibility", from CUDA 11
    on), so only the major version counts, and only where a GPU is asked for. A `min_cuda` of the
    user's own takes the place of this guess.
    """
    if origin is None:
        return wanted
    cuda = wanted.min_cuda
    if cuda is None and origin.cuda is not None and wanted.gpu_count > 0:
        cuda = f"{origin.cuda.partition('.')[0]}.0"
    return replace(wanted, arch=origin.arch, min_cuda=cuda)
