"""Deploys a CDK cloud assembly to the embedded AWS, without Node and without the CDK CLI.

The templates are the ones that `cdk deploy` would send to AWS.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError

from local.aws import assembly
from local.aws.assembly import Asset, Place, Stack
from local.aws.client import client
from local.aws.errors import DeployError, LocalAWSError
from local.aws.settings import REGION
from local.aws.zipping import zip_directory

Outputs = dict[str, dict[str, str]]
Report = Callable[[str], None]

CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
BOOTSTRAP_VERSION = "30"  # Templates check that their account was bootstrapped at least to 6.
BOOTSTRAP_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
POLL_SECONDS = 0.05
STACK_DEADLINE_SECONDS = 300
# A stack whose first creation failed cannot be updated, only replaced.
DEAD_STATES = {"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"}
GOOD_STATES = {"CREATE_COMPLETE", "UPDATE_COMPLETE"}


def deploy(directory: Path, endpoint: str, report: Report = print) -> Outputs:
    """Publishes the assets and creates or updates every stack, in order of dependency.

    Running it again without a change is quick and changes nothing.

    Args:
        directory: the cloud assembly (`cdk.out`).
        endpoint: address of the embedded AWS.
        report: called with one line of text per stack.

    Returns:
        The outputs of each stack by its name.

    Raises:
        DeployError: the assembly is unusable or a stack failed; lists resources and reasons.
    """
    account = _account(endpoint)
    plan = assembly.read(directory, Place(account=account, region=REGION))
    _mark_bootstrapped(endpoint)
    _publish(plan.assets, client("s3", endpoint))
    cloudformation = client("cloudformation", endpoint)
    outputs: Outputs = {}
    for stack in plan.stacks:
        try:
            outputs[stack.name] = _deploy_stack(stack, endpoint, cloudformation, report)
        except ClientError as refused:
            message = refused.response["Error"]["Message"]
            raise DeployError(f"{stack.name}: {message}") from refused
    return outputs


def _account(endpoint: str) -> str:
    try:
        return str(client("sts", endpoint).get_caller_identity()["Account"])
    except EndpointConnectionError as nobody:
        raise DeployError(
            f"nothing answers at {endpoint}: start the embedded AWS first (python -m local.aws)"
        ) from nobody


def _mark_bootstrapped(endpoint: str) -> None:
    client("ssm", endpoint).put_parameter(
        Name=BOOTSTRAP_PARAMETER, Value=BOOTSTRAP_VERSION, Type="String", Overwrite=True
    )


def _publish(assets: tuple[Asset, ...], s3: Any) -> None:
    for bucket in sorted({asset.bucket for asset in assets}):
        if not _exists(s3.head_bucket, Bucket=bucket):
            s3.create_bucket(Bucket=bucket)
    for asset in assets:
        # Keys are content hashes, so what is there is right.
        if not _exists(s3.head_object, Bucket=asset.bucket, Key=asset.key):
            body = zip_directory(asset.source) if asset.is_directory else asset.source.read_bytes()
            s3.put_object(Bucket=asset.bucket, Key=asset.key, Body=body)


def _exists(head: Callable[..., Any], **target: str) -> bool:
    try:
        head(**target)
    except ClientError as missing:
        if missing.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return False
        raise
    return True


def _deploy_stack(
    stack: Stack, endpoint: str, cloudformation: Any, report: Report
) -> dict[str, str]:
    started = time.monotonic()
    known = _describe(stack.name, cloudformation)
    if known is not None and known["StackStatus"] in DEAD_STATES:
        _delete(stack.name, cloudformation)
        known = None
    request = {
        "StackName": stack.name,
        "TemplateURL": f"{endpoint}/{stack.bucket}/{stack.key}",
        "Capabilities": CAPABILITIES,
        "Tags": [{"Key": key, "Value": value} for key, value in stack.tags],
    }
    if known is None:
        cloudformation.create_stack(**request)
    elif not _update(request, cloudformation):
        report(f"{stack.name}: no change")
        return _outputs(known)
    done = _wait(stack.name, cloudformation)
    report(f"{stack.name}: {done['StackStatus']} in {time.monotonic() - started:.1f} s")
    return _outputs(done)


def _update(request: dict[str, Any], cloudformation: Any) -> bool:
    try:
        cloudformation.update_stack(**request)
    except ClientError as refused:
        if "No updates are to be performed" in refused.response["Error"]["Message"]:
            return False
        raise
    return True


def _describe(name: str, cloudformation: Any) -> dict[str, Any] | None:
    try:
        answer = cloudformation.describe_stacks(StackName=name)
    except ClientError as missing:
        if "does not exist" in missing.response["Error"]["Message"]:
            return None
        raise
    found: dict[str, Any] = answer["Stacks"][0]
    return found


def _wait(name: str, cloudformation: Any) -> dict[str, Any]:
    deadline = time.monotonic() + STACK_DEADLINE_SECONDS
    while time.monotonic() < deadline:
        stack = _describe(name, cloudformation)
        if stack is None:
            raise DeployError(f"{name}: the stack is gone")
        if stack["StackStatus"] in GOOD_STATES:
            return stack
        if not stack["StackStatus"].endswith("IN_PROGRESS"):
            raise DeployError(_failure(stack, cloudformation))
        time.sleep(POLL_SECONDS)
    raise DeployError(f"{name}: not complete after {STACK_DEADLINE_SECONDS} s")


def _delete(name: str, cloudformation: Any) -> None:
    cloudformation.delete_stack(StackName=name)
    deadline = time.monotonic() + STACK_DEADLINE_SECONDS
    while time.monotonic() < deadline:
        stack = _describe(name, cloudformation)
        if stack is None or stack["StackStatus"] == "DELETE_COMPLETE":
            return
        time.sleep(POLL_SECONDS)
    raise DeployError(f"{name}: the failed stack cannot be deleted; start with an empty --data")


def _failure(stack: dict[str, Any], cloudformation: Any) -> str:
    events = cloudformation.describe_stack_events(StackName=stack["StackId"])["StackEvents"]
    lines = [
        f"  {event['LogicalResourceId']} ({event['ResourceType']}): "
        f"{event.get('ResourceStatusReason', 'no reason given')}"
        for event in reversed(events)
        if "FAILED" in event["ResourceStatus"]
    ]
    reason = stack.get("StackStatusReason", "")
    return "\n".join([f"{stack['StackName']}: {stack['StackStatus']} {reason}".rstrip(), *lines])


def _outputs(stack: dict[str, Any]) -> dict[str, str]:
    return {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}


def main(argv: list[str] | None = None) -> int:
    """Prints the outputs of all stacks as JSON."""
    parser = argparse.ArgumentParser(prog="python -m local.aws.deploy", description=__doc__)
    parser.add_argument("assembly", help="directory made by `python app.py`")
    parser.add_argument("--endpoint", required=True, help="address of the embedded AWS")
    arguments = parser.parse_args(argv)
    try:
        outputs = deploy(
            Path(arguments.assembly), arguments.endpoint, lambda line: print(line, file=sys.stderr)
        )
    except LocalAWSError as problem:
        print(f"local.aws.deploy: {problem}", file=sys.stderr)
        return 1
    print(json.dumps(outputs, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
