"""Deploys a CDK cloud assembly to the embedded AWS, without Node and without the CDK CLI.

The templates are the ones that `cdk deploy` would send to AWS.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError

from local.aws import assembly
from local.aws.assembly import Asset, Place, Stack
from local.aws.client import CONFIG, client, make_client
from local.aws.errors import DeployError, LocalAWSError
from local.aws.settings import REGION
from local.aws.stacks import StackDeployer
from local.aws.zipping import zip_directory

Outputs = dict[str, dict[str, str]]
Report = Callable[[str], None]
Parameters = Mapping[str, Mapping[str, str]]

BOOTSTRAP_VERSION = "30"  # Templates check that their account was bootstrapped at least to 6.
BOOTSTRAP_PARAMETER = "/cdk-bootstrap/hnb659fds/version"


def deploy(
    directory: Path,
    endpoint: str,
    report: Report = print,
    parameters: Parameters | None = None,
) -> Outputs:
    """Publishes the assets and creates or updates every stack, in order of dependency.

    Running it again without a change is quick and changes nothing.

    Args:
        directory: the cloud assembly (`cdk.out`).
        endpoint: address of the embedded AWS.
        report: called with one line of text per stack.
        parameters: values of template parameters, by stack and name; others keep their default.

    Returns:
        The outputs of each stack by its name.

    Raises:
        DeployError: the assembly is unusable or a stack failed; lists resources and reasons.
    """
    account = _account(endpoint)
    plan = assembly.read(directory, Place(account=account, region=REGION))
    given = parameters or {}
    _refuse_unknown(given, plan.stacks)
    _mark_bootstrapped(endpoint)
    _publish(plan.assets, client("s3", endpoint))
    return {
        stack.name: _deploy_stack(stack, endpoint, report, given.get(stack.name, {}))
        for stack in plan.stacks
    }


def _refuse_unknown(given: Parameters, stacks: tuple[Stack, ...]) -> None:
    unknown = sorted(set(given) - {stack.name for stack in stacks})
    if unknown:
        raise DeployError(f"parameters are given for stacks that do not exist: {unknown}")


def _deploy_stack(
    stack: Stack, endpoint: str, report: Report, parameters: Mapping[str, str]
) -> dict[str, str]:
    deployer = StackDeployer(stack.name, client("cloudformation", endpoint))
    url = f"{endpoint}/{stack.bucket}/{stack.key}"
    change, outputs = deployer.apply(url, dict(stack.tags), parameters)
    report(f"{stack.name}: {change}")
    return outputs


def _account(endpoint: str) -> str:
    # Who forgot to start the server wants to know it at once, without retries.
    sts = make_client("sts", endpoint, CONFIG.merge(Config(retries={"total_max_attempts": 1})))
    try:
        return str(sts.get_caller_identity()["Account"])
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
