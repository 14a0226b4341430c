"""Counters as CloudWatch metrics, written to the function's log (embedded metric format).

The only dimension is the service of POWERTOOLS_SERVICE_NAME, which all functions of a deployment
share, so that one alarm watches one name.
"""

import logging

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit, SchemaValidationError
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.exceptions import MetricNameError

NAMESPACE = "Podferry"
_LOG = logging.getLogger(__name__)


class MetricSignals:
    """A `Signals`: each count is one line of its own, so nothing is lost when a function dies."""

    def count(self, name: str, amount: int = 1) -> None:
        try:
            metrics = EphemeralMetrics(namespace=NAMESPACE)
            metrics.add_metric(name=name, unit=MetricUnit.Count, value=amount)
            metrics.flush_metrics()
        except (MetricNameError, SchemaValidationError, OSError, ValueError):
            # A counter that cannot be written must not fail what it counts.
            _LOG.exception("a counter could not be written", extra={"counter": name})
