"""Accounts, API keys and SSH keys over HTTP."""

from tests.unit.http.deployment import OPERATOR, Deployment, User

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@home"


def test_a_new_accounts_first_key_may_do_everything_in_it(deployment: Deployment) -> None:
    made = deployment.call("POST", "/v1/accounts", {"name": "acme"}, token=OPERATOR)
    assert made.status == 201
    token = made.json["token"]
    assert deployment.call("GET", "/v1/account", token=token).json == made.json["account"]
    pod = {"name": "a", "spec": {"image": "debian:12"}}
    assert deployment.call("POST", "/v1/pods", pod, token=token).status == 202


def test_the_operator_sees_all_accounts_and_nobody_sees_a_chunk_key(deployment: Deployment) -> None:
    for name in ("one", "two"):
        deployment.call("POST", "/v1/accounts", {"name": name}, token=OPERATOR)
    listed = deployment.call("GET", "/v1/accounts", token=OPERATOR)
    assert {account["name"] for account in listed.json["data"]} == {"one", "two"}
    assert "chunk_key" not in listed.text


def test_a_key_may_do_what_it_was_made_for_and_no_more(user: User) -> None:
    made = user.post("/v1/keys", {"name": "reader", "scopes": ["pods:read"]})
    assert made.status == 201
    reader = User(user.deployment, user.account, user.key, made.json["token"])
    assert reader.get("/v1/pods").status == 200
    assert reader.post("/v1/pods", {"name": "a", "spec": {"image": "a"}}).code == "forbidden"


def test_nobody_can_give_a_key_more_than_they_have(user: User) -> None:
    made = user.post("/v1/keys", {"name": "keys only", "scopes": ["account:write"]}).json
    limited = User(user.deployment, user.account, user.key, made["token"])
    reply = limited.post("/v1/keys", {"name": "more", "scopes": ["pods:write"]})
    assert (reply.status, reply.code) == (403, "forbidden")
    assert "pods:write" in reply.json["detail"]


def test_no_key_of_an_account_can_be_an_operators(user: User) -> None:
    reply = user.post("/v1/keys", {"name": "root", "scopes": ["admin"]})
    assert (reply.status, reply.json["errors"][0]["where"]) == (400, "/scopes/0")


def test_keys_are_listed_without_their_text(user: User) -> None:
    token = user.post("/v1/keys", {"name": "ci", "scopes": ["pods:read"]}).json["token"]
    listed = user.get("/v1/keys")
    assert [key["name"] for key in listed.json["data"]] == ["ci", "first key"] or [
        key["name"] for key in listed.json["data"]
    ] == ["first key", "ci"]
    assert token not in listed.text
    assert "sha256" not in listed.text


def test_revoking_twice_is_one_end_and_shows_when(user: User) -> None:
    key_id = user.post("/v1/keys", {"name": "ci", "scopes": ["pods:read"]}).json["key"]["id"]
    assert [user.delete(f"/v1/keys/{key_id}").status for _ in range(2)] == [204, 204]
    [revoked] = [key for key in user.get("/v1/keys").json["data"] if key["id"] == key_id]
    assert revoked["revoked_at"] == "2026-11-30T12:00:00Z"


def test_keys_of_other_accounts_cannot_be_revoked(deployment: Deployment, user: User) -> None:
    stranger = deployment.an_account("stranger")
    assert stranger.delete(f"/v1/keys/{user.key.id}").code == "not_found"
    assert user.get("/v1/account").status == 200


def test_an_ssh_key_is_added_listed_and_removed(user: User) -> None:
    added = user.post("/v1/ssh-keys", {"name": "laptop", "public_key": ED25519})
    assert added.status == 201
    assert added.json["fingerprint"] == "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
    assert user.get("/v1/ssh-keys").json["data"] == [added.json]
    assert user.delete(f"/v1/ssh-keys/{added.json['id']}").status == 204
    assert user.get("/v1/ssh-keys").json["data"] == []
    assert user.delete(f"/v1/ssh-keys/{added.json['id']}").code == "not_found"


def test_the_same_ssh_key_twice_is_refused(user: User) -> None:
    user.post("/v1/ssh-keys", {"name": "laptop", "public_key": ED25519})
    other_note = ED25519.replace("me@home", "somebody else")
    reply = user.post("/v1/ssh-keys", {"name": "again", "public_key": other_note})
    assert (reply.status, reply.code) == (409, "conflict")


def test_a_private_key_is_refused_and_not_repeated(user: User) -> None:
    private = "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXktdjEAAAAA"
    reply = user.post("/v1/ssh-keys", {"name": "oops", "public_key": private})
    [problem] = reply.json["errors"]
    assert (reply.status, problem["where"]) == (400, "/public_key")
    assert "private key" in problem["problem"]
    assert "b3BlbnNzaC1rZXkt" not in reply.text
