"""Counters reach the log in the form that CloudWatch reads."""

from __future__ import annotations

import json
import logging

import pytest

from podferry.adapters.aws.signals import MetricSignals
from podferry.adapters.memory.surroundings import MemorySignals


def test_a_count_is_one_line_that_cloudwatch_reads(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "podferry-control")
    signals = MetricSignals()

    signals.count("VerifyFailed")
    signals.count("VerifyFailed", 2)

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (directive,) = lines[0]["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Podferry"
    assert directive["Dimensions"] == [["service"]]
    assert lines[0]["service"] == "podferry-control"
    assert [line["VerifyFailed"] for line in lines] == [[1.0], [2.0]]


def test_a_counter_that_cannot_be_written_is_logged_and_does_not_raise(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.ERROR):
        MetricSignals().count("")

    assert "could not be written" in caplog.text
    assert capsys.readouterr().out == ""


def test_counts_in_memory_add_up() -> None:
    signals = MemorySignals()

    signals.count("a")
    signals.count("a", 3)

    assert signals.counts == {"a": 4}
