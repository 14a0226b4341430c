"""Roles of functions count: what the template does not grant is refused."""

from local.aws.deploy import Outputs

from .conftest import Function


def _key(name: str) -> dict[str, dict[str, str]]:
    return {"pk": {"S": name}, "sk": {"S": "row"}}


def test_conditional_put_succeeds_once(probe: Function, outputs: Outputs) -> None:
    put = {
        "TableName": outputs["TinyData"]["TableName"],
        "Item": _key("once"),
        "ConditionExpression": "attribute_not_exists(pk)",
    }

    assert "error" not in probe.aws("dynamodb", "put_item", **put)
    assert probe.aws("dynamodb", "put_item", **put)["error"] == "ConditionalCheckFailedException"


def test_transaction_is_all_or_nothing(probe: Function, outputs: Outputs) -> None:
    table = outputs["TinyData"]["TableName"]
    put = {"Put": {"TableName": table, "Item": _key("half")}}
    check = {
        "ConditionCheck": {
            "TableName": table,
            "Key": _key("absent"),
            "ConditionExpression": "attribute_exists(pk)",
        }
    }

    refused = probe.aws("dynamodb", "transact_write_items", TransactItems=[put, check])
    found = probe.aws("dynamodb", "get_item", TableName=table, Key=_key("half"))

    assert refused["error"] == "TransactionCanceledException"
    assert "ConditionalCheckFailed" in refused["message"]
    assert "Item" not in found


def test_index_is_queried_with_the_functions_role(probe: Function, outputs: Outputs) -> None:
    table = outputs["TinyData"]["TableName"]
    item = _key("indexed") | {"gsi1pk": {"S": "state#running"}, "gsi1sk": {"S": "1"}}
    probe.aws("dynamodb", "put_item", TableName=table, Item=item)

    found = probe.aws(
        "dynamodb",
        "query",
        TableName=table,
        IndexName="gsi1",
        KeyConditionExpression="gsi1pk = :p",
        ExpressionAttributeValues={":p": {"S": "state#running"}},
    )

    assert [row["pk"]["S"] for row in found["Items"]] == ["indexed"]


def test_action_that_is_not_granted_is_refused(probe: Function, outputs: Outputs) -> None:
    refused = probe.aws(
        "dynamodb", "delete_item", TableName=outputs["TinyData"]["TableName"], Key=_key("any")
    )

    assert refused["error"] == "AccessDeniedException"


def test_function_without_grants_may_do_nothing(stranger: Function, outputs: Outputs) -> None:
    data = outputs["TinyData"]
    read = stranger.aws("dynamodb", "get_item", TableName=data["TableName"], Key=_key("any"))
    listing = stranger.aws("s3", "list_objects_v2", Bucket=data["BucketName"])
    secret = stranger.aws("secretsmanager", "get_secret_value", SecretId=data["SecretArn"])

    assert read["error"] == "AccessDeniedException"
    assert listing["error"] == "AccessDenied"
    assert secret["error"] == "AccessDeniedException"


def test_generated_secret_is_read_by_its_arn(probe: Function, outputs: Outputs) -> None:
    arn = outputs["TinyData"]["SecretArn"]

    found = probe.aws("secretsmanager", "get_secret_value", SecretId=arn)

    assert arn.startswith("arn:aws:secretsmanager:")
    assert '"user": "admin"' in found["SecretString"]
    assert '"password"' in found["SecretString"]


def test_unknown_secret_is_a_clear_error(probe: Function, outputs: Outputs) -> None:
    arn = outputs["TinyData"]["SecretArn"] + "x"

    refused = probe.aws("secretsmanager", "get_secret_value", SecretId=arn)

    assert refused["error"] in {"ResourceNotFoundException", "AccessDeniedException"}
