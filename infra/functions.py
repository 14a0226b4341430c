"""One Lambda function with its own role, log group and alarm-ready name."""

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.catalog import METRIC_NAMESPACE, FunctionSpec
from infra.permissions import Capability, Permissions
from infra.review import acknowledge, acknowledge_wildcard
from infra.sources import Sources, Target

ASSET_EXCLUDES = ["**/__pycache__", "**/*.pyc"]
LOG_RETENTION = logs.RetentionDays.ONE_MONTH

_RUNTIME = "The layers are built and tested for this Python; it moves together with their wheels."
_ACCEPTED = {
    "AwsSolutions-L1": _RUNTIME,
    "Serverless-LambdaLatestVersion": _RUNTIME,
    "Serverless-LambdaTracing": (
        "The events of an operation tell what happened; agents call every second, so traces would "
        "cost money that nobody gets anything for."
    ),
    "Serverless-LambdaDLQ": (
        "Callers wait for the answer and see every error; what schedules call asynchronously runs "
        "again at the next turn of its schedule."
    ),
}


@dataclass(frozen=True, slots=True)
class Common:
    """What every function of a deployment shares."""

    layers: Sequence[lambda_.ILayerVersion]
    settings: dict[str, str]


def make_layers(
    scope: Construct, sources: Sources, target: Target
) -> tuple[lambda_.LayerVersion, lambda_.LayerVersion]:
    """Our package and the third-party packages; they live in the stack that uses them."""
    podferry = _make_layer(scope, "Podferry", str(sources.podferry_layer))
    vendor = _make_layer(scope, "Vendor", str(sources.vendor_layer(target)))
    return podferry, vendor


def common_settings(stack: Stack, table_name: str, deployment_id: str) -> dict[str, str]:
    """Settings that no function goes without."""
    return {
        "TABLE_NAME": table_name,
        "DEPLOYMENT_ID": deployment_id,
        "LOG_LEVEL": "INFO",
        # Metrics carry the service as their dimension, so it has to be the deployment, not the
        # function: alarms look at one counter however many functions add to it.
        "POWERTOOLS_SERVICE_NAME": stack.stack_name,
        "POWERTOOLS_METRICS_NAMESPACE": METRIC_NAMESPACE,
    }


class PodferryFunction(Construct):
    """Code of `functions/<name>/`, allowed exactly what its rights say."""

    def __init__(
        self,
        scope: Construct,
        spec: FunctionSpec,
        *,
        sources: Sources,
        common: Common,
        permissions: Permissions,
    ) -> None:
        super().__init__(scope, f"{spec.title}Function")
        self.spec = spec
        name = f"{Stack.of(self).stack_name}-{spec.name.replace('_', '-')}"
        capabilities = [permissions.of(right) for right in sorted(spec.rights)]
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{name}",
            retention=LOG_RETENTION,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.role = self._make_role(capabilities)
        self.function = lambda_.Function(
            self,
            "Resource",
            function_name=name,
            description=f"Podferry: {spec.purpose}",
            runtime=lambda_.Runtime.PYTHON_3_12,
            architecture=lambda_.Architecture.X86_64,
            handler="handler.handler",
            code=lambda_.Code.from_asset(str(sources.function(spec.name)), exclude=ASSET_EXCLUDES),
            layers=list(common.layers),
            memory_size=spec.memory_mib,
            timeout=Duration.seconds(spec.timeout_seconds),
            environment=common.settings | _merged_settings(capabilities),
            log_group=self.log_group,
            role=self.role,
        )
        self._acknowledge_findings(capabilities)

    def _make_role(self, capabilities: list[Capability]) -> iam.Role:
        write_logs = iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
            resources=[self.log_group.log_group_arn],
        )
        granted = [statement for one in capabilities for statement in one.statements]
        return iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Podferry: {self.spec.purpose}",
            inline_policies={
                "Rights": iam.PolicyDocument(statements=[write_logs, *granted], minimize=False)
            },
        )

    def _acknowledge_findings(self, capabilities: list[Capability]) -> None:
        for capability in capabilities:
            for resource, reason in capability.wildcards.items():
                acknowledge_wildcard(self.role, resource, reason)
        for rule, reason in _ACCEPTED.items():
            acknowledge(self.function, rule, reason)


def _make_layer(scope: Construct, name: str, path: str) -> lambda_.LayerVersion:
    return lambda_.LayerVersion(
        scope,
        f"{name}Layer",
        code=lambda_.Code.from_asset(path, exclude=ASSET_EXCLUDES),
        compatible_runtimes=[lambda_.Runtime.PYTHON_3_12],
        compatible_architectures=[lambda_.Architecture.X86_64],
        removal_policy=RemovalPolicy.DESTROY,
    )


def _merged_settings(capabilities: list[Capability]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for capability in capabilities:
        merged |= capability.settings
    return merged
