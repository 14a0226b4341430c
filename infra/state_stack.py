"""What outlives every release: table, buckets, key and secrets. Nothing here is ever deleted."""

import string
from dataclasses import dataclass

from aws_cdk import CfnOutput, Duration, Fn, RemovalPolicy, SecretValue, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.review import acknowledge

_ACCESS_LOG_REASON = (
    "Access logs record whole request lines, so they would collect presigned URLs that are still "
    "valid. Who got a URL for which object is an event in the table."
)


# `owned` lists what belongs to an owner; `active` is sparse and lists what needs attention.
TABLE_INDEXES = ("owned", "active")

DAYS_TO_UNDELETE = 7


@dataclass(frozen=True, slots=True)
class StateNames:
    """What the control stack knows of this one: names that CloudFormation looks up by export."""

    deployment_id: str
    table_name: str
    environments_bucket: str
    volumes_bucket: str
    agent_bucket: str
    key_arn: str
    operator_key_secret_arn: str
    provider_keys_secret_arn: str


class StateStack(Stack):
    """Keeps every byte that users would miss."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Podferry: state that outlives releases",
            termination_protection=True,
        )
        self._key = self._make_key()
        table = self._make_table()
        environments = self._make_snapshot_bucket("Environments")
        volumes = self._make_snapshot_bucket("Volumes")
        agent_bucket = self._make_agent_bucket()
        operator_key = self._make_operator_key()
        provider_keys = self._make_provider_keys()
        self.names = StateNames(
            deployment_id=self._publish("DeploymentId", self._own_id()),
            table_name=self._publish("TableName", table.table_name),
            environments_bucket=self._publish("EnvironmentsBucket", environments.bucket_name),
            volumes_bucket=self._publish("VolumesBucket", volumes.bucket_name),
            agent_bucket=self._publish("AgentBucket", agent_bucket.bucket_name),
            key_arn=self._publish("KeyArn", self._key.key_arn),
            operator_key_secret_arn=self._publish("OperatorKeySecretArn", operator_key.secret_arn),
            provider_keys_secret_arn=self._publish(
                "ProviderKeysSecretArn", provider_keys.secret_arn
            ),
        )

    def _publish(self, name: str, value: str) -> str:
        """Make an output and answer the expression that another stack reads it with."""
        export_name = f"{self.stack_name}-{name}"
        CfnOutput(self, name, value=value, export_name=export_name)
        return Fn.import_value(export_name)

    def _own_id(self) -> str:
        """8 hex digits of the stack's own id: stable for its whole life, new for a new stack."""
        uuid = Fn.select(2, Fn.split("/", self.stack_id))
        return Fn.select(0, Fn.split("-", uuid))

    def _make_key(self) -> kms.Key:
        key = kms.Key(
            self,
            "Key",
            description="Podferry: snapshots and alarms",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.RETAIN,
        )
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsMayPublish",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=["*"],  # In a key policy this is the key itself.
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            )
        )
        return key

    def _make_table(self) -> dynamodb.Table:
        table = dynamodb.Table(
            self,
            "Table",
            partition_key=_string("pk"),
            sort_key=_string("sk"),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute="forget_at",
            deletion_protection=True,
            removal_policy=RemovalPolicy.RETAIN,
        )
        for index in TABLE_INDEXES:
            table.add_global_secondary_index(
                index_name=index,
                partition_key=_string(f"{index}_pk"),
                sort_key=_string(f"{index}_sk"),
                projection_type=dynamodb.ProjectionType.ALL,
            )
        return table

    def _make_snapshot_bucket(self, name: str) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            name,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self._key,
            bucket_key_enabled=True,
            versioned=True,
            enforce_ssl=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            lifecycle_rules=[_forget_unfinished_uploads(), _forget_deleted_objects()],
            removal_policy=RemovalPolicy.RETAIN,
        )
        bucket.add_to_resource_policy(_write_once(bucket))
        acknowledge(bucket, "AwsSolutions-S1", _ACCESS_LOG_REASON)
        return bucket

    def _make_agent_bucket(self) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Agent",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            lifecycle_rules=[_forget_unfinished_uploads()],
            removal_policy=RemovalPolicy.RETAIN,
        )
        acknowledge(bucket, "AwsSolutions-S1", _ACCESS_LOG_REASON)
        acknowledge(
            bucket,
            "AwsSolutions-S10",
            "Many machine images have no TLS client, so the boot script may fetch the agent's "
            "bundle by plain HTTP. The bundle is no secret and the script checks its SHA-256.",
        )
        return bucket

    def _make_operator_key(self) -> secretsmanager.Secret:
        """The admin token is `<prefix>_<key>` of this JSON value, so `pf_admin_...`.

        CloudFormation makes a new key when this recipe changes, so it has to stay as it is.
        """
        secret = secretsmanager.Secret(
            self,
            "OperatorKey",
            description="Podferry operator: the token is <prefix>_<key>",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template='{"prefix":"pf_admin"}',  # noqa: S106 - only the name
                generate_string_key="key",
                password_length=43,
                exclude_characters=string.punctuation,
            ),
            removal_policy=RemovalPolicy.RETAIN,
        )
        acknowledge(
            secret,
            "AwsSolutions-SMG4",
            "The key stands in the operator's tools; it changes when the operator says so.",
        )
        return secret

    def _make_provider_keys(self) -> secretsmanager.Secret:
        """Starts as `{}`; the operator puts the keys in, a later deployment leaves them alone."""
        secret = secretsmanager.Secret(
            self,
            "ProviderKeys",
            description='Podferry providers: {"vastai": {"api_key": "..."}, ...}',
            secret_string_value=SecretValue.unsafe_plain_text("{}"),
            removal_policy=RemovalPolicy.RETAIN,
        )
        acknowledge(
            secret,
            "AwsSolutions-SMG4",
            "The keys are issued by GPU providers; AWS cannot rotate them.",
        )
        return secret


def _string(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def _forget_unfinished_uploads() -> s3.LifecycleRule:
    return s3.LifecycleRule(
        id="forget-unfinished-uploads", abort_incomplete_multipart_upload_after=Duration.days(1)
    )


def _forget_deleted_objects() -> s3.LifecycleRule:
    """What the garbage collector deletes is only hidden, and could be brought back until then."""
    return s3.LifecycleRule(
        id="forget-deleted-objects",
        noncurrent_version_expiration=Duration.days(DAYS_TO_UNDELETE),
        expired_object_delete_marker=True,
    )


def _write_once(bucket: s3.Bucket) -> iam.PolicyStatement:
    """Objects are named by their content: nobody may replace one, not even with a leaked URL."""
    return iam.PolicyStatement(
        sid="WriteOnce",
        effect=iam.Effect.DENY,
        principals=[iam.AnyPrincipal()],
        actions=["s3:PutObject"],
        resources=[bucket.arn_for_objects("*")],
        conditions={"Null": {"s3:if-none-match": "true"}},
    )
