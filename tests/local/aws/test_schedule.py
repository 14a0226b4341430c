"""Rules that functions switch on and off."""

from typing import Any

import pytest

from local.aws.deploy import Outputs

from .conftest import EmbeddedAWS, Function


@pytest.fixture
def rule(server: EmbeddedAWS, outputs: Outputs) -> str:
    return outputs["TinyFlow"]["RuleName"]


def _state(server: EmbeddedAWS, rule: str) -> Any:
    return server.client("events").describe_rule(Name=rule)["State"]


def test_rule_is_deployed_disabled_and_switched_by_a_function(
    server: EmbeddedAWS, probe: Function, rule: str
) -> None:
    at_first = _state(server, rule)
    probe.aws("events", "enable_rule", Name=rule)
    enabled = _state(server, rule)
    probe.aws("events", "disable_rule", Name=rule)

    assert (at_first, enabled, _state(server, rule)) == ("DISABLED", "ENABLED", "DISABLED")


def test_rule_gets_another_rate_and_keeps_its_target(
    server: EmbeddedAWS, probe: Function, rule: str
) -> None:
    probe.aws(
        "events", "put_rule", Name=rule, ScheduleExpression="rate(2 minutes)", State="DISABLED"
    )
    found = server.client("events").describe_rule(Name=rule)
    targets = server.client("events").list_targets_by_rule(Rule=rule)["Targets"]

    assert found["ScheduleExpression"] == "rate(2 minutes)"
    assert len(targets) == 1


def test_function_without_the_grant_cannot_switch_the_rule(stranger: Function, rule: str) -> None:
    assert stranger.aws("events", "enable_rule", Name=rule)["error"] == "AccessDeniedException"
