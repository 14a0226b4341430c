"""What the agent is told by its environment (PF_*), read once at start."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from podferry_agent.errors import SettingsError

# Never handed to the user's programs: secrets, and settings that are only ours.
PRIVATE_VARIABLES = frozenset(
    {
        "PF_TOKEN",
        "PF_BUNDLE_URL",
        "PF_BUNDLE_SHA256",
        "PF_CA",
        "PF_API",
        "PF_STATE_DIR",
        "PF_METADATA_URL",
        "PF_SSH_LISTEN",
    },
)

_METADATA_URL = "http://169.254.169.254"


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the control plane is, who we are, and where things lie on this box.

    `root` is "/" on a real machine. In a directory box (no isolation at all) it is a directory
    that stands for one, and the agent touches only what lies below it.
    """

    api_url: str
    machine_id: str
    boot_token: str | None
    root: Path
    state_dir: Path
    ca_pem: str | None
    retry_seconds: float
    retry_max_seconds: float
    log_limit_bytes: int
    idle_window_seconds: float
    """Over which time the use of the box is measured."""
    metadata_url: str | None
    """Where a cloud's metadata service would be. `None`: not looked for, as in a directory box."""
    ssh_listen: tuple[str, int] | None = None
    """Where else than on every address and the agreed port, where boxes share a network."""


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Raises: SettingsError with the name of the variable and how to set it."""
    root = Path(environment.get("PF_ROOT") or "/")
    if not root.is_absolute() or not root.is_dir():
        raise SettingsError(f"PF_ROOT={root} is not an absolute path of a directory")
    return Settings(
        api_url=_api_url(environment),
        machine_id=_required(environment, "PF_MACHINE", "the machine's id (mach_...)"),
        boot_token=environment.get("PF_TOKEN") or None,
        root=root,
        state_dir=Path(environment.get("PF_STATE_DIR") or root / ".podferry" / "state"),
        ca_pem=environment.get("PF_CA") or None,
        retry_seconds=_number(environment, "PF_RETRY_SECONDS", 1.0),
        retry_max_seconds=_number(environment, "PF_RETRY_MAX_SECONDS", 30.0),
        log_limit_bytes=int(_number(environment, "PF_LOG_LIMIT_BYTES", 8 * 1024 * 1024)),
        idle_window_seconds=_number(environment, "PF_IDLE_WINDOW_SECONDS", 300.0),
        metadata_url=environment.get("PF_METADATA_URL") or _metadata_url(root),
        ssh_listen=_address(environment, "PF_SSH_LISTEN"),
    )


def _metadata_url(root: Path) -> str | None:
    return _METADATA_URL if root == Path("/") else None


def _api_url(environment: Mapping[str, str]) -> str:
    url = _required(environment, "PF_API", "the base URL of the control plane").rstrip("/")
    if not url.startswith(("https://", "http://")):
        raise SettingsError("PF_API must start with https:// (or http:// on a loopback address)")
    return url


def _required(environment: Mapping[str, str], name: str, meaning: str) -> str:
    value = environment.get(name, "").strip()
    if not value:
        raise SettingsError(f"{name} is not set; it must hold {meaning}")
    return value


def _address(environment: Mapping[str, str], name: str) -> tuple[str, int] | None:
    text = environment.get(name, "")
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"{name}={text!r} must be HOST:PORT")
    return host, int(port)


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError as error:
        raise SettingsError(f"{name}={text!r} is not a number") from error
    if value <= 0:
        raise SettingsError(f"{name}={text!r} must be greater than 0")
    return value
