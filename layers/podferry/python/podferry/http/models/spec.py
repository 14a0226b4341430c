"""How a pod runs and what it needs, as users write it and see it."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field

from podferry.domain.offer import Kind, Market, Requirements
from podferry.domain.pod import RunSpec
from podferry.http.models.fields import (
    Input,
    Integer,
    Output,
    Script,
    left_alone,
    unique,
)
from podferry.http.models.variables import PodVariables, SecretRef, shown

GPU_NAME = "^[A-Za-z0-9 ._()+/-]{1,64}$"
PROVIDER_NAME = "^[a-z0-9_-]{1,32}$"
CUDA = r"^[0-9]{1,2}\.[0-9]{1,2}$"
COUNTRY = "^[A-Z]{2}$"

Image = Annotated[
    str,
    Field(
        max_length=255,
        pattern=r"^[a-z0-9][A-Za-z0-9._/:@-]*$",
        description="A container image, for example `nvidia/cuda:12.4.1-base-ubuntu22.04`.",
    ),
]
Port = Annotated[Integer, Field(ge=1, le=65535)]
Ports = Annotated[
    tuple[Port, ...],
    Field(max_length=10, description="Ports that the provider opens; 22, for SSH, always is."),
    AfterValidator(unique),
]
ServingPort = Annotated[
    Port | None,
    Field(description="The pod counts as running when this port accepts connections."),
]
StartTimeout = Annotated[
    Integer, Field(ge=10, le=3600, description="How long the startup script may take.")
]
StopGrace = Annotated[
    Integer, Field(ge=0, le=600, description="Between SIGTERM and capture at a stop.")
]
CapacityWait = Annotated[
    Integer,
    Field(ge=0, le=86400, description="How long a start may wait for an offer; 0 fails at once."),
]
GpuNames = Annotated[
    tuple[Annotated[str, Field(pattern=GPU_NAME)], ...],
    Field(max_length=20, description="Any of these; empty takes any GPU."),
]
GpuCount = Annotated[Integer, Field(ge=1, le=16)]
ProviderNames = Annotated[
    tuple[Annotated[str, Field(pattern=PROVIDER_NAME)], ...], Field(max_length=20)
]
Countries = Annotated[
    tuple[Annotated[str, Field(pattern=COUNTRY)], ...],
    Field(max_length=50, description="ISO 3166 codes."),
]
Gib = Annotated[Integer, Field(ge=1, le=10_000)]
Vcpus = Annotated[Integer, Field(ge=1, le=1024)]
Price = Annotated[
    Integer,
    Field(ge=1, le=1_000_000_000, description="Micro-USD an hour: 250000 is $0.25."),
]
Markets = Annotated[
    tuple[Market, ...],
    Field(
        min_length=1,
        max_length=2,
        description="`spot` machines cost less and can be taken away at any time.",
    ),
    AfterValidator(unique),
]
Kinds = Annotated[
    tuple[Kind, ...],
    Field(max_length=3, description="Any of these; empty takes any kind."),
    AfterValidator(unique),
]
Reliability = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        strict=True,  # or `true` would be 1
        description="As the provider publishes it; those that do not are left out.",
    ),
]
Cuda = Annotated[
    str,
    Field(
        pattern=CUDA,
        description=(
            "CUDA version that the driver has to take. Without it a pod takes drivers of the CUDA "
            "major version, or a newer one, of the machine that its environment was made on."
        ),
    ),
]
CaptureRules = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f]+$")], ...],
    Field(max_length=100, description="What captures leave out or keep besides the defaults."),
]


class SpecBody(Input):
    """How the pod runs on a machine, whichever it is."""

    image: Image | None = Field(
        default=None, description="Needed unless the pod begins as a version."
    )
    startup_script: Script | None = None
    on_stop_script: Script | None = None
    environment: PodVariables = Field(default_factory=dict)
    ports: Ports = ()
    serving_port: ServingPort = None
    start_timeout_seconds: StartTimeout = 600
    stop_grace_seconds: StopGrace = 20
    capacity_wait_seconds: CapacityWait = 0

    def to_spec(self) -> RunSpec:
        fields = _with_secrets_apart(dict(self))
        return RunSpec(**{**fields, "image": self.image or ""})


class SpecPatch(Input):
    """Changes to how the pod runs; a map or list that is given replaces the whole old one."""

    image: Image = left_alone()
    startup_script: Script | None = left_alone()
    on_stop_script: Script | None = left_alone()
    environment: PodVariables = left_alone()
    ports: Ports = left_alone()
    serving_port: ServingPort = left_alone()
    start_timeout_seconds: StartTimeout = left_alone()
    stop_grace_seconds: StopGrace = left_alone()
    capacity_wait_seconds: CapacityWait = left_alone()

    def applied_to(self, spec: RunSpec) -> RunSpec:
        return replace(spec, **_with_secrets_apart(_given(self)))


class RequirementsBody(Input):
    """What the pod needs of a machine; what is left out may be anything."""

    gpu_names: GpuNames = ()
    gpu_count: GpuCount = 1
    min_vram_gib: Gib | None = None
    min_vcpus: Vcpus | None = None
    min_memory_gib: Gib | None = None
    disk_gib: Gib = 20
    providers: ProviderNames = ()
    countries: Countries = ()
    max_price_microusd_per_hour: Price | None = None
    markets: Markets = (Market.ON_DEMAND,)
    kinds: Kinds = ()
    min_reliability: Reliability | None = None
    min_cuda: Cuda | None = None

    def to_requirements(self) -> Requirements:
        return Requirements(**dict(self))


class RequirementsPatch(Input):
    """Changes to what the pod needs; `null` takes a limit away."""

    gpu_names: GpuNames = left_alone()
    gpu_count: GpuCount = left_alone()
    min_vram_gib: Gib | None = left_alone()
    min_vcpus: Vcpus | None = left_alone()
    min_memory_gib: Gib | None = left_alone()
    disk_gib: Gib = left_alone()
    providers: ProviderNames = left_alone()
    countries: Countries = left_alone()
    max_price_microusd_per_hour: Price | None = left_alone()
    markets: Markets = left_alone()
    kinds: Kinds = left_alone()
    min_reliability: Reliability | None = left_alone()
    min_cuda: Cuda | None = left_alone()

    def applied_to(self, requirements: Requirements) -> Requirements:
        return replace(requirements, **_given(self))


class SpecView(Output):
    """How the pod runs on a machine."""

    image: str
    startup_script: str | None
    on_stop_script: str | None
    environment: dict[str, str | SecretRef] = Field(
        description="Secrets by their names; their texts are never shown."
    )
    ports: tuple[int, ...]
    serving_port: int | None
    start_timeout_seconds: int
    stop_grace_seconds: int
    capacity_wait_seconds: int

    @classmethod
    def of(cls, spec: RunSpec) -> "SpecView":
        fields = {name: getattr(spec, name) for name in cls.model_fields}
        return cls(**{**fields, "environment": shown(spec.environment, spec.secrets)})


class RequirementsView(Output):
    """What the pod needs of a machine."""

    gpu_names: tuple[str, ...]
    gpu_count: int
    min_vram_gib: int | None
    min_vcpus: int | None
    min_memory_gib: int | None
    disk_gib: int
    providers: tuple[str, ...]
    countries: tuple[str, ...]
    max_price_microusd_per_hour: int | None
    markets: tuple[Market, ...]
    kinds: tuple[Kind, ...]
    min_reliability: float | None
    min_cuda: str | None

    @classmethod
    def of(cls, requirements: Requirements) -> "RequirementsView":
        return cls(**{name: getattr(requirements, name) for name in cls.model_fields})


def _with_secrets_apart(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `RunSpec`, which has variables that are secrets apart from plain ones."""
    variables = fields.get("environment")
    if variables is None:
        return fields
    secrets = {name: v.secret for name, v in variables.items() if isinstance(v, SecretRef)}
    plain = {name: v for name, v in variables.items() if name not in secrets}
    return {**fields, "environment": plain, "secrets": secrets}


def _given(patch: BaseModel) -> dict[str, Any]:
    return {name: getattr(patch, name) for name in patch.model_fields_set}
