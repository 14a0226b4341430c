"""The reconciler's timer as an EventBridge rule, deployed disabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podferry.adapters.aws.errors import aws_errors

if TYPE_CHECKING:
    from podferry.adapters.aws.clients import AwsClients


class EventBridgeSchedules:
    """A `Schedules` over one rule."""

    def __init__(self, clients: AwsClients, rule_name: str) -> None:
        self._clients = clients
        self._rule_name = rule_name

    def enable(self) -> None:
        with aws_errors("enable the reconciler"):
            self._clients.events.enable_rule(Name=self._rule_name)

    def disable(self) -> None:
        with aws_errors("disable the reconciler"):
            self._clients.events.disable_rule(Name=self._rule_name)
