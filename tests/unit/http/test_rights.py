"""Who may do what."""

from typing import Any

import pytest

from podferry.domain.account import USER_SCOPES, Scope
from podferry.http.openapi import describe
from podferry.http.surfaces import AGENT_ROUTES, ALL_OF_USERS
from tests.unit.http.deployment import (
    FUNCTIONS,
    OPERATOR,
    Deployment,
    Reply,
    User,
    an_event,
    handler_of,
)
from tests.unit.http.messages import message
from tests.unit.http.running import a_running_pod, boot_token, machine_of, machine_token

IDS = {"pod": "pod", "operation": "op", "environment": "env", "volume": "vol", "command": "cmd",
       "key": "key", "ssh_key": "ssh", "snapshot": "snap", "share": "share",
       "account": "acct"}  # fmt: skip


def all_routes() -> list[tuple[str, str, str]]:
    """Method, a path with ids that do not exist, and the security scheme, of every route."""
    found = []
    for template, operations in describe()["paths"].items():
        path = template
        for name, prefix in IDS.items():
            path = path.replace(f"{{{name}_id}}", f"{prefix}_{'0' * 26}")
        path = (
            path.replace("{provider}", "no-such-provider")
            .replace("{number}", "1")
            .replace("{name}", "hf")
        )
        path = path.replace("{month}", "2026-11")
        for method, operation in operations.items():
            [[scheme]] = operation["security"]
            found.append((method.upper(), path, scheme))
    return found


USERS = [(method, path) for method, path, scheme in all_routes() if scheme == "api_key"]
OPERATORS = [(method, path) for method, path, scheme in all_routes() if scheme == "operator_key"]
AGENTS = [(method, path) for method, path, scheme in all_routes() if "token" in scheme]


def test_every_declared_route_is_in_one_of_these_lists() -> None:
    routers = (*ALL_OF_USERS, *AGENT_ROUTES)
    declared = sum(len(methods) for router in routers for methods in router.methods.values())
    assert len(USERS) + len(OPERATORS) + len(AGENTS) == declared


@pytest.mark.parametrize(("method", "path"), USERS + OPERATORS + AGENTS)
def test_without_a_token_every_route_answers_401(
    deployment: Deployment, method: str, path: str
) -> None:
    reply = deployment.call(method, path)
    assert (reply.status, reply.code) == (401, "token_invalid")
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic cGY6eA==", "Bearer pf_x", "Bearer pf_admin_wrong",
     "Bearer pfb_mach_x_y", "Bearer pfm_mach_" + "0" * 26 + "_s", "Bearer " + "x" * 300,
     "Bearer naïve", "pf_whatever"],
)  # fmt: skip
def test_a_token_that_is_not_known_is_401(deployment: Deployment, header: str) -> None:
    reply = deployment.call("GET", "/v1/pods", headers={"Authorization": header})
    assert (reply.status, reply.code) == (401, "token_invalid")


def test_the_scheme_may_be_written_in_any_case(user: User) -> None:
    headers = {"Authorization": f"bearer {user.token}"}
    assert user.deployment.call("GET", "/v1/pods", headers=headers).status == 200


def test_a_request_that_never_met_the_authorizer_is_401(deployment: Deployment) -> None:
    answer = handler_of("api").front.answer(
        an_event("GET", "/v1/pods"), deployment.context, deployment.use
    )
    assert answer["statusCode"] == 401


@pytest.mark.parametrize(("method", "path"), USERS)
def test_each_route_asks_for_one_scope(user: User, method: str, path: str) -> None:
    """With every scope but one the route opens; exactly one scope is missed."""
    refused = [s for s in USER_SCOPES if status(user, USER_SCOPES - {s}, method, path) == 403]
    assert len(refused) == 1, f"{method} {path} asks for {refused}"
    is_reading = method == "GET"
    assert refused[0].endswith(":read" if is_reading else ":write")


def status(user: User, scopes: frozenset[Scope], method: str, path: str) -> int:
    _, token = user.deployment.use.keys.create(user.account.id, "key", scopes)
    query = QUERIES.get(path.rpartition("/")[2])
    body = minimal(method, path)
    return user.deployment.call(method, path, body, token=token, query=query).status


QUERIES = {
    "content": {"path": "x"},
    "changes": {"since": f"snap_{'0' * 26}"},
    "package-changes": {"since": f"snap_{'0' * 26}"},
}
"""What a route cannot be asked without, by the last part of its path."""


BODIES_OF_VERBS: dict[str, Any] = {
    "exec": {"script": "id"},
    "rollback": {"version": 1},
    "share": {"link": True},
    "decisions": {"decisions": [{"path": "/a", "decision": "accept"}]},
}


def minimal(method: str, path: str) -> Any:
    """A body that the route reads."""
    verb = path.rpartition("/")[2]
    if method == "POST" and verb in BODIES_OF_VERBS:
        return BODIES_OF_VERBS[verb]
    if method == "PUT":
        return {"value": "a secret"} if "/secrets/" in path else {"api_key": "x"}
    if path.startswith("/v1/volumes/"):
        named = {"snapshot_id": IDS["snapshot"] + "_" + "0" * 26}
        return {"PATCH": {"name": "a"}}.get(method, named if path.endswith("/restore") else None)
    if method != "POST":
        return None if method != "PATCH" else {}
    return {
        "/v1/pods": {"name": "a", "spec": {"image": "a"}, "start": False},
        "/v1/keys": {"name": "a", "scopes": ["account:write"]},
        "/v1/secrets": {"name": "hf", "value": "a secret"},
        "/v1/ssh-keys": {"name": "a", "public_key": "x"},
    }.get(path)


@pytest.mark.parametrize(("method", "path"), OPERATORS)
def test_only_the_operator_may_see_and_make_accounts(user: User, method: str, path: str) -> None:
    credit = {"amount_microusd": 1, "reason": "x"}
    body = {"name": "x"} if path == "/v1/accounts" else credit
    reply = user.deployment.call(method, path, body if method == "POST" else None, token=user.token)
    assert (reply.status, reply.code) == (403, "forbidden")


def test_the_operators_key_owns_no_pods(deployment: Deployment) -> None:
    reply = deployment.call("GET", "/v1/pods", token=OPERATOR)
    assert (reply.status, reply.code) == (403, "forbidden")
    assert "key of an account" in reply.json["detail"]


def test_promise_11_the_tokens_of_machines_open_nothing_but_the_agents_routes(user: User) -> None:
    machine = machine_of(user.deployment, a_running_pod(user))
    for token in (machine_token(machine.id), boot_token(machine.id)):
        for method, path in USERS + OPERATORS:
            reply = user.deployment.call(method, path, minimal(method, path), token=token)
            assert reply.status in {400, 401, 404}, f"{method} {path}: {reply.text}"
            assert reply.status != 404 or reply.code == "not_found"
        assert user.deployment.call("GET", "/v1/pods", token=token).code == "token_invalid"


@pytest.mark.parametrize(("method", "path"), AGENTS)
def test_keys_of_users_do_not_open_the_agents_routes(user: User, method: str, path: str) -> None:
    for token in (user.token, OPERATOR):
        reply = user.deployment.call(method, path, agent_body(path), token=token)
        assert (reply.status, reply.code) == (401, "token_invalid")


def test_a_boot_token_is_good_for_registration_only(user: User) -> None:
    machine = machine_of(user.deployment, a_running_pod(user))
    for _, path in AGENTS:
        if path.endswith("register"):
            continue
        reply = send_as(user.deployment, boot_token(machine.id), path)
        assert (reply.status, reply.code) == (401, "token_invalid")
    reply = send_as(user.deployment, machine_token(machine.id), "/agent/v1/register")
    assert (reply.status, reply.code) == (401, "token_invalid")


def test_a_revoked_key_opens_nothing(user: User) -> None:
    made = user.post("/v1/keys", {"name": "ci", "scopes": ["pods:read"]}).json
    assert user.deployment.call("GET", "/v1/pods", token=made["token"]).status == 200
    assert user.delete(f"/v1/keys/{made['key']['id']}").status == 204
    reply = user.deployment.call("GET", "/v1/pods", token=made["token"])
    assert (reply.status, reply.code) == (401, "token_invalid")
    assert "revoked" in reply.json["detail"]


def send_as(deployment: Deployment, token: str, path: str) -> Reply:
    return deployment.call("POST", path, agent_body(path), token=token)


def agent_body(path: str) -> Any:
    return message(f"{path.rpartition('/')[2]}.request")


@pytest.mark.parametrize(
    "name", ["api", "market", "provider_keys", "library", "agent_api", "authorizer", "docs"]
)
def test_a_functions_handler_is_wiring_and_one_call(name: str) -> None:
    assert callable(handler_of(name).handler)
    assert len((FUNCTIONS / name / "handler.py").read_text().splitlines()) <= 40


def test_promise_11_no_token_reaches_the_logs(user: User, caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_of(user.deployment, a_running_pod(user))
    tokens = [user.token, OPERATOR, machine_token(machine.id), boot_token(machine.id)]
    for token in tokens:
        for method, path in USERS + OPERATORS + AGENTS:
            user.deployment.call(method, path, minimal(method, path), token=token)
    logged = str([vars(record) for record in caplog.records])
    assert "request answered" in logged
    assert not [token for token in tokens if token in logged]
