"""What begins a round of the sweeper: its schedules, and events of EC2.

The shapes of the events are those of the EC2 user guide, "Spot Instance interruption notices" and
"Amazon EC2 instance state change events". Nobody but AWS can send an event whose source is `aws.`.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from podferry.domain.machine import NoticeKind
from podferry.services.agent.notice import Announcement
from podferry.services.recover.doorbell import Doorbell, Push
from podferry.services.recover.sweep import Sweep

_WARNING = "EC2 Spot Instance Interruption Warning"
_WARNING_SECONDS = 120.0
"""Between the warning and the end, at best."""


class Rounds(Protocol):
    """The use cases behind the sweeper."""

    @property
    def sweep(self) -> Sweep:
        """One round."""

    @property
    def doorbell(self) -> Doorbell:
        """A round that a provider's push begins."""


def sweep(app: Rounds, event: Mapping[str, Any]) -> dict[str, int]:
    """One round, unless the event is of a machine that is not ours."""
    if event.get("source") != "aws.ec2":
        return app.sweep.run()
    return app.doorbell.ring(_push(event))


def _push(event: Mapping[str, Any]) -> Push:
    notice = None
    if event.get("detail-type") == _WARNING:
        notice = Announcement(
            kind=NoticeKind.RECLAIM, source="ec2 event", deadline_seconds=_WARNING_SECONDS
        )
    region, detail = str(event.get("region", "")), event.get("detail", {})
    provider_id = f"{region}.{detail.get('instance-id', '')}"
    return Push(provider="ec2", provider_id=provider_id, notice=notice)
