"""The messages between agent and control plane, in both directions.

`tests/wire/messages` holds an example of each; the control plane's models parse the same files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from podferry_agent.errors import WireError
from podferry_agent.fields import Fields

CHUNK_KEY_BYTES = 32
OBJECTS_PER_REQUEST = 100
OUTPUT_CHUNK_BYTES = 64 * 1024
LISTED_PATHS = 100

SNAPSHOT_KINDS = ("environment", "volume")
CAPTURE_MODES = ("stop", "live")


@dataclass(frozen=True, slots=True)
class Registration:
    machine_id: str
    epoch: int
    pod_id: str
    heartbeat_seconds: float

    @classmethod
    def parse(cls, body: object) -> "Registration":
        fields = Fields(body, "register reply")
        return cls(
            fields.text("machine_id"),
            fields.integer("epoch"),
            fields.text("pod_id"),
            fields.number("heartbeat_seconds"),
        )


@dataclass(frozen=True, slots=True)
class Command:
    """One thing the control plane wants done; the same id is one thing, however often it comes."""

    id: str
    kind: str
    args: Mapping[str, object]
    timeout_seconds: int

    @classmethod
    def parse(cls, fields: Fields) -> "Command":
        return cls(
            fields.text("id"),
            fields.text("kind"),
            fields.mapping("args"),
            fields.integer("timeout_seconds"),
        )

    def fields(self) -> Fields:
        return Fields(dict(self.args), f"{self.kind}.args")


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    heartbeat_seconds: float
    commands: tuple[Command, ...]
    forget: tuple[str, ...]
    save_interval_seconds: int | None
    idle_signals: tuple[str, ...] | None
    """What to watch; `None` while the pod is not to be stopped when it is idle."""

    @classmethod
    def parse(cls, body: object) -> "HeartbeatReply":
        fields = Fields(body, "heartbeat reply")
        return cls(
            fields.number("heartbeat_seconds"),
            tuple(Command.parse(item) for item in fields.objects("commands")),
            fields.texts("forget"),
            fields.optional_integer("save_interval_seconds"),
            fields.texts("idle_signals") or None,
        )


@dataclass(frozen=True, slots=True)
class SaveReply:
    """The save to make; without one, when the next is due."""

    command: Command | None
    in_seconds: float

    @classmethod
    def parse(cls, body: object) -> "SaveReply":
        fields = Fields(body, "snapshots reply")
        command = fields.optional_object("command")
        return cls(None if command is None else Command.parse(command), fields.number("in_seconds"))


@dataclass(frozen=True, slots=True)
class Notice:
    """The machine will go: `reclaim`, `maintenance` or `shutdown`."""

    kind: str
    source: str
    deadline_seconds: float | None

    def to_json(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "source": self.source,
            "deadline_seconds": self.deadline_seconds,
        }


@dataclass(frozen=True, slots=True)
class NoticeReply:
    """The save to make in the time that is left, if one is to be made."""

    command: Command | None

    @classmethod
    def parse(cls, body: object) -> "NoticeReply":
        command = Fields(body, "notice reply").optional_object("command")
        return cls(None if command is None else Command.parse(command))


@dataclass(frozen=True, slots=True)
class QuiesceArgs:
    on_stop_script: str | None
    hook_timeout_seconds: int
    grace_seconds: int

    @classmethod
    def parse(cls, fields: Fields) -> "QuiesceArgs":
        return cls(
            fields.optional_text("on_stop_script"),
            fields.integer("hook_timeout_seconds", 60),
            fields.integer("grace_seconds", 20),
        )


@dataclass(frozen=True, slots=True)
class CaptureArgs:
    kind: str
    snapshot_id: str
    attempt_id: str
    parent: str | None
    chunk_key: bytes
    rules: tuple[str, ...]
    is_live: bool

    @classmethod
    def parse(cls, fields: Fields) -> "CaptureArgs":
        parent = fields.optional_object("parent")
        return cls(
            fields.choice("kind", SNAPSHOT_KINDS),
            fields.text("snapshot_id"),
            fields.text("attempt_id"),
            None if parent is None else parent.text("snapshot_id"),
            _chunk_key(fields),
            fields.texts("rules"),
            fields.choice("mode", CAPTURE_MODES) == "live",
        )


@dataclass(frozen=True, slots=True)
class RestoreArgs:
    kind: str
    snapshot_id: str
    chunk_key: bytes
    rules: tuple[str, ...]
    ssh_authorized_keys: tuple[str, ...]

    @classmethod
    def parse(cls, fields: Fields) -> "RestoreArgs":
        return cls(
            fields.choice("kind", SNAPSHOT_KINDS),
            fields.text("snapshot_id"),
            _chunk_key(fields),
            fields.texts("rules"),
            fields.texts("ssh_authorized_keys"),
        )


@dataclass(frozen=True, slots=True)
class RunArgs:
    startup_script: str | None
    environment: Mapping[str, str]
    ssh_authorized_keys: tuple[str, ...]
    require_gpu: bool
    timeout_seconds: int
    port: int | None
    ssh_port: int | None = None

    @classmethod
    def parse(cls, fields: Fields) -> "RunArgs":
        return cls(
            fields.optional_text("startup_script"),
            fields.text_map("environment"),
            fields.texts("ssh_authorized_keys"),
            fields.flag("require_gpu", default=False),
            fields.integer("timeout_seconds"),
            _port(fields, "port"),
            _port(fields, "ssh_port"),
        )


@dataclass(frozen=True, slots=True)
class ExecArgs:
    argv: tuple[str, ...]
    script: str | None
    stdin: bytes | None
    timeout_seconds: int
    working_dir: str | None
    environment: Mapping[str, str]

    @classmethod
    def parse(cls, fields: Fields) -> "ExecArgs":
        argv, script = fields.texts("argv"), fields.optional_text("script")
        if bool(argv) == bool(script):
            raise WireError("exec.args needs exactly one of argv and script")
        return cls(
            argv,
            script,
            fields.optional_binary("stdin"),
            fields.integer("timeout_seconds"),
            fields.optional_text("working_dir"),
            fields.text_map("environment"),
        )


@dataclass(frozen=True, slots=True)
class HostKeyReply:
    """The pod's SSH host key; None if the pod has none yet."""

    private_key: str | None = field(repr=False)

    @classmethod
    def parse(cls, body: object) -> "HostKeyReply":
        return cls(Fields(body, "host-key reply").optional_text("private_key"))


@dataclass(frozen=True, slots=True)
class SecretsReply:
    """Texts by the variables that they go into, and names of secrets that there are not."""

    variables: Mapping[str, str] = field(repr=False)
    missing: tuple[str, ...] = ()

    @classmethod
    def parse(cls, body: object) -> "SecretsReply":
        fields = Fields(body, "secrets reply")
        return cls(fields.text_map("variables"), fields.texts("missing"))


@dataclass(frozen=True, slots=True)
class AuthorizedKeysReply:
    """Whose key opens the pod: lines of an `authorized_keys` file."""

    authorized_keys: tuple[str, ...]

    @classmethod
    def parse(cls, body: object) -> "AuthorizedKeysReply":
        return cls(Fields(body, "ssh-keys reply").texts("authorized_keys"))


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as the store must hold it."""

    name: str
    size: int
    sha256: str

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "size": self.size, "sha256": self.sha256}


@dataclass(frozen=True, slots=True)
class UploadGrant:
    """Leave to PUT one object, once, with exactly these headers."""

    name: str
    url: str
    headers: Mapping[str, str]

    @classmethod
    def parse_all(cls, body: object) -> "dict[str, UploadGrant]":
        items = Fields(body, "uploads reply").objects("uploads")
        grants = [cls(i.text("name"), i.text("url"), i.text_map("headers")) for i in items]
        return {grant.name: grant for grant in grants}


@dataclass(frozen=True, slots=True)
class DownloadGrant:
    """Leave to GET one object."""

    snapshot_id: str
    name: str
    url: str

    @classmethod
    def parse_all(cls, body: object) -> "dict[tuple[str, str], DownloadGrant]":
        items = Fields(body, "downloads reply").objects("downloads")
        grants = [cls(i.text("snapshot_id"), i.text("name"), i.text("url")) for i in items]
        return {(grant.snapshot_id, grant.name): grant for grant in grants}


def is_settled(body: object) -> bool:
    """Whether a hand-in is over; if not, the same is handed in again."""
    return Fields(body, "commit reply").flag("is_settled", default=True)


def _chunk_key(fields: Fields) -> bytes:
    key = fields.binary("chunk_key")
    if len(key) != CHUNK_KEY_BYTES:
        raise WireError(f"chunk_key must be {CHUNK_KEY_BYTES} bytes in base64, not {len(key)}")
    return key


def _port(fields: Fields, name: str) -> int | None:
    port = fields.optional_integer(name)
    if port is not None and not 1 <= port <= 65535:
        raise WireError(f"run.args.{name} must be 1..65535, not {port}")
    return port
