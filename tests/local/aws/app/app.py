"""A small CDK app that uses the embedded AWS the way the product does."""

from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as apigw
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_ssm as ssm
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

HERE = Path(__file__).parent


class DataStack(cdk.Stack):
    """What outlives everything else."""

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, name)
        self.key = kms.Key(self, "Key", enable_key_rotation=True)
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute="expires",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            removal_policy=cdk.RemovalPolicy.RETAIN,
        )
        self.table.add_global_secondary_index(
            index_name="gsi1",
            partition_key=dynamodb.Attribute(name="gsi1pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="gsi1sk", type=dynamodb.AttributeType.STRING),
        )
        self.bucket = self._bucket("Bucket", encryption_key=self.key)
        self.managed = self._bucket("Managed", encryption=s3.BucketEncryption.KMS_MANAGED)
        self.guarded = self._bucket("Guarded")
        self.guarded.add_to_resource_policy(
            iam.PolicyStatement(
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["s3:PutObject"],
                resources=[self.guarded.arn_for_objects("*")],
                conditions={"Null": {"s3:if-none-match": "true"}},
            )
        )
        self.secret = secretsmanager.Secret(
            self,
            "Secret",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template='{"user":"admin"}',
                generate_string_key="password",
                exclude_punctuation=True,
                password_length=40,
            ),
        )
        dead = sqs.Queue(self, "Dead", enforce_ssl=True)
        sqs.Queue(
            self,
            "Queue",
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead, max_receive_count=3),
        )
        ssm.StringParameter(self, "Parameter", parameter_name="/tiny/word", string_value="hello")
        for label, bucket in (
            ("BucketName", self.bucket),
            ("ManagedName", self.managed),
            ("GuardedName", self.guarded),
        ):
            cdk.CfnOutput(self, label, value=bucket.bucket_name)
        cdk.CfnOutput(self, "TableName", value=self.table.table_name)
        cdk.CfnOutput(self, "SecretArn", value=self.secret.secret_arn)

    def _bucket(self, name: str, **options: Any) -> s3.Bucket:
        return s3.Bucket(
            self,
            name,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    abort_incomplete_multipart_upload_after=cdk.Duration.days(1),
                    noncurrent_version_expiration=cdk.Duration.days(7),
                )
            ],
            removal_policy=cdk.RemovalPolicy.RETAIN,
            **options,
        )


class ComputeStack(cdk.Stack):
    """Functions and the HTTP API."""

    def __init__(self, scope: Construct, name: str, data: DataStack) -> None:
        super().__init__(scope, name)
        self.layer = lambda_.LayerVersion(
            self,
            "Layer",
            code=lambda_.Code.from_asset(str(HERE / "layer")),
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_12],
        )
        self.rule_name = f"tiny-{self.stack_name}-tick"
        self.probe = self._function("Probe", "handlers.probe", data)
        self.stranger = self._function("Stranger", "handlers.probe", data)
        api_function = self._function("Api", "handlers.api", data)
        guard = self._function("Authorizer", "handlers.authorize", data)
        self.step = self._function("Step", "handlers.step", data)
        self._grant(data)
        self._api(api_function, guard)
        cloudwatch.Alarm(
            self,
            "Alarm",
            metric=self.probe.metric_errors(),
            threshold=1,
            evaluation_periods=1,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        cdk.CfnOutput(self, "ProbeName", value=self.probe.function_name)
        cdk.CfnOutput(self, "StrangerName", value=self.stranger.function_name)

    def _function(self, name: str, handler: str, data: DataStack) -> lambda_.Function:
        return lambda_.Function(
            self,
            name,
            runtime=lambda_.Runtime.PYTHON_3_12,
            handler=handler,
            code=lambda_.Code.from_asset(str(HERE / "functions")),
            layers=[self.layer],
            timeout=cdk.Duration.seconds(20),
            environment={
                "TABLE": data.table.table_name,
                "BUCKET": data.bucket.bucket_name,
                "SECRET": data.secret.secret_arn,
            },
            log_group=logs.LogGroup(
                self,
                f"{name}Log",
                retention=logs.RetentionDays.ONE_WEEK,
                removal_policy=cdk.RemovalPolicy.DESTROY,
            ),
        )

    def _grant(self, data: DataStack) -> None:
        data.table.grant(
            self.probe,
            "dynamodb:GetItem",
            "dynamodb:PutItem",
            "dynamodb:Query",
            "dynamodb:UpdateItem",
            "dynamodb:ConditionCheckItem",
        )
        data.table.grant(self.step, "dynamodb:PutItem", "dynamodb:GetItem")
        data.bucket.grant_read(self.probe)
        data.bucket.grant_put(self.probe)
        data.guarded.grant_put(self.probe)
        data.secret.grant_read(self.probe)
        rule_arn = cdk.Arn.format(
            cdk.ArnComponents(service="events", resource="rule", resource_name=self.rule_name),
            self,
        )
        self.probe.add_to_role_policy(
            iam.PolicyStatement(
                actions=["events:EnableRule", "events:DisableRule", "events:PutRule"],
                resources=[rule_arn],
            )
        )

    def _api(self, function: lambda_.Function, guard: lambda_.Function) -> None:
        authorizer = authorizers.HttpLambdaAuthorizer(
            "Guard",
            guard,
            identity_source=[],
            response_types=[authorizers.HttpLambdaResponseType.SIMPLE],
            results_cache_ttl=cdk.Duration.seconds(0),
        )
        api = apigw.HttpApi(
            self,
            "HttpApi",
            cors_preflight=apigw.CorsPreflightOptions(
                allow_origins=["https://console.example"],
                allow_methods=[apigw.CorsHttpMethod.ANY],
                allow_headers=["authorization", "content-type"],
            ),
        )
        integration = integrations.HttpLambdaIntegration("Calls", function)
        api.add_routes(
            path="/v1/{proxy+}",
            methods=[apigw.HttpMethod.ANY],
            integration=integration,
            authorizer=authorizer,
        )
        api.add_routes(path="/open", methods=[apigw.HttpMethod.GET], integration=integration)
        cdk.CfnOutput(self, "ApiUrl", value=api.api_endpoint)


class FlowStack(cdk.Stack):
    """The workflow and the schedule."""

    def __init__(self, scope: Construct, name: str, compute: ComputeStack) -> None:
        super().__init__(scope, name)
        machine = sfn.StateMachine(
            self,
            "Flow",
            definition_body=sfn.DefinitionBody.from_file(str(HERE / "workflows/flow.asl.json")),
            definition_substitutions={"StepFunction": compute.step.function_arn},
        )
        # Made here: the functions' stack may not depend on this one.
        role = compute.probe.role
        assert role is not None
        grants = iam.Policy(self, "Grants", roles=[role])
        grants.add_statements(
            iam.PolicyStatement(
                actions=[
                    "states:StartExecution",
                    "states:SendTaskSuccess",
                    "states:SendTaskFailure",
                    "states:SendTaskHeartbeat",
                ],
                resources=[machine.state_machine_arn],
            ),
            iam.PolicyStatement(
                actions=["states:DescribeExecution"],
                resources=[
                    cdk.Arn.format(
                        cdk.ArnComponents(
                            service="states",
                            resource="execution",
                            resource_name=f"{machine.state_machine_name}:*",
                            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
                        ),
                        self,
                    )
                ],
            ),
        )
        events.Rule(
            self,
            "Tick",
            rule_name=compute.rule_name,
            schedule=events.Schedule.rate(cdk.Duration.minutes(1)),
            enabled=False,
            targets=[
                targets.LambdaFunction(
                    compute.step,
                    event=events.RuleTargetInput.from_object({"do": "tick", "table": True}),
                )
            ],
        )
        cdk.CfnOutput(self, "FlowArn", value=machine.state_machine_arn)
        cdk.CfnOutput(self, "RuleName", value=compute.rule_name)


def main() -> None:
    app = cdk.App()
    data = DataStack(app, "TinyData")
    compute = ComputeStack(app, "TinyCompute", data)
    FlowStack(app, "TinyFlow", compute)
    app.synth()


main()
