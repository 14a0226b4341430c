"""What rings for the operator: broken functions, failed workflows, machines that will not go."""

from collections.abc import Iterable

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.catalog import METRIC_NAMESPACE
from infra.functions import PodferryFunction
from infra.workflows import PodferryWorkflow

# Counters of the control plane that someone has to act on, and what to do.
SIGNALS = {
    "DeploymentKeyRefused": "A provider refuses the deployment's key. What runs goes on, but "
    "cannot be looked at or ended there, and nothing is rented. Put a good key into the secret of "
    "the provider keys; the log of the sweeper has the provider's words.",
    "GhostFound": "A provider has a machine with this deployment's stamp that no row stands for. "
    "It is being given up. If it rings on, end it in the provider's console; the sweeper's log "
    "names it.",
    "GarbageHalted": "The garbage of an account is left alone because rows of its snapshots are "
    "missing or a root cannot be read. Look at the log of the garbage function.",
    "IdleNotEvaluated": "Nobody can say whether a pod is idle that is to be stopped when it is; it "
    "goes on costing money. Look at the pod's idle_status and at the log of the sweeper.",
    "MachineStuckTerminating": "A provider does not confirm that a machine is gone; it may still "
    "cost money. Look at the machine in the provider's console.",
    "OwnKeyRefused": "A provider refuses the key of an account, as its owner sees at the key and "
    "in the events of its pods. What runs goes on, but cannot be ended until the key is good.",
    "MeterFailed": "What a machine costs could not be charged; the next minute makes up for it. If "
    "it rings on, look at the log of the meter.",
    "ReleasedMachineAlive": "A machine that its provider no longer listed has dialled in; it may "
    "still cost money. End it in the provider's console; its name carries the deployment's stamp.",
    "SnapshotDamaged": "A restore drill found a snapshot that cannot be restored as it is. Look at "
    "the error of the operation; it names the object.",
    "SavesFailing": "The volume of a running pod has not been saved for twice its interval; what "
    "was written since would be lost with its machine. Look at the pod's save_error and events.",
    "VerifyFailed": "A capture could not be verified, so its machine was kept. Look at the "
    "operation's events.",
}


class PodferryAlarms(Construct):
    """Alarms that publish to one topic; the operator subscribes to it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        key: kms.IKey,
        service: str,
        functions: Iterable[PodferryFunction],
        workflows: Iterable[PodferryWorkflow],
    ) -> None:
        super().__init__(scope, construct_id)
        self.topic = sns.Topic(
            self, "Topic", display_name="Podferry alarms", master_key=key, enforce_ssl=True
        )
        self._action = actions.SnsAction(self.topic)
        for function in functions:
            self._watch_function(function)
        for workflow in workflows:
            self._watch_workflow(workflow)
        for name, advice in SIGNALS.items():
            self._watch_signal(name, advice, service)

    def _watch_function(self, function: PodferryFunction) -> None:
        metric = function.function.metric_errors(period=Duration.minutes(5))
        self._ring(
            f"{function.spec.title}Errors",
            metric,
            f"{function.spec.purpose}: an invocation ended in an error that nobody handled.",
        )

    def _watch_workflow(self, workflow: PodferryWorkflow) -> None:
        title, machine = workflow.spec.title, workflow.machine
        self._ring(
            f"{title}Failed",
            machine.metric_failed(period=Duration.hours(1)),
            f"{title} workflows failed; the operations' errors say why.",
            threshold=workflow.spec.failures_per_hour_that_ring,
        )
        self._ring(
            f"{title}TimedOut",
            machine.metric_timed_out(period=Duration.minutes(5)),
            f"A {workflow.spec.name} workflow ran out of time; the reconciler takes it up.",
        )

    def _watch_signal(self, name: str, advice: str, service: str) -> None:
        metric = cloudwatch.Metric(
            namespace=METRIC_NAMESPACE,
            metric_name=name,
            dimensions_map={"service": service},
            statistic="Sum",
            period=Duration.minutes(5),
        )
        self._ring(name, metric, advice)

    def _ring(
        self, name: str, metric: cloudwatch.IMetric, description: str, threshold: int = 1
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name,
            metric=metric,
            alarm_description=description,
            threshold=threshold,
            evaluation_periods=1,
            comparison_operator=(cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD),
            # Nothing runs at rest, so there is nothing to measure.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(self._action)
