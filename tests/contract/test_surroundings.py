"""What clocks, randomness, schedules and the operator's key promise."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, timedelta

import pytest

from podferry.adapters.aws.clients import AwsClients
from podferry.adapters.aws.schedules import EventBridgeSchedules
from podferry.adapters.aws.secrets import SecretsOperatorKey
from podferry.adapters.aws.surroundings import SystemClock, SystemRandomness
from podferry.adapters.memory.surroundings import (
    FixedOperatorKey,
    ManualClock,
    MemorySchedules,
    SeededRandomness,
)
from podferry.domain.errors import InternalError
from podferry.ports.surroundings import Clock, OperatorKey, Randomness, Schedules
from tests.contract.embedded import EmbeddedAws, unique

TOKEN = "pf_admin_s3cr3t"


@pytest.mark.parametrize("clock", [ManualClock(), SystemClock()])
def test_a_clock_shows_utc_and_does_not_go_back(clock: Clock) -> None:
    first, second = clock.now(), clock.now()

    assert first.tzinfo == UTC
    assert first <= second


def test_a_manual_clock_moves_by_what_it_is_told() -> None:
    clock = ManualClock()
    before = clock.now()

    clock.advance(timedelta(microseconds=1))

    assert clock.now() - before == timedelta(microseconds=1)


@pytest.mark.parametrize("randomness", [SeededRandomness(), SystemRandomness()])
def test_randomness_has_the_asked_form_and_does_not_repeat(randomness: Randomness) -> None:
    numbers = {randomness.bits(80) for _ in range(100)}
    secrets = {randomness.secret() for _ in range(100)}

    assert len(numbers) == len(secrets) == 100
    assert all(0 <= number < 2**80 for number in numbers)
    assert any(number >= 2**79 for number in numbers)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", secret) for secret in secrets)


def test_seeded_randomness_repeats_from_run_to_run() -> None:
    assert SeededRandomness(7).secret() == SeededRandomness(7).secret()
    assert SeededRandomness(7).bits(80) != SeededRandomness(8).bits(80)


@dataclass
class ScheduleBench:
    schedules: Schedules
    is_enabled: Callable[[], bool]


@pytest.fixture(params=["memory", "embedded"])
def bench(request: pytest.FixtureRequest) -> ScheduleBench:
    if request.param == "memory":
        schedules = MemorySchedules()
        return ScheduleBench(schedules, lambda: schedules.is_enabled)
    embedded: EmbeddedAws = request.getfixturevalue("embedded")
    events, name = embedded.raw("events"), unique("rule")
    events.put_rule(Name=name, ScheduleExpression="rate(1 minute)", State="DISABLED")
    return ScheduleBench(
        EventBridgeSchedules(embedded.clients, name),
        lambda: bool(events.describe_rule(Name=name)["State"] == "ENABLED"),
    )


def test_promise_17_a_schedule_runs_only_while_it_is_enabled(bench: ScheduleBench) -> None:
    assert not bench.is_enabled()

    for _ in range(2):
        bench.schedules.enable()
        assert bench.is_enabled()
    for _ in range(2):
        bench.schedules.disable()
        assert not bench.is_enabled()


def test_a_missing_rule_is_our_mistake(moto_clients: AwsClients) -> None:
    schedules = EventBridgeSchedules(moto_clients, unique("none"))

    with pytest.raises(InternalError, match=r"ResourceNotFoundException.*enable the reconciler"):
        schedules.enable()
    with pytest.raises(InternalError, match=r"ResourceNotFoundException.*disable the reconciler"):
        schedules.disable()


@pytest.fixture(params=["memory", "embedded"])
def key(request: pytest.FixtureRequest) -> OperatorKey:
    if request.param == "memory":
        return FixedOperatorKey(TOKEN)
    embedded: EmbeddedAws = request.getfixturevalue("embedded")
    value = json.dumps({"prefix": "pf_admin", "key": "s3cr3t"})
    secret = embedded.raw("secretsmanager").create_secret(Name=unique("key"), SecretString=value)
    return SecretsOperatorKey(embedded.clients, secret["ARN"], ManualClock())


def test_the_operators_key_matches_its_token(key: OperatorKey) -> None:
    assert key.matches(TOKEN)
    assert key.matches(TOKEN)


@pytest.mark.parametrize(
    "token",
    ["", "pf_admin_", "s3cr3t", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "schlüssel", "\ud800"],
)
def test_the_operators_key_matches_nothing_else(key: OperatorKey, token: str) -> None:
    assert not key.matches(token)
