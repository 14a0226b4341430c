"""Creates and updates one CloudFormation stack and says what went wrong with it."""

import time
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from local.aws.errors import DeployError

CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
POLL_SECONDS = 0.05
DEADLINE_SECONDS = 300
# A stack whose first creation failed cannot be updated, only replaced.
DEAD_STATES = {"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"}
GOOD_STATES = {"CREATE_COMPLETE", "UPDATE_COMPLETE"}


class StackDeployer:
    """Brings one stack to the state of its template.

    Args:
        name: of the stack.
        cloudformation: a boto3 client.
    """

    def __init__(self, name: str, cloudformation: Any) -> None:
        self._name = name
        self._cloudformation = cloudformation

    def apply(
        self, template_url: str, tags: Mapping[str, str], parameters: Mapping[str, str]
    ) -> tuple[str, dict[str, str]]:
        """Creates or updates the stack; returns what happened and the outputs.

        Raises:
            DeployError: lists the failed resources with their reasons.
        """
        try:
            return self._apply(
                {
                    "StackName": self._name,
                    "TemplateURL": template_url,
                    "Capabilities": CAPABILITIES,
                    "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                    "Parameters": [
                        {"ParameterKey": key, "ParameterValue": value}
                        for key, value in parameters.items()
                    ],
                }
            )
        except ClientError as refused:
            message = refused.response["Error"]["Message"]
            raise DeployError(f"{self._name}: {message}") from refused

    def _apply(self, request: dict[str, Any]) -> tuple[str, dict[str, str]]:
        started = time.monotonic()
        known = self._describe()
        if known is not None and known["StackStatus"] in DEAD_STATES:
            self._delete()
            known = None
        if known is None:
            self._cloudformation.create_stack(**request)
        elif not self._update(request):
            return "no change", _outputs(known)
        done = self._wait()
        return f"{done['StackStatus']} in {time.monotonic() - started:.1f} s", _outputs(done)

    def _update(self, request: dict[str, Any]) -> bool:
        try:
            self._cloudformation.update_stack(**request)
        except ClientError as refused:
            if "No updates are to be performed" in refused.response["Error"]["Message"]:
                return False
            raise
        return True

    def _describe(self) -> dict[str, Any] | None:
        try:
            answer = self._cloudformation.describe_stacks(StackName=self._name)
        except ClientError as missing:
            if "does not exist" in missing.response["Error"]["Message"]:
                return None
            raise
        found: dict[str, Any] = answer["Stacks"][0]
        return found

    def _wait(self) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            stack = self._describe()
            if stack is None:
                raise DeployError(f"{self._name}: the stack is gone")
            if stack["StackStatus"] in GOOD_STATES:
                return stack
            if not stack["StackStatus"].endswith("IN_PROGRESS"):
                raise DeployError(self._failure(stack))
            time.sleep(POLL_SECONDS)
        raise DeployError(f"{self._name}: not complete after {DEADLINE_SECONDS} s")

    def _delete(self) -> None:
        self._cloudformation.delete_stack(StackName=self._name)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            stack = self._describe()
            if stack is None or stack["StackStatus"] == "DELETE_COMPLETE":
                return
            time.sleep(POLL_SECONDS)
        raise DeployError(f"{self._name}: the failed stack cannot be deleted; use an empty --data")

    def _failure(self, stack: dict[str, Any]) -> str:
        answer = self._cloudformation.describe_stack_events(StackName=stack["StackId"])
        lines = [
            f"  {event['LogicalResourceId']} ({event['ResourceType']}): "
            f"{event.get('ResourceStatusReason', 'no reason given')}"
            for event in reversed(answer["StackEvents"])
            if "FAILED" in event["ResourceStatus"]
        ]
        reason = stack.get("StackStatusReason", "")
        return "\n".join([f"{self._name}: {stack['StackStatus']} {reason}".rstrip(), *lines])


def _outputs(stack: dict[str, Any]) -> dict[str, str]:
    return {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}
