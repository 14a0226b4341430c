"""What end-to-end tests do to a stack: ask its API, misuse its parts, look behind the curtain."""

import time
from collections.abc import Callable
from typing import Any

import httpx

from local.api import Api, ApiError
from local.aws.client import client
from local.demo import pod_shell
from local.stack import STATE_STACK, LocalStack

FILL = "mkdir -p /workspace/d && head -c {mib}M /dev/urandom > /workspace/d/big && sync"
DIGEST = "cd /workspace && find . -type f | sort | xargs sha256sum | sha256sum"

IMAGE = "docker.io/library/debian:12"


class Deployment:
    """A running stack."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        assert stack.info is not None
        self.info = stack.info

    def new_user(self) -> "User":
        operator = Api(self.info.api_url, self.info.operator_key)
        try:
            made = operator.post("/v1/accounts", {"name": "test"})
        finally:
            operator.close()
        return User(self, made["account"]["id"], made["token"])

    def aws(self, service: str) -> Any:
        return client(service, self.info.aws_endpoint)

    def bucket(self, kind: str) -> str:
        name = {"environment": "EnvironmentsBucket", "volume": "VolumesBucket"}[kind]
        return self.stack.outputs[STATE_STACK][name]

    def keys(self, kind: str, prefix: str) -> list[str]:
        pages = self.aws("s3").get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.bucket(kind), Prefix=prefix)
        return [item["Key"] for page in found for item in page.get("Contents", [])]

    def control(self, provider: str, method: str, path: str, **options: Any) -> dict[str, Any]:
        """A request to a simulator's control surface."""
        url = self.info.control_urls[provider] + path
        answer = httpx.request(method, url, trust_env=False, timeout=60.0, **options)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def logs(self) -> str:
        """What every function, simulator and server of the stack has logged."""
        logs, texts = self.aws("logs"), []
        for group in logs.describe_log_groups()["logGroups"]:
            name = group["logGroupName"]
            for stream in logs.describe_log_streams(logGroupName=name)["logStreams"]:
                events = logs.get_log_events(
                    logGroupName=name, logStreamName=stream["logStreamName"], startFromHead=True
                )
                texts += [event["message"] for event in events["events"]]
        for path in (self.stack.data / "logs").glob("*.log"):
            texts.append(path.read_text(errors="replace"))
        return "\n".join(texts)

    def set_fault(self, provider: str, **switches: Any) -> None:
        self.control(provider, "POST", "/faults", json=switches)

    def clear_faults(self) -> None:
        for provider in self.info.control_urls:
            self.control(provider, "DELETE", "/faults")

    def standing(self, provider: str) -> list[dict[str, Any]]:
        """Instances that the provider still has."""
        instances = self.control(provider, "GET", "/state")["instances"]
        return [i for i in instances if i["phase"] not in {"gone", "failed"}]

    def in_box(self, provider: str, instance_id: str, script: str) -> str:
        """Run a script in a box past the agent."""
        body = {"argv": ["/bin/sh", "-c", script], "timeout_seconds": 20}
        answer = self.control(provider, "POST", f"/instances/{instance_id}/exec", json=body)
        assert answer["exit_code"] == 0, answer
        return str(answer["stdout"])

    def kill_control_plane(self) -> None:
        """Kill -9 of the embedded AWS with everything that runs in it."""
        assert self.stack.aws is not None
        self.stack.aws.kill()

    def restart_control_plane(self) -> None:
        self.stack.start_aws()
        self.stack.run_reconciler()

    def reconcile(self) -> None:
        self.stack.run_reconciler()


class User:
    """An account and its pods."""

    def __init__(self, deployment: Deployment, account_id: str, token: str) -> None:
        self.deployment = deployment
        self.account_id = account_id
        self.token = token
        self.api = Api(deployment.info.api_url, token)

    def new_pod(self, provider: str = "fluence", **spec: Any) -> dict[str, Any]:
        """Ask for a pod; the launch runs."""
        body = {
            "name": "test",
            "spec": {"image": IMAGE, "stop_grace_seconds": 1, **spec},
            "requirements": {"providers": [provider] if provider else []},
        }
        return self.api.post("/v1/pods", body)

    def running_pod(self, provider: str = "fluence", **spec: Any) -> dict[str, Any]:
        pod = self.new_pod(provider, **spec)
        self.api.wait(pod["operation"]["id"])
        return self.pod(pod)

    def pod(self, pod: dict[str, Any]) -> dict[str, Any]:
        return self.api.get(f"/v1/pods/{pod['id']}")

    def ask(self, pod: dict[str, Any], verb: str, provider: str = "", **body: Any) -> str:
        """Begin a start, stop or move; the id of its operation."""
        if provider:
            body["requirements"] = {"providers": [provider]}
        return str(self.api.post(f"/v1/pods/{pod['id']}/{verb}", body)["id"])

    def do(self, pod: dict[str, Any], verb: str, provider: str = "", **body: Any) -> dict[str, Any]:
        """Begin it and wait for its success."""
        return self.api.wait(self.ask(pod, verb, provider, **body), 240)

    def run(self, pod: dict[str, Any], script: str, seconds: int = 60) -> str:
        return pod_shell.run(self.api, pod["id"], seconds, script=script).decode()

    def box(self, pod: dict[str, Any]) -> tuple[str, str]:
        """Provider and instance id of the machine that the pod runs on."""
        provider = self.pod(pod)["machine"]["provider"]
        (instance,) = self.deployment.standing(provider)
        return provider, instance["id"]

    def until(
        self, operation_id: str, is_reached: Callable[[dict[str, Any]], bool], seconds: float = 90
    ) -> dict[str, Any]:
        """The operation when the condition first holds."""
        deadline = time.monotonic() + seconds
        while True:
            operation = self.api.get(f"/v1/operations/{operation_id}")
            if is_reached(operation):
                return operation
            assert operation["state"] == "running", operation
            assert time.monotonic() < deadline, operation
            time.sleep(0.05)

    def leave(self) -> None:
        try:
            for listed in self.api.get("/v1/pods")["data"]:
                self._end(self.pod(listed))
        finally:
            self.api.close()

    def _end(self, pod: dict[str, Any]) -> None:
        if pod["operation"] is not None:
            self._give_up_waiting(pod["operation"])
            for _ in self.api.watch(pod["operation"]["id"], 240):
                pass
        if self.pod(pod)["state"] not in {"stopped", "deleted"}:
            for _ in self.api.watch(self.ask(pod, "stop", accept_loss=True), 240):
                pass

    def _give_up_waiting(self, operation: dict[str, Any]) -> None:
        """A launch that random numbers asked for may wait for its GPUs for hours."""
        if operation["kind"] not in {"launch", "start", "recover"}:
            return
        try:
            self.api.post(f"/v1/operations/{operation['id']}/cancel")
        except ApiError as error:
            if error.status != 409:  # it has ended meanwhile
                raise


def code_of(error: ApiError) -> tuple[int, str]:
    return error.status, error.code


def reached(phase: str) -> Callable[[dict[str, Any]], bool]:
    """Whether an operation has passed the phase."""
    return lambda operation: phase in [m["phase"] for m in operation["milestones"]]
