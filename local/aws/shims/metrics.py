"""Metrics of functions do not fill memory.

MiniStack stores four points per call and drops them after two weeks. A local run answers many
heartbeats a second; the newest points are enough for its alarms.
"""

# ruff: noqa: SLF001
# A shim reaches into private names by its nature; `guard` checks that they exist.

from typing import Any

from ministack.services import cloudwatch

from local.aws.shims import guard

KEPT_POINTS = 1000


def apply() -> None:
    """Keeps the newest points of each metric."""
    record = guard.take(cloudwatch, "record_metric")
    guard.take(cloudwatch, "_metric_bucket")
    guard.take(cloudwatch, "_dims_key")

    def record_bounded(
        namespace: str,
        metric: str,
        value: float,
        unit: str = "None",
        dimensions: dict[str, Any] | None = None,
    ) -> None:
        record(namespace, metric, value, unit, dimensions)
        points = cloudwatch._metric_bucket(
            (namespace, metric, cloudwatch._dims_key(dimensions or {}))
        )
        del points[:-KEPT_POINTS]

    guard.replace(cloudwatch, "record_metric", record_bounded)
