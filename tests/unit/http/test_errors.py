"""Whatever goes wrong is answered with a problem that tells the caller what to do."""

from pathlib import Path

import pytest

import podferry.bootstrap  # noqa: F401  loads every module that may add to the error tree
from podferry.domain import errors
from podferry.domain.errors import InternalError, PodferryError, ProviderBusyError
from podferry.http import error_list
from podferry.http.error_list import error_classes
from podferry.http.errors import STATUS
from podferry.http.problem import problem_response
from podferry.http.refusals import MethodNotAllowedError
from tests.unit.http.deployment import Deployment, User, an_event

DOCS = Path(__file__).parents[3] / "docs"
ALL = list(error_classes())


@pytest.mark.parametrize("kind", ALL)
def test_every_error_class_has_a_status_of_its_own(kind: type[PodferryError]) -> None:
    assert kind in STATUS, f"add {kind.__name__} to http/errors.py"
    assert kind.__doc__, f"{kind.__name__} needs a sentence for docs/errors.md"


def test_every_error_code_is_used_by_one_class() -> None:
    codes = [kind.code for kind in ALL if kind is not PodferryError]
    assert sorted(codes) == sorted(set(codes))


def test_the_table_knows_no_class_that_does_not_exist() -> None:
    assert set(STATUS) == set(ALL)


def test_a_code_beside_the_tree_counts_as_its_parent() -> None:
    class NewError(errors.WrongStateError):
        """A class that somebody forgot to give a row."""

        code = "new"

    response = problem_response(NewError("x"), "req-1")
    assert response.status_code == 409


def test_the_list_of_errors_in_the_docs_is_up_to_date() -> None:
    stored = (DOCS / "errors.md").read_text(encoding="utf-8")
    assert stored == error_list.rendered(), "run: python -m podferry.http.openapi"


def test_a_broken_invariant_says_nothing_of_our_inside(user: User) -> None:
    breaking(user.deployment, InternalError("row POD#pod_1 of table podferry-prod is damaged"))
    reply = user.get("/v1/pods")
    assert (reply.status, reply.code) == (500, "internal")
    assert "podferry-prod" not in reply.text
    assert reply.json["request_id"] == "req-1"


@pytest.mark.parametrize("error", [RuntimeError("row 7"), KeyError("row 7"), ValueError("row 7")])
def test_an_unexpected_error_is_a_problem_too(
    user: User, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    breaking(user.deployment, error)
    reply = user.get("/v1/pods")
    assert (reply.status, reply.code) == (500, "internal")
    assert "row 7" not in reply.text
    assert [r.exc_info for r in caplog.records if r.getMessage() == "unexpected error"]


def test_an_unknown_path_is_404_and_says_where_to_look(user: User) -> None:
    reply = user.get("/v1/podz")
    assert (reply.status, reply.code) == (404, "route_not_found")
    assert "/docs" in reply.json["detail"]


def test_a_wrong_method_is_405_and_names_the_right_ones(user: User) -> None:
    reply = user.delete("/v1/pods")
    assert (reply.status, reply.code) == (405, "method_not_allowed")
    assert reply.headers["Allow"] == "GET, POST"
    assert user.deployment.call("PUT", "/v1/offers", token=user.token).headers["Allow"] == "GET"


def test_a_malformed_request_is_400_and_says_where(user: User) -> None:
    reply = user.post("/v1/pods", {"name": "a", "spec": {"image": "debian:12", "prots": [1]}})
    assert (reply.status, reply.code) == (400, "invalid_request")
    assert reply.json["errors"] == [
        {"where": "/spec/prots", "problem": "unknown field; check its spelling"}
    ]


def test_a_problem_has_all_the_members_of_the_standard(user: User) -> None:
    problem = user.get("/v1/pods/none").json
    assert problem["type"] == "urn:podferry:problem:not_found"
    assert (problem["title"], problem["status"]) == ("Not Found", 404)
    assert (problem["request_id"], problem["retryable"], problem["errors"]) == ("req-1", False, [])


def test_a_busy_provider_says_when_to_come_back() -> None:
    response = problem_response(ProviderBusyError("wait", retry_after_seconds=7.2), "req-1")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "7")


def test_an_event_without_a_request_id_still_gets_one(deployment: Deployment) -> None:
    event = an_event("GET", "/v1/pods")
    del event["requestContext"]["requestId"]
    reply = deployment.send(event)
    assert reply.json["request_id"] == deployment.context.aws_request_id


def test_methods_are_listed_with_the_error() -> None:
    response = problem_response(MethodNotAllowedError("no", allowed=("GET", "PATCH")), "req-1")
    assert response.headers["Allow"] == "GET, PATCH"


def breaking(deployment: Deployment, error: Exception) -> None:
    """Let every list fail."""

    def list_owned(*_arguments: object, **_options: object) -> None:
        raise error

    deployment.ports.store.list_owned = list_owned  # type: ignore[assignment, method-assign]
