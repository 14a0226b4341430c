"""What every release replaces: functions, API, workflows and alarms. It holds no state."""

from collections.abc import Mapping

from aws_cdk import CfnCondition, CfnOutput, CfnParameter, Duration, Fn, Stack
from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from infra.alarms import PodferryAlarms
from infra.catalog import FUNCTIONS, ROUNDS, WORKFLOWS
from infra.functions import Common, PodferryFunction, common_settings, make_layers
from infra.http_api import PodferryHttpApi
from infra.permissions import Addresses, AgentBundle, Names, Permissions
from infra.review import acknowledge
from infra.sources import Sources, Target
from infra.state_stack import StateNames
from infra.workflows import PodferryWorkflow

EC2_DOORBELLS: tuple[tuple[str, str, dict[str, list[str]] | None], ...] = (
    ("Ec2Interruption", "EC2 Spot Instance Interruption Warning", None),
    (
        "Ec2StateChange",
        "EC2 Instance State-change Notification",
        {"state": ["stopping", "stopped", "shutting-down", "terminated"]},
    ),
)


class ControlStack(Stack):
    """Everything that computes."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        state: StateNames,
        sources: Sources,
        target: Target,
    ) -> None:
        super().__init__(scope, construct_id, description="Podferry: control plane")
        self._state = state
        self._sources = sources
        self._names = self._fixed_names()
        self._api = http.HttpApi(
            self, "HttpApi", description="Podferry", create_default_stage=False
        )
        self._addresses = Addresses(self._public_address(), self._registries())
        self._functions = self._make_functions(target)
        PodferryHttpApi(self, "Routes", api=self._api, functions=self._functions)
        workflows = self._make_workflows()
        self._make_reconciler_rule()
        self._make_daily_sweep()
        self._make_ec2_doorbells()
        self._make_garbage_rule()
        self._alarms = PodferryAlarms(
            self,
            "Alarms",
            key=kms.Key.from_key_arn(self, "Key", state.key_arn),
            service=self.stack_name,
            functions=self._functions.values(),
            workflows=workflows,
        )
        self._add_outputs()

    def _fixed_names(self) -> Names:
        """Fixed so that functions can name what is made after them; two stacks never share one."""
        return Names(
            workflows={spec.name: f"podferry-{self.stack_name}-{spec.name}" for spec in WORKFLOWS},
            reconciler_rule=f"podferry-{self.stack_name}-reconciler",
        )

    def _public_address(self) -> str:
        given = CfnParameter(
            self,
            "PublicUrl",
            default="",
            allowed_pattern=r"^(https?://[^/\s]+)?$",
            constraint_description="empty, or a URL without path and without trailing slash",
            description="The address that users and machines call, if it is a domain of your own",
        )
        has_own = CfnCondition(
            self,
            "HasPublicUrl",
            expression=Fn.condition_not(Fn.condition_equals(given.value_as_string, "")),
        )
        return Fn.condition_if(
            has_own.logical_id, given.value_as_string, self._api.api_endpoint
        ).to_string()

    def _registries(self) -> str:
        given = CfnParameter(
            self,
            "ImageRegistries",
            default="",
            allowed_pattern=r"^([a-zA-Z0-9.:*-]+=https?://[^,/\s]+(,|$))*$",
            constraint_description="empty, or registry.example.com=https://address, with commas",
            description="Container registries that are asked for digests besides the public ones",
        )
        return given.value_as_string

    def _make_functions(self, target: Target) -> Mapping[str, PodferryFunction]:
        bundle = AgentBundle(
            assets.Asset(self, "AgentBundle", path=str(self._sources.agent_bundle)),
            self._sources.agent_bundle_sha256(),
        )
        permissions = Permissions(self, self._state, self._names, bundle, self._addresses)
        common = Common(
            make_layers(self, self._sources, target),
            common_settings(self, self._state.table_name, self._state.deployment_id),
        )
        return {
            spec.name: PodferryFunction(
                self, spec, sources=self._sources, common=common, permissions=permissions
            )
            for spec in FUNCTIONS
        }

    def _make_workflows(self) -> list[PodferryWorkflow]:
        return [
            PodferryWorkflow(
                self,
                spec,
                name=self._names.workflows[spec.name],
                sources=self._sources,
                functions=self._functions,
            )
            for spec in WORKFLOWS
        ]

    def _make_reconciler_rule(self) -> None:
        """Disabled here: the first machine switches it on, the last one off (nothing at rest).

        A deployment that changes this rule would switch it off under running machines, so it has
        nothing that changes.
        """
        rule = events.Rule(
            self,
            "Reconciler",
            rule_name=self._names.reconciler_rule,
            description="Podferry: looks after operations and saves while something runs",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            enabled=False,
        )
        for name in ROUNDS:
            rule.add_target(
                targets.LambdaFunction(
                    self._functions[name].function,
                    # The next minute brings the next round; a late one is worth nothing.
                    retry_attempts=0,
                    max_event_age=Duration.minutes(1),
                )
            )
        acknowledge(rule, "Serverless-EventBusDLQ", "A missed round is made up a minute later.")

    def _make_daily_sweep(self) -> None:
        """It goes on at rest, too: machines that nobody knows cost money."""
        rule = events.Rule(
            self,
            "DailySweep",
            description="Podferry: looks for machines that nobody knows",
            schedule=events.Schedule.rate(Duration.days(1)),
        )
        rule.add_target(targets.LambdaFunction(self._functions["sweeper"].function))
        acknowledge(rule, "Serverless-EventBusDLQ", "A missed sweep is made up a day later.")

    def _make_ec2_doorbells(self) -> None:
        """EC2 pushes what it does to instances of this account and region: look at once.

        The event is no proof of anything; the round that it begins asks EC2 and the agents.
        """
        for name, detail_type, detail in EC2_DOORBELLS:
            rule = events.Rule(
                self,
                name,
                description="Podferry: EC2 takes an instance away; look after machines now",
                event_pattern=events.EventPattern(
                    source=["aws.ec2"], detail_type=[detail_type], detail=detail
                ),
            )
            rule.add_target(
                targets.LambdaFunction(
                    self._functions["sweeper"].function,
                    retry_attempts=0,
                    max_event_age=Duration.minutes(1),
                )
            )
            acknowledge(rule, "Serverless-EventBusDLQ", "A missed round is made up in a minute.")

    def _make_garbage_rule(self) -> None:
        """It wakes up also at rest: one call a day, which mostly finds nothing."""
        rule = events.Rule(
            self,
            "Garbage",
            description="Podferry: deletes snapshot objects that nothing needs any more",
            schedule=events.Schedule.rate(Duration.days(1)),
        )
        rule.add_target(
            targets.LambdaFunction(
                self._functions["garbage"].function,
                # The next day brings the next run, and it goes on where this one ends.
                retry_attempts=0,
                max_event_age=Duration.hours(1),
            )
        )
        acknowledge(rule, "Serverless-EventBusDLQ", "A missed run is made up a day later.")

    def _add_outputs(self) -> None:
        outputs = {
            "ApiUrl": self._addresses.public,
            "ApiEndpoint": self._api.api_endpoint,
            "AlarmTopicArn": self._alarms.topic.topic_arn,
            "ReconcilerRuleName": self._names.reconciler_rule,
            "ReconcilerFunctionName": self._functions["reconciler"].function.function_name,
            "AutosaveFunctionName": self._functions["autosave"].function.function_name,
            "MeterFunctionName": self._functions["meter"].function.function_name,
            "SweeperFunctionName": self._functions["sweeper"].function.function_name,
            "GarbageFunctionName": self._functions["garbage"].function.function_name,
        }
        outputs |= {
            f"{spec.title}WorkflowName": self._names.workflows[spec.name] for spec in WORKFLOWS
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
