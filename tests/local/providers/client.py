"""A plain client of the simulators, for the wire APIs and for the control surface."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlencode, urlsplit

KEY = "the-key"


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    url: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> Answer:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        connection.request(method, path, content, {"Connection": "close", **(headers or {})})
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, response.read(), names)
    finally:
        connection.close()


def wait_for(condition: Callable[[], Any], seconds: float = 8.0) -> Any:
    """Poll until the condition holds; its value, or a failure that shows the last one."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {value!r}"
        time.sleep(0.01)
    return value


class Client:
    """Speaks to one simulator: its control surface, and its wire API with the right key."""

    key_header: ClassVar[dict[str, str]]

    def __init__(self, url: str) -> None:
        self.url = url

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        return ask(self.url, method, path, body, self.key_header)

    def sim(self, method: str, path: str, body: Any = None) -> Any:
        answer = ask(self.url, method, f"/_sim/{path}", body)
        assert answer.status == 200, answer.body
        return answer.json if answer.headers["content-type"] == "application/json" else answer.body

    def fault(self, **values: Any) -> None:
        self.sim("POST", "faults", values)

    def state(self, instance: Any) -> dict[str, Any]:
        instances = self.sim("GET", "state")["instances"]
        return next(each for each in instances if each["id"] == str(instance))

    def phase(self, instance: Any) -> str:
        return self.state(instance)["phase"]

    def wait_phase(self, instance: Any, phase: str) -> None:
        wait_for(lambda: self.phase(instance) == phase)

    def cost(self, instance: Any) -> int:
        rows = self.sim("GET", "bill")["instances"]
        return next(row["cost_micros"] for row in rows if row["id"] == str(instance))

    def exec(self, instance: Any, script: str) -> str:
        body = {"argv": ["/bin/sh", "-c", script]}
        result = self.sim("POST", f"instances/{instance}/exec", body)
        assert result["exit_code"] == 0, result
        return result["stdout"]

    def skip(self, seconds: float) -> None:
        self.sim("POST", "clock", {"advance_seconds": seconds})


class FluenceClient(Client):
    key_header: ClassVar[dict[str, str]] = {"X-API-KEY": KEY}

    def create(self, **settings: Any) -> Answer:
        """One create call, whatever it answers."""
        return self.call("POST", "/gpu/instances/", self.body(**settings))

    def run_script(self, script: str) -> str:
        return self.launch(startup_command=script)

    def plan_id(self, part: str) -> str:
        plans = self.call("GET", "/gpu/plans/").json
        return next(each["plan"]["id"] for each in plans if part in each["plan"]["name"])

    def body(self, part: str = "h100-80gi-sxm-1gpu", **settings: Any) -> dict[str, Any]:
        plans = self.call("GET", "/gpu/plans/").json
        ids = [each["plan"]["id"] for each in plans if part in each["plan"]["name"]]
        container = {
            "image": "docker.io/library/debian:12",
            "expose": [{"port": "8443", "protocol": "tcp"}],
            "startup_command": "exec sleep infinity",
        }
        return {
            "plan_id": ids[0] if ids else part,
            "name": "pf-test",
            "container_settings": container | settings,
        }

    def launch(self, part: str = "h100-80gi-sxm-1gpu", **settings: Any) -> str:
        answer = self.call("POST", "/gpu/instances/", self.body(part, **settings))
        assert answer.status == 200, answer.body
        return answer.json["instance_id"]

    def get(self, instance: str) -> dict[str, Any]:
        return self.call("GET", f"/gpu/instances/{instance}").json

    def delete(self, instance: str) -> Answer:
        return self.call("DELETE", f"/gpu/instances/{instance}")

    def list_ids(self) -> list[str]:
        return [each["id"] for each in self.call("GET", "/gpu/instances/").json]


class LambdaClient(Client):
    key_header: ClassVar[dict[str, str]] = {"Authorization": f"Bearer {KEY}"}

    def body(self, **settings: Any) -> dict[str, Any]:
        body = {
            "region_name": "us-west-1",
            "instance_type_name": "gpu_1x_a10",
            "ssh_key_names": ["podferry"],
            "name": "pf-test",
            "user_data": "#!/bin/sh\nexec sleep infinity\n",
            "tags": [{"key": "a", "value": "b"}],
        }
        return body | settings

    def post(self, path: str, body: Any) -> Answer:
        return self.call("POST", f"/api/v1{path}", body)

    def read(self, path: str) -> Any:
        return self.call("GET", f"/api/v1{path}").json["data"]

    def create(self, **settings: Any) -> Answer:
        """One create call, whatever it answers."""
        return self.post("/instance-operations/launch", self.body(**settings))

    def launch(self, **settings: Any) -> str:
        answer = self.create(**settings)
        assert answer.status == 200, answer.body
        return answer.json["data"]["instance_ids"][0]

    def run_script(self, script: str) -> str:
        return self.launch(user_data=f"#!/bin/sh\n{script}\n")

    def get(self, instance: str) -> dict[str, Any]:
        return self.read(f"/instances/{instance}")

    def delete(self, instance: str) -> Answer:
        return self.post("/instance-operations/terminate", {"instance_ids": [instance]})

    def list_ids(self) -> list[str]:
        return [each["id"] for each in self.read("/instances")]


class RunpodClient(Client):
    key_header: ClassVar[dict[str, str]] = {"Authorization": f"Bearer {KEY}"}

    def body(self, **settings: Any) -> dict[str, Any]:
        body = {
            "name": "pf-test",
            "image": "docker.io/library/debian:12",
            "gpu": {"id": "NVIDIA RTX A4000", "count": 1},
            "ports": ["8443/tcp"],
            "entrypoint": ["/bin/sh"],
            "cmd": ["-c", "exec sleep infinity"],
        }
        return body | settings

    def create(self, **settings: Any) -> Answer:
        """One create call, whatever it answers."""
        return self.call("POST", "/v2/pods", self.body(**settings))

    def launch(self, **settings: Any) -> str:
        answer = self.create(**settings)
        assert answer.status == 201, answer.body
        return answer.json["id"]

    def run_script(self, script: str) -> str:
        return self.launch(cmd=["-c", script])

    def get(self, instance: str) -> dict[str, Any]:
        return self.call("GET", f"/v2/pods/{instance}").json

    def delete(self, instance: str) -> Answer:
        return self.call("DELETE", f"/v2/pods/{instance}")

    def act(self, instance: str, action: str) -> Answer:
        return self.call("POST", f"/v2/pods/{instance}/action", {"action": action})

    def page(self, **query: Any) -> Answer:
        return self.call("GET", f"/v2/pods?{urlencode(query)}")

    def list_ids(self) -> list[str]:
        return [each["id"] for each in self.page().json["pods"]]


class VastClient(Client):
    key_header: ClassVar[dict[str, str]] = {"Authorization": f"Bearer {KEY}"}

    def create(self, **settings: Any) -> Answer:
        """One create call, whatever it answers."""
        return self.take(self.offer()["id"], **settings)

    def run_script(self, script: str) -> int:
        return self.launch(args=["-c", script], price=0.15)

    def search(self, **query: Any) -> list[dict[str, Any]]:
        answer = self.call("POST", "/api/v0/bundles/", query)
        assert answer.status == 200, answer.body
        return answer.json["offers"]

    def offer(self, name: str = "RTX 3090", **query: Any) -> dict[str, Any]:
        return self.search(gpu_name={"eq": name}, **query)[0]

    def take(self, ask_id: int, **settings: Any) -> Answer:
        body = {
            "client_id": "me",
            "image": "docker.io/library/debian:12",
            "disk": 10,
            "label": "pf-test",
            "runtype": "args",
            "onstart": "/bin/sh",
            "args": ["-c", "exec sleep infinity"],
            "env": {},
            "cancel_unavail": True,
        }
        return self.call("PUT", f"/api/v0/asks/{ask_id}/", body | settings)

    def launch(self, name: str = "RTX 3090", **settings: Any) -> int:
        answer = self.take(self.offer(name)["id"], **settings)
        assert answer.status == 200, answer.body
        return answer.json["new_contract"]

    def get(self, instance: int) -> dict[str, Any] | None:
        return self.call("GET", f"/api/v0/instances/{instance}/").json["instances"]

    def delete(self, instance: int) -> Answer:
        return self.call("DELETE", f"/api/v0/instances/{instance}/")

    def page(self, **query: Any) -> Answer:
        return self.call("GET", f"/api/v1/instances/?{urlencode(query)}")

    def list_ids(self) -> list[int]:
        return [each["id"] for each in self.page().json["instances"]]
