"""Each function may do what its code does, and nothing else."""

from collections.abc import Iterator

import pytest

from infra.catalog import FUNCTIONS
from tests.infra.templates import Assembly, Template, as_list, as_text

ACCOUNTS_ROLES = "podferry*"
OWN_KEYS = "<PodferryState-DeploymentId>/provider-keys/*"
SECRETS = "<PodferryState-DeploymentId>/secrets/*"
LOGS = {"logs:CreateLogStream", "logs:PutLogEvents"}
ROWS = {
    "dynamodb:BatchGetItem",
    "dynamodb:ConditionCheckItem",
    "dynamodb:DeleteItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:Query",
}
SECRET = {"secretsmanager:GetSecretValue"}
CALL_PROVIDERS = SECRET | {"sts:AssumeRole"}
KEEP_KEYS = {
    "secretsmanager:CreateSecret",
    "secretsmanager:DeleteSecret",
    "secretsmanager:PutSecretValue",
}
BEGIN = {"states:StartExecution", "events:EnableRule"}
ANSWER = {"states:SendTaskFailure", "states:SendTaskHeartbeat", "states:SendTaskSuccess"}
READ_OBJECTS = {"s3:GetObject", "s3:ListBucket"}

ALLOWED = {
    "api": ROWS | BEGIN | ANSWER,
    "market": ROWS | CALL_PROVIDERS,
    "provider_keys": ROWS | CALL_PROVIDERS | KEEP_KEYS,
    "library": ROWS | READ_OBJECTS | BEGIN | {"kms:Decrypt"},
    "secrets": ROWS | KEEP_KEYS,
    "agent_api": ROWS
    | ANSWER
    | SECRET
    | READ_OBJECTS
    | {"s3:PutObject", "kms:Decrypt", "kms:GenerateDataKey", "events:EnableRule"},
    "authorizer": {"dynamodb:GetItem"} | SECRET,
    "docs": set(),
    "steps_pods": ROWS | BEGIN | ANSWER,
    "steps_machines": ROWS | CALL_PROVIDERS | ANSWER | READ_OBJECTS | {"s3:PutObject"},
    "steps_snapshots": ROWS | ANSWER | READ_OBJECTS | {"kms:Decrypt"},
    "steps_sharing": ROWS
    | ANSWER
    | READ_OBJECTS
    | {"s3:PutObject", "kms:Decrypt", "kms:GenerateDataKey"},
    "autosave": ROWS,
    "sweeper": ROWS | CALL_PROVIDERS | BEGIN,
    "meter": ROWS,
    "garbage": ROWS | READ_OBJECTS | {"s3:DeleteObject", "kms:Decrypt"},
    "reconciler": ROWS | BEGIN | {"states:DescribeExecution", "events:DisableRule"},
}


@pytest.fixture
def control(assembly: Assembly) -> Template:
    return assembly.control


def grants(control: Template, function: str) -> Iterator[tuple[str, str]]:
    """Every allowed pair of action and resource."""
    for statement in control.statements(function):
        assert statement["Effect"] == "Allow"
        for action in as_list(statement["Action"]):
            for resource in as_list(statement["Resource"]):
                yield action, as_text(resource)


@pytest.mark.parametrize("function", ALLOWED)
def test_a_function_may_do_exactly_this(control: Template, function: str) -> None:
    assert {action for action, _ in grants(control, function)} == ALLOWED[function] | LOGS


def test_every_function_is_in_the_list() -> None:
    assert ALLOWED.keys() == {spec.name for spec in FUNCTIONS}


def test_no_action_has_a_wildcard(control: Template) -> None:
    for function in ALLOWED:
        assert not [action for action, _ in grants(control, function) if "*" in action]


def test_a_resource_has_a_wildcard_only_for_names_that_do_not_exist_yet(control: Template) -> None:
    endings = {
        resource[resource.index("*") :] if "/" not in resource else resource.split("/", 1)[1]
        for function in ALLOWED
        for _, resource in grants(control, function)
        if "*" in resource
    }
    names = {"*", "*/packs/*", "*/pages/*", "*/root", "agent/*", OWN_KEYS, SECRETS}
    assert endings == names | {ACCOUNTS_ROLES}
    for action, resource in grants(control, "reconciler"):
        if "*" in resource:
            assert action == "states:DescribeExecution"
            assert ":execution:podferry-PodferryControl-" in resource


def test_only_roles_that_are_named_for_us_can_be_taken_on(control: Template) -> None:
    for function in ALLOWED:
        for action, resource in grants(control, function):
            if action == "sts:AssumeRole":
                assert resource.endswith(":iam::*:role/podferry*")


def test_only_those_who_call_providers_read_their_keys(control: Template) -> None:
    who_call = {"market", "provider_keys", "steps_machines", "sweeper"}
    assert readers(control, "PodferryState-ProviderKeysSecretArn") == who_call
    assert with_texts(control, "GetSecretValue", OWN_KEYS) == who_call


def test_promise_11_only_the_agents_door_reads_secrets(control: Template) -> None:
    assert with_texts(control, "GetSecretValue", SECRETS) == {"agent_api"}


@pytest.mark.parametrize("verb", ["CreateSecret", "PutSecretValue", "DeleteSecret"])
@pytest.mark.parametrize(("writer", "names"), [("provider_keys", OWN_KEYS), ("secrets", SECRETS)])
def test_only_one_function_writes_texts_of_a_kind_and_no_others(
    control: Template, verb: str, writer: str, names: str
) -> None:
    assert with_texts(control, verb, names) == {writer}
    touched = {
        resource.rpartition(":secret:")[2]
        for action, resource in grants(control, writer)
        if action == f"secretsmanager:{verb}"
    }
    assert touched == {f"podferry/{names}"}


def with_texts(control: Template, verb: str, names: str) -> set[str]:
    return {
        function
        for function in ALLOWED
        for action, resource in grants(control, function)
        if action == f"secretsmanager:{verb}" and resource.endswith(names)
    }


def test_only_the_authorizer_reads_the_operator_key(control: Template) -> None:
    assert readers(control, "PodferryState-OperatorKeySecretArn") == {"authorizer"}


def readers(control: Template, export: str) -> set[str]:
    return {
        function
        for function in ALLOWED
        if any(resource == f"<{export}>" for _, resource in grants(control, function))
    }


def test_promise_11_only_the_agents_door_and_the_copier_of_shares_store_objects(
    control: Template,
) -> None:
    writers = {
        function
        for function in ALLOWED
        for action, resource in grants(control, function)
        if action == "s3:PutObject" and "<PodferryState-AgentBucket>" not in resource
    }
    assert writers == {"agent_api", "steps_sharing"}


def test_promise_12_what_copies_shares_cannot_reach_volumes(control: Template) -> None:
    reached = [resource for action, resource in grants(control, "steps_sharing") if "s3:" in action]
    assert reached
    assert not [resource for resource in reached if "Volume" in resource]


def test_promise_01_only_the_garbage_collector_may_delete_objects(control: Template) -> None:
    deleting = {
        (function, action, resource.partition("/")[2])
        for function in ALLOWED
        for action, resource in grants(control, function)
        if "s3:Delete" in action
    }
    keys = ("*/packs/*", "*/pages/*", "*/root")
    assert deleting == {("garbage", "s3:DeleteObject", key) for key in keys}


def test_nobody_may_delete_for_good_or_change_what_a_bucket_forgets(control: Template) -> None:
    granted = {action for function in ALLOWED for action, _ in grants(control, function)}
    forbidden = ("s3:DeleteObjectVersion", "s3:PutLifecycle", "s3:PutBucket", "s3:DeleteBucket")
    assert not [action for action in granted if action.startswith(forbidden)]


def test_the_garbage_collector_reads_roots_only(control: Template) -> None:
    read = {
        resource.partition("/")[2]
        for action, resource in grants(control, "garbage")
        if action == "s3:GetObject"
    }
    assert read == {"*/root"}


def test_a_workflow_may_invoke_the_step_functions_only(control: Template) -> None:
    for name, role in control.of_type("AWS::IAM::Role").items():
        if "Workflow" in name:
            (policy,) = role["Properties"]["Policies"]
            (statement,) = policy["PolicyDocument"]["Statement"]
            assert statement["Action"] == "lambda:InvokeFunction"
            targets = {as_text(arn).split("Function")[0] for arn in statement["Resource"]}
            assert targets == {
                "<StepsPods",
                "<StepsMachines",
                "<StepsSnapshots",
                "<StepsSharing",
            }
