"""What an agent has learned of the end of its machine."""

from typing import Annotated

from pydantic import Field

from podferry.domain.machine import NoticeKind
from podferry.http.agent.beat import CommandOut
from podferry.http.agent.fields import AgentInput, Text
from podferry.http.models.fields import Output
from podferry.services.agent.notice import Announcement
from podferry.services.saves.begin import Turn

Deadline = Annotated[float, Field(strict=True, ge=0, le=30 * 86_400)]


class NoticeBody(AgentInput):
    """The machine will go; `deadline_seconds` is when at the latest, if that was said."""

    kind: NoticeKind
    source: Text
    deadline_seconds: Deadline | None = None

    def to_announcement(self) -> Announcement:
        return Announcement(
            kind=self.kind, source=self.source, deadline_seconds=self.deadline_seconds
        )


class NoticeReply(Output):
    """The save to make in the time that is left, if one is to be made."""

    command: CommandOut | None

    @classmethod
    def of(cls, turn: Turn) -> "NoticeReply":
        return cls(command=None if turn.command is None else CommandOut.of(turn.command))
