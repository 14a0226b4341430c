"""A write whose answer is lost is repeated by the SDK; it must not look like somebody else's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from podferry.adapters.aws.clients import AwsClients
from podferry.adapters.dynamo.store import DynamoStore
from podferry.domain.errors import ConflictError
from podferry.domain.pod import Pod
from podferry.ports.store import Create, Update
from tests.contract.embedded import EmbeddedAws, make_table
from tests.contract.entities import a_pod, a_volume


@dataclass
class Bench:
    """A store whose SDK can be made to believe that an answer did not arrive."""

    store: DynamoStore
    clients: AwsClients

    def lose_answer(self, action: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Lose the first answer to `action`; `meanwhile` runs before the request is repeated."""
        todo = [meanwhile]

        def repeat(**_: Any) -> Any:
            if not todo:
                return None
            todo.pop()()
            return 0

        self.clients.dynamodb.meta.events.register_first(f"needs-retry.dynamodb.{action}", repeat)


@pytest.fixture
def bench(embedded: EmbeddedAws) -> Bench:
    clients = embedded.new_clients()
    return Bench(DynamoStore(clients, make_table(clients.dynamodb)), clients)


def test_promise_10_a_create_whose_answer_is_lost_succeeds(bench: Bench) -> None:
    pod = a_pod()

    bench.lose_answer("PutItem")
    bench.store.commit(Create(pod))

    assert bench.store.get(Pod, pod.id) == pod


def test_promise_10_an_update_whose_answer_is_lost_counts_once(bench: Bench) -> None:
    pod = a_pod()
    bench.store.commit(Create(pod))

    bench.lose_answer("PutItem")
    bench.store.commit(Update(replace(pod, name="renamed")))

    assert bench.store.get(Pod, pod.id) == replace(pod, name="renamed", revision=1)


def test_promise_10_a_transaction_whose_answer_is_lost_counts_once(bench: Bench) -> None:
    pod, volume = a_pod(), a_volume()
    bench.store.commit(Create(pod))

    bench.lose_answer("TransactWriteItems")
    bench.store.commit(Update(pod), Create(volume))

    assert bench.store.get(Pod, pod.id).revision == 1


def test_a_write_of_somebody_else_between_the_two_requests_is_a_conflict(bench: Bench) -> None:
    pod = a_pod()
    bench.store.commit(Create(pod))

    def overtake() -> None:
        bench.store.commit(Update(replace(pod, name="overtaker", revision=1)))

    bench.lose_answer("PutItem", overtake)
    with pytest.raises(ConflictError, match=pod.id):
        bench.store.commit(Update(replace(pod, name="first")))

    assert bench.store.get(Pod, pod.id) == replace(pod, name="overtaker", revision=2)
