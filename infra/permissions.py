"""Turns rights into IAM statements and the environment variables that name the same things."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets

from infra.catalog import WORKFLOWS, Right
from infra.state_stack import TABLE_INDEXES, StateNames

# Keys of a snapshot's objects: <account>/<snapshot>/packs/<sha256>, .../pages/<sha256>, .../root
ROOT_KEYS = "*/root"
SNAPSHOT_KEYS = ("*/packs/*", "*/pages/*", ROOT_KEYS)
AGENT_KEYS = "agent/*"
# Secrets of accounts: podferry/<deployment>/provider-keys/<account>/<provider>
OWN_KEYS = "provider-keys/*"
# Roles that accounts let us take on, in whichever AWS account.
ACCOUNTS_ROLES = "*:role/podferry*"
# podferry/<deployment>/secrets/<account>/<name>
SECRETS = "secrets/*"

READ_ROW = ("dynamodb:GetItem",)
# A row is replaced as a whole, under a condition; nothing updates or scans in place.
WRITE_ROWS = (
    "dynamodb:BatchGetItem",
    "dynamodb:ConditionCheckItem",
    "dynamodb:DeleteItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
)


@dataclass(frozen=True, slots=True)
class Capability:
    """What one right comes to: statements and settings."""

    statements: tuple[iam.PolicyStatement, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    wildcards: Mapping[str, str] = field(default_factory=dict)
    """Resource names with `*` as cdk-nag spells them, and why no narrower name exists."""


@dataclass(frozen=True, slots=True)
class AgentBundle:
    """The agent's tarball as published by the deployment."""

    asset: assets.Asset
    sha256: str


@dataclass(frozen=True, slots=True)
class Names:
    """Names that are fixed in advance, so that functions know them without a cycle."""

    workflows: Mapping[str, str]
    reconciler_rule: str


@dataclass(frozen=True, slots=True)
class Addresses:
    """Values that are given when the template is deployed."""

    public: str
    """Where users and machines call the API."""
    registries: str
    """Container registries to ask besides the public ones."""


class Permissions:
    """Answers what a right means in this deployment."""

    def __init__(
        self,
        stack: Stack,
        state: StateNames,
        names: Names,
        bundle: AgentBundle,
        addresses: Addresses,
    ) -> None:
        self._stack = stack
        self._state = state
        self._names = names
        self._bundle = bundle
        self._addresses = addresses

    def of(self, right: Right) -> Capability:
        """The least that `right` needs."""
        return {
            Right.READ_TABLE: self._read_table,
            Right.WRITE_TABLE: self._write_table,
            Right.READ_OPERATOR_KEY: self._read_operator_key,
            Right.READ_PROVIDER_KEYS: self._read_provider_keys,
            Right.KEEP_OWN_KEYS: lambda: self._keep_texts(OWN_KEYS),
            Right.KEEP_SECRETS: lambda: self._keep_texts(SECRETS),
            Right.READ_SECRETS: self._read_secrets,
            Right.BEGIN_OPERATIONS: self._begin_operations,
            Right.RECONCILE: self._reconcile,
            Right.ANSWER_WORKFLOWS: self._answer_workflows,
            Right.LEND_OBJECTS: self._lend_objects,
            Right.VERIFY_OBJECTS: self._verify_objects,
            Right.COPY_OBJECTS: self._copy_objects,
            Right.COLLECT_GARBAGE: self._collect_garbage,
            Right.SHIP_AGENT: self._ship_agent,
            Right.KNOW_ADDRESS: self._know_address,
            Right.KNOW_REGISTRIES: self._know_registries,
            Right.KNOW_RECONCILER: self._know_reconciler,
            Right.WAKE_RECONCILER: self._wake_reconciler,
        }[right]()

    def _read_table(self) -> Capability:
        return Capability((_allow(READ_ROW, self._table_arn()),))

    def _write_table(self) -> Capability:
        table = self._table_arn()
        indexes = [f"{table}/index/{index}" for index in TABLE_INDEXES]
        return Capability((_allow(WRITE_ROWS, table), _allow(("dynamodb:Query",), *indexes)))

    def _read_operator_key(self) -> Capability:
        arn = self._state.operator_key_secret_arn
        return Capability((_read_secret(arn),), {"OPERATOR_KEY_SECRET_ARN": arn})

    def _read_provider_keys(self) -> Capability:
        """The deployment's and the accounts' own: whoever calls providers uses either.

        In place of a key an account may name a role of its own, which has to trust us.
        """
        arn, own = self._state.provider_keys_secret_arn, self._texts_arn(OWN_KEYS)
        roles = f"arn:{self._stack.partition}:iam::{ACCOUNTS_ROLES}"
        reason = "Roles of accounts are in AWS accounts that we do not know yet."
        return Capability(
            (_read_secret(arn), _read_secret(own), _allow(("sts:AssumeRole",), roles)),
            {"PROVIDER_KEYS_SECRET_ARN": arn},
            self._texts_wildcard(OWN_KEYS)
            | {f"arn:<AWS::Partition>:iam::{ACCOUNTS_ROLES}": reason},
        )

    def _read_secrets(self) -> Capability:
        statement = _read_secret(self._texts_arn(SECRETS))
        return Capability((statement,), wildcards=self._texts_wildcard(SECRETS))

    def _keep_texts(self, names: str) -> Capability:
        """Write texts of accounts, and not read them."""
        actions = tuple(
            f"secretsmanager:{verb}" for verb in ("CreateSecret", "DeleteSecret", "PutSecretValue")
        )
        statement = _allow(actions, self._texts_arn(names))
        return Capability((statement,), wildcards=self._texts_wildcard(names))

    def _texts_arn(self, names: str) -> str:
        return self._stack.format_arn(
            service="secretsmanager",
            resource="secret",
            resource_name=f"podferry/{self._state.deployment_id}/{names}",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _texts_wildcard(self, names: str) -> dict[str, str]:
        export = self._stack.resolve(self._state.deployment_id)["Fn::ImportValue"]
        region = "<AWS::Region>:<AWS::AccountId>"
        name = f"arn:<AWS::Partition>:secretsmanager:{region}:secret:podferry/{export}/{names}"
        return {name: "Accounts are in the name, and they come after deployments."}

    def _begin_operations(self) -> Capability:
        """Start an execution, and the reconciler first: it finds operations that did not start."""
        arns = {spec.setting: self._workflow_arn(spec.name) for spec in WORKFLOWS}
        return Capability(
            (
                _allow(("states:StartExecution",), *arns.values()),
                _allow(("events:EnableRule",), self._rule_arn()),
            ),
            arns | self._reconciler_settings(),
        )

    def _reconcile(self) -> Capability:
        """See whether executions still run, and stop looking when nothing is left."""
        executions = [f"{name}:*" for name in self._names.workflows.values()]
        arns = [self._states_arn("execution", execution) for execution in executions]
        return Capability(
            (
                _allow(("states:DescribeExecution",), *arns),
                _allow(("events:DisableRule",), self._rule_arn()),
            ),
            self._reconciler_settings(),
            {
                f"{_NAG_STATES_ARN}:execution:{execution}": (
                    "An execution is named after its operation, which does not exist yet."
                )
                for execution in executions
            },
        )

    def _answer_workflows(self) -> Capability:
        actions = (
            "states:SendTaskFailure",
            "states:SendTaskHeartbeat",
            "states:SendTaskSuccess",
        )
        arns = [self._workflow_arn(spec.name) for spec in WORKFLOWS]
        return Capability((_allow(actions, *arns),))

    def _lend_objects(self) -> Capability:
        """A presigned URL can do what its signer may do: add and read named objects.

        Nothing signs a listing; that right is there because S3 answers 403 instead of 404 to those
        who may not list, and "missing" must not look like "forbidden".
        """
        return self._on_snapshots(
            ("s3:GetObject", "s3:PutObject"), ("kms:Decrypt", "kms:GenerateDataKey")
        )

    def _verify_objects(self) -> Capability:
        return self._on_snapshots(("s3:GetObject",), ("kms:Decrypt",))

    def _copy_objects(self) -> Capability:
        """Read one account's environment and write it anew for another one; overwrite nothing."""
        return self._on_snapshots(
            ("s3:GetObject", "s3:PutObject"),
            ("kms:Decrypt", "kms:GenerateDataKey"),
            (self._state.environments_bucket,),
        )

    def _collect_garbage(self) -> Capability:
        """Hide what nothing needs. Not `DeleteObjectVersion`: for days it can be brought back."""
        buckets = self._state.environments_bucket, self._state.volumes_bucket
        roots = [f"{self._bucket_arn(bucket)}/{ROOT_KEYS}" for bucket in buckets]
        deleting = self._on_snapshots(("s3:DeleteObject",), ("kms:Decrypt",))
        return Capability(
            (*deleting.statements, _allow(("s3:GetObject",), *roots)),
            deleting.settings,
            deleting.wildcards,
        )

    def _on_snapshots(
        self,
        on_objects: tuple[str, ...],
        on_key: tuple[str, ...],
        only: tuple[str, ...] | None = None,
    ) -> Capability:
        """Objects of both buckets, or of these only."""
        buckets = only or (self._state.environments_bucket, self._state.volumes_bucket)
        objects = [(bucket, keys) for bucket in buckets for keys in SNAPSHOT_KEYS]
        arns = [f"{self._bucket_arn(bucket)}/{keys}" for bucket, keys in objects]
        return Capability(
            (
                _allow(on_objects, *arns),
                _allow(("s3:ListBucket",), *map(self._bucket_arn, buckets)),
                _allow(on_key, self._state.key_arn),
            ),
            {
                "ENVIRONMENTS_BUCKET": self._state.environments_bucket,
                "VOLUMES_BUCKET": self._state.volumes_bucket,
            },
            {
                self._nag_name(bucket, keys): (
                    "Accounts, snapshots and hashes are in the key; the function itself checks "
                    "that a machine gets URLs for the objects of its own pod only."
                )
                for bucket, keys in objects
            },
        )

    def _ship_agent(self) -> Capability:
        """The published bundle is copied once to the bucket that machines fetch it from."""
        bucket, asset = self._state.agent_bucket, self._bundle.asset
        copies = f"{self._bucket_arn(bucket)}/{AGENT_KEYS}"
        return Capability(
            (
                _allow(("s3:GetObject", "s3:PutObject"), copies),
                # Without it a missing copy looks like a forbidden one (403).
                _allow(("s3:ListBucket",), self._bucket_arn(bucket)),
                _allow(("s3:GetObject",), asset.bucket.arn_for_objects(asset.s3_object_key)),
            ),
            {
                "AGENT_BUCKET": bucket,
                "AGENT_BUNDLE_SOURCE_BUCKET": asset.s3_bucket_name,
                "AGENT_BUNDLE_SOURCE_KEY": asset.s3_object_key,
                "AGENT_BUNDLE_SHA256": self._bundle.sha256,
            },
            {
                self._nag_name(bucket, AGENT_KEYS): (
                    "A bundle is named by its hash, which changes with every release of the agent."
                )
            },
        )

    def _know_address(self) -> Capability:
        return Capability(settings={"API_URL": self._addresses.public})

    def _know_registries(self) -> Capability:
        return Capability(settings={"IMAGE_REGISTRIES": self._addresses.registries})

    def _know_reconciler(self) -> Capability:
        """All steps share the code that begins operations, which asks for the rule's name."""
        return Capability(settings=self._reconciler_settings())

    def _wake_reconciler(self) -> Capability:
        """A lost machine that dials in is looked after, also when nothing else runs."""
        enable = _allow(("events:EnableRule",), self._rule_arn())
        return Capability((enable,), self._reconciler_settings())

    def _reconciler_settings(self) -> dict[str, str]:
        return {"RECONCILER_RULE_NAME": self._names.reconciler_rule}

    def _rule_arn(self) -> str:
        return self._stack.format_arn(
            service="events", resource="rule", resource_name=self._names.reconciler_rule
        )

    def _nag_name(self, bucket: str, keys: str) -> str:
        """How cdk-nag spells an object ARN whose bucket comes from another stack's export."""
        return f"arn:<AWS::Partition>:s3:::{self._stack.resolve(bucket)['Fn::ImportValue']}/{keys}"

    def _table_arn(self) -> str:
        return self._stack.format_arn(
            service="dynamodb", resource="table", resource_name=self._state.table_name
        )

    def _bucket_arn(self, name: str) -> str:
        return self._stack.format_arn(
            service="s3",
            region="",
            account="",
            resource=name,
            arn_format=ArnFormat.NO_RESOURCE_NAME,
        )

    def _workflow_arn(self, name: str) -> str:
        return self._states_arn("stateMachine", self._names.workflows[name])

    def _states_arn(self, kind: str, name: str) -> str:
        return self._stack.format_arn(
            service="states",
            resource=kind,
            resource_name=name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )


_NAG_STATES_ARN = "arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>"


def _allow(actions: tuple[str, ...], *resources: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=list(actions), resources=list(resources))


def _read_secret(arn: str) -> iam.PolicyStatement:
    return _allow(("secretsmanager:GetSecretValue",), arn)
