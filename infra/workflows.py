"""State machines from `infra/workflows/*.asl.json`; the files say what happens, this says where."""

from collections.abc import Mapping

from aws_cdk import RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from infra.catalog import STEP_FUNCTIONS, WorkflowSpec
from infra.functions import LOG_RETENTION, PodferryFunction
from infra.review import acknowledge, acknowledge_wildcard
from infra.sources import Sources

_NO_TRACING = "The history of an execution shows each step with its times already."


class PodferryWorkflow(Construct):
    """One workflow that may invoke the step functions and write its log."""

    def __init__(
        self,
        scope: Construct,
        spec: WorkflowSpec,
        *,
        name: str,
        sources: Sources,
        functions: Mapping[str, PodferryFunction],
    ) -> None:
        super().__init__(scope, f"{spec.title}Workflow")
        self.spec = spec
        steps = {step: functions[step] for step in STEP_FUNCTIONS}
        self._role = self._make_role(steps)
        log_group = logs.LogGroup(
            self,
            "Logs",
            # Only groups of this prefix stay clear of the size limit of the resource policy that
            # log deliveries share.
            log_group_name=f"/aws/vendedlogs/states/{name}",
            retention=LOG_RETENTION,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.machine = stepfunctions.StateMachine(
            self,
            "Machine",
            state_machine_name=name,
            state_machine_type=stepfunctions.StateMachineType.STANDARD,
            definition_body=stepfunctions.DefinitionBody.from_file(
                str(sources.workflow(spec.name))
            ),
            definition_substitutions={
                f"{function.spec.title}Arn": function.function.function_arn
                for function in steps.values()
            },
            role=self._role,
            logs=stepfunctions.LogOptions(
                destination=log_group,
                level=stepfunctions.LogLevel.ERROR,
                # Inputs of waiting steps hold task tokens.
                include_execution_data=False,
            ),
            tracing_enabled=False,
        )
        self._acknowledge_findings()

    def _make_role(self, steps: Mapping[str, PodferryFunction]) -> iam.Role:
        invoke = iam.PolicyStatement(
            actions=["lambda:InvokeFunction"],
            resources=[function.function.function_arn for function in steps.values()],
        )
        return iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("states.amazonaws.com"),
            description=f"Podferry: the {self.spec.name} workflow",
            inline_policies={"Rights": iam.PolicyDocument(statements=[invoke])},
        )

    def _acknowledge_findings(self) -> None:
        acknowledge(
            self.machine,
            "AwsSolutions-SF1",
            "Every transition of an operation is an event in the table; the log is for errors.",
        )
        acknowledge(self.machine, "AwsSolutions-SF2", _NO_TRACING)
        acknowledge(self.machine, "Serverless-StepFunctionStateMachineXray", _NO_TRACING)
        acknowledge_wildcard(
            self._role,
            "*",
            "The CDK lets the workflow set up its log delivery; AWS has no resource for these "
            "actions.",
        )
