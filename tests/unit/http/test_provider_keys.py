"""An account's own keys at the providers, over HTTP: they go in and never come out."""

from typing import Any

import pytest

from podferry.domain.errors import KeyRefusedError, ProviderBusyError
from podferry.ports.key_vault import KeyRef
from tests.unit.http.clouds import ListedCloud, ListedClouds, an_offer
from tests.unit.http.deployment import OPERATOR, Deployment, MemoryPorts, User

SECRET = "planted-canary-91c7"
PATH = "/v1/provider-keys/vastai"


def a_user(*, own: ListedCloud | None = None, shared: ListedCloud | None = None) -> User:
    clouds = ListedClouds([] if shared is None else [shared])
    clouds.own["vastai"] = own or ListedCloud("vastai", [an_offer(price=200_000)])
    return Deployment(MemoryPorts(clouds)).an_account()


def put(user: User, **body: Any) -> Any:
    return user.put(PATH, {"api_key": SECRET, **body})


def texts(user: User) -> dict[KeyRef, str]:
    return user.deployment.ports.key_vault.texts


def test_a_key_is_tried_at_the_provider_and_lies_in_the_vault_only() -> None:
    user = a_user()
    reply = put(user)
    assert reply.status == 200
    assert (reply.json["provider"], reply.json["state"]) == ("vastai", "works")
    assert user.deployment.ports.clouds.tried == [SECRET]  # type: ignore[attr-defined]
    assert list(texts(user).values()) == [SECRET]


def test_no_answer_and_no_row_ever_holds_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    user = a_user()
    said = [put(user), user.get(PATH), user.get("/v1/provider-keys"), user.get("/v1/providers")]
    assert all(reply.status == 200 and SECRET not in reply.text for reply in said)
    assert SECRET not in repr(vars(user.deployment.ports.store))
    assert SECRET not in "".join(capsys.readouterr())


def test_a_key_that_the_provider_refuses_is_not_kept_and_the_field_is_named() -> None:
    refusing = ListedCloud("vastai", [], KeyRefusedError("vastai answered 401"))
    user = a_user(own=refusing)
    reply = put(user)
    assert (reply.status, reply.code) == (400, "invalid_request")
    assert [e["where"] for e in reply.json["errors"]] == ["/api_key"]
    assert texts(user) == {}
    assert user.get(PATH).status == 404


def test_a_provider_that_does_not_answer_changes_nothing() -> None:
    busy = ListedCloud("vastai", [], ProviderBusyError("slow down", retry_after_seconds=7))
    user = a_user(own=busy)
    reply = put(user)
    assert (reply.status, reply.headers["Retry-After"]) == (503, "7")
    assert texts(user) == {}


@pytest.mark.parametrize("body", [{}, {"api_key": ""}, {"api_key": "x", "base_url": "http://x"}])
def test_a_body_without_a_key_or_with_an_address_is_refused(body: dict[str, Any]) -> None:
    user = a_user()
    assert user.put(PATH, body).status == 400
    assert texts(user) == {}


def test_a_provider_that_does_not_exist_is_named() -> None:
    reply = a_user().put("/v1/provider-keys/nimbus", {"api_key": SECRET})
    assert (reply.status, reply.code) == (404, "not_found")
    assert "vastai" in reply.json["detail"]


def test_with_a_key_of_its_own_an_account_sees_what_that_key_may_rent() -> None:
    user = a_user(shared=ListedCloud("vastai", [an_offer(price=300_000)]))
    assert prices(user) == [300_000]
    put(user)
    assert prices(user) == [200_000]
    assert user.get("/v1/providers").json["data"][0]["is_own_key"] is True


def prices(user: User) -> list[int]:
    return [o["price_microusd_per_hour"] for o in user.get("/v1/offers").json["data"]]


def test_an_own_key_is_no_key_for_anybody_else() -> None:
    user = a_user()
    put(user)
    other = user.deployment.an_account("other")
    assert other.get(PATH).status == 404
    assert other.get("/v1/provider-keys").json["data"] == []
    assert other.get("/v1/offers").json["data"] == []
    assert other.delete(PATH).status == 404
    assert user.get(PATH).status == 200


def test_a_deleted_key_is_gone_from_the_vault_and_the_deployments_key_serves_again() -> None:
    user = a_user(shared=ListedCloud("vastai", [an_offer(price=300_000)]))
    put(user)
    assert user.delete(PATH).status == 204
    assert texts(user) == {}
    assert prices(user) == [300_000]
    assert user.delete(PATH).status == 404


def test_a_key_that_is_refused_later_shows_it_and_recovers_by_itself() -> None:
    own = ListedCloud("vastai", [an_offer()])
    user = a_user(own=own)
    put(user)
    own.failure = KeyRefusedError("vastai answered 401")
    assert user.get("/v1/offers").status == 502
    seen = user.get(PATH).json
    assert (seen["state"], seen["detail"]) == ("unauthorised", "vastai answered 401")

    own.failure = None
    user.get("/v1/offers")
    assert (user.get(PATH).json["state"], user.get(PATH).json["detail"]) == ("works", None)


def test_the_operator_has_no_own_keys() -> None:
    reply = a_user().deployment.call("GET", "/v1/provider-keys", token=OPERATOR)
    assert (reply.status, reply.code) == (403, "forbidden")


def test_whom_a_role_has_to_trust_is_shown_before_there_is_a_key() -> None:
    clouds = ListedClouds([ListedCloud("ec2", [])])
    deployment = Deployment(MemoryPorts(clouds))
    mine, others = deployment.an_account(), deployment.an_account()
    shown = mine.get("/v1/provider-keys/ec2/trust").json
    (statement,) = shown["trust_policy"]["Statement"]
    assert statement["Principal"] == {"AWS": f"arn:aws:iam::{shown['aws_account']}:root"}
    assert statement["Condition"] == {"StringEquals": {"sts:ExternalId": shown["external_id"]}}
    assert others.get("/v1/provider-keys/ec2/trust").json["external_id"] != shown["external_id"]
    assert mine.get("/v1/provider-keys/vastai/trust").status == 404
    assert mine.get("/v1/provider-keys/azure/trust").status == 404


def test_the_external_id_goes_with_the_key_to_the_provider_and_into_the_vault() -> None:
    user = a_user()
    reply = user.put(PATH, {"api_key": "role <external id>"})
    assert reply.status == 200
    ((ref, text),) = texts(user).items()
    assert user.deployment.ports.clouds.tried == [text]  # type: ignore[attr-defined]
    assert text == f"role podferry-00000000-{ref.account_id}"
