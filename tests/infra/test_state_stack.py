"""State survives releases, is encrypted, and cannot be overwritten."""

import string

import pytest

from tests.infra.templates import Assembly, Resource, Template

KEEPERS = (
    "AWS::DynamoDB::Table",
    "AWS::S3::Bucket",
    "AWS::KMS::Key",
    "AWS::SecretsManager::Secret",
)


@pytest.fixture
def state(assembly: Assembly) -> Template:
    return assembly.state


def test_nothing_that_holds_data_is_deleted_with_the_stack(state: Template) -> None:
    for kind in KEEPERS:
        for name, resource in state.of_type(kind).items():
            assert resource["DeletionPolicy"] == "Retain", name
            assert resource["UpdateReplacePolicy"] == "Retain", name


def test_the_stack_holds_nothing_that_computes(state: Template) -> None:
    kinds = {resource["Type"] for resource in state.body["Resources"].values()}
    assert kinds == {*KEEPERS, "AWS::S3::BucketPolicy"}


def test_the_table_has_the_keys_indexes_and_expiry_that_the_adapter_uses(state: Template) -> None:
    (table,) = state.properties("AWS::DynamoDB::Table")
    assert _keys(table) == ["pk", "sk"]
    indexes = {one["IndexName"]: one for one in table["GlobalSecondaryIndexes"]}
    assert {name: _keys(index) for name, index in indexes.items()} == {
        "owned": ["owned_pk", "owned_sk"],
        "active": ["active_pk", "active_sk"],
    }
    assert all(one["Projection"] == {"ProjectionType": "ALL"} for one in indexes.values())
    assert table["TimeToLiveSpecification"] == {"AttributeName": "forget_at", "Enabled": True}


def test_the_table_can_be_restored_to_any_minute_and_not_be_deleted(state: Template) -> None:
    (table,) = state.properties("AWS::DynamoDB::Table")
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["DeletionProtectionEnabled"] is True


def test_promise_17_the_table_costs_nothing_at_rest(state: Template) -> None:
    (table,) = state.properties("AWS::DynamoDB::Table")
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert "ProvisionedThroughput" not in table


@pytest.mark.parametrize("name", ["Environments", "Volumes"])
def test_snapshot_buckets_are_versioned_and_use_our_key(state: Template, name: str) -> None:
    bucket = _bucket(state, name)
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["BucketKeyEnabled"] is True
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    key = rule["ServerSideEncryptionByDefault"]["KMSMasterKeyID"]["Fn::GetAtt"][0]
    assert key in state.of_type("AWS::KMS::Key")


def test_no_bucket_is_ever_public_and_unfinished_uploads_go_away(state: Template) -> None:
    for bucket in state.properties("AWS::S3::Bucket"):
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
        rules = bucket["LifecycleConfiguration"]["Rules"]
        assert rules[0]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}


def test_what_is_deleted_from_a_snapshot_bucket_can_be_brought_back_for_a_week(
    state: Template,
) -> None:
    versioned = [
        bucket
        for bucket in state.properties("AWS::S3::Bucket")
        if "VersioningConfiguration" in bucket
    ]
    assert len(versioned) == 2
    for bucket in versioned:
        _, rule = bucket["LifecycleConfiguration"]["Rules"]
        assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 7}
        assert rule["ExpiredObjectDeleteMarker"] is True
        assert "ExpirationInDays" not in rule


@pytest.mark.parametrize("name", ["Environments", "Volumes"])
def test_promise_11_snapshot_buckets_refuse_overwriting_and_plain_http(
    state: Template, name: str
) -> None:
    denied = [
        (one["Action"], one["Condition"])
        for one in _policy(state, name)
        if one["Effect"] == "Deny" and one["Principal"] == {"AWS": "*"}
    ]
    assert denied == [
        ("s3:*", {"Bool": {"aws:SecureTransport": "false"}}),
        ("s3:PutObject", {"Null": {"s3:if-none-match": "true"}}),
    ]


def test_the_agent_bucket_may_be_read_without_tls(state: Template) -> None:
    assert _policy(state, "Agent") == []


def test_the_key_rotates(state: Template) -> None:
    (key,) = state.properties("AWS::KMS::Key")
    assert key["EnableKeyRotation"] is True


def test_the_operator_key_is_generated_and_provider_keys_start_empty(state: Template) -> None:
    secrets = state.of_type("AWS::SecretsManager::Secret")
    generated, given = (
        next(one["Properties"] for name, one in secrets.items() if name.startswith(prefix))
        for prefix in ("OperatorKey", "ProviderKeys")
    )
    recipe = generated["GenerateSecretString"]
    assert recipe["SecretStringTemplate"] == '{"prefix":"pf_admin"}'
    assert recipe["GenerateStringKey"] == "key"
    assert recipe["PasswordLength"] >= 43
    assert set(recipe["ExcludeCharacters"]) == set(string.punctuation)
    assert given["SecretString"] == "{}"


def test_the_deployment_id_comes_from_the_stacks_own_id(state: Template) -> None:
    output = state.body["Outputs"]["DeploymentId"]
    assert output["Export"] == {"Name": "PodferryState-DeploymentId"}
    uuid = {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}
    assert output["Value"] == {"Fn::Select": [0, {"Fn::Split": ["-", uuid]}]}


def _keys(table_or_index: Resource) -> list[str]:
    return [key["AttributeName"] for key in table_or_index["KeySchema"]]


def _bucket(state: Template, prefix: str) -> Resource:
    buckets = state.of_type("AWS::S3::Bucket").items()
    bucket: Resource
    (bucket,) = (one["Properties"] for name, one in buckets if name.startswith(prefix))
    return bucket


def _policy(state: Template, prefix: str) -> list[Resource]:
    return [
        statement
        for policy in state.properties("AWS::S3::BucketPolicy")
        if policy["Bucket"]["Ref"].startswith(prefix)
        for statement in policy["PolicyDocument"]["Statement"]
    ]
