"""What the agent and its SSH server say to each other, one JSON object in a line.

To the server:    setup, host_key, keys, keys_unchanged, environment, probe
From the server:  made_host_key, listening, wants_keys, counts, probed, failed
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from podferry_agent.errors import WireError
from podferry_agent.fields import Fields

EXIT_FAILED = 3
"""The server said itself what is wrong (`failed`)."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The first line. Without a host key the server makes one and asks whether to use it."""

    host: str
    port: int
    root: str
    environment: Mapping[str, str]
    host_key: str | None

    @classmethod
    def parse(cls, fields: Fields) -> "Setup":
        return cls(
            fields.optional_text("host") or "",
            fields.integer("port"),
            fields.text("root"),
            fields.text_map("environment"),
            fields.optional_text("host_key"),
        )

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Counts:
    """`sessions` are logged in right now; the others only grow while the server lives."""

    sessions: int = 0
    logins: int = 0
    refused: int = 0

    @classmethod
    def parse(cls, fields: Fields) -> "Counts":
        return cls(fields.integer("sessions"), fields.integer("logins"), fields.integer("refused"))

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def encode(kind: str, content: object) -> bytes:
    return json.dumps({kind: content}).encode() + b"\n"


def decode(line: bytes) -> tuple[str, Fields]:
    """The kind of a message, and the message as an object that has it as its only field.

    Raises:
        WireError: The line is not a message.
    """
    try:
        document = json.loads(line)
    except ValueError as error:
        raise WireError("a line between agent and SSH server is not JSON") from error
    if not isinstance(document, dict) or len(document) != 1:
        raise WireError("a line between agent and SSH server must be an object with one field")
    (kind,) = document
    return kind, Fields(document, "ssh")


def content_of(kind: str, fields: Fields) -> Fields:
    """The content of a message that has an object in it."""
    content = fields.optional_object(kind)
    if content is None:
        raise WireError(f"ssh.{kind} must be an object, but is null")
    return content
