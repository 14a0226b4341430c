from datetime import timedelta

import pytest

from podferry.domain.account import Account, ApiKey
from podferry.domain.errors import ConflictError, PayloadMismatchError
from podferry.domain.reply import Reply
from podferry.ports.store import Create
from podferry.services.idempotency import (
    GuardedStore,
    Replies,
    ReplyLostError,
    RequestInProgressError,
    guarded,
)
from tests.unit.services.support import World


class Guarded:
    """A guarded store with the replies that belong to it."""

    def __init__(self) -> None:
        self.world = World()
        self.store = GuardedStore(self.world.store)
        self.replies = Replies(self.store, self.world.clock)

    def a_reply(self, name: str = "idem_1", request: str = "same") -> Reply:
        return self.replies.new(name, "acct_1", request)

    def an_account(self, name: str) -> Account:
        account, _, _ = World(
            clock=self.world.clock, randomness=self.world.randomness
        ).accounts.create(name)
        return account


def test_promise_10_effect_and_reply_are_written_together_or_not_at_all() -> None:
    it = Guarded()
    account = it.an_account("a")
    with guarded(it.a_reply()) as guard:
        it.store.commit(Create(account))
        assert guard.has_taken_effect
    assert it.world.store.find(Reply, "idem_1") is not None
    with guarded(it.a_reply("idem_2")), pytest.raises(ConflictError):
        it.store.commit(Create(account))
    assert it.world.store.find(Reply, "idem_2") is None


def test_promise_10_of_two_requests_at_once_only_the_first_takes_effect() -> None:
    it = Guarded()
    first, second = it.an_account("first"), it.an_account("second")
    with guarded(it.a_reply()):
        it.store.commit(Create(first))
    with guarded(it.a_reply()), pytest.raises(RequestInProgressError):
        it.store.commit(Create(second))
    assert it.world.store.find(Account, second.id) is None


def test_later_commits_of_the_same_request_go_through() -> None:
    it = Guarded()
    with guarded(it.a_reply()):
        for name in ("a", "b"):
            it.store.commit(Create(it.an_account(name)))
    assert len(it.store.list_owned(Account, "accounts").items) == 2


def test_outside_a_guard_nothing_is_added() -> None:
    it = Guarded()
    it.store.commit(Create(it.an_account("a")))
    assert it.world.store.find(Reply, "idem_1") is None


def test_a_request_without_effect_leaves_the_key_free() -> None:
    it = Guarded()
    with guarded(it.a_reply()):
        it.store.find(ApiKey, "key_1")
    assert it.replies.recall("idem_1", "same") is None


def test_a_stored_answer_is_recalled() -> None:
    it = Guarded()
    with guarded(it.a_reply()) as guard:
        it.store.commit(Create(it.an_account("a")))
    it.replies.store_answer(guard.reply, 202, {"id": "pod_1"}, {"Location": "/x"})
    recalled = it.replies.recall("idem_1", "same")
    assert recalled is not None
    assert (recalled.status, recalled.body, recalled.headers) == (
        202,
        {"id": "pod_1"},
        {"Location": "/x"},
    )


def test_another_request_with_the_same_key_is_refused() -> None:
    it = Guarded()
    with guarded(it.a_reply()):
        it.store.commit(Create(it.an_account("a")))
    with pytest.raises(PayloadMismatchError):
        it.replies.recall("idem_1", "other")


def test_an_effect_without_an_answer_is_in_progress_for_a_minute_and_then_lost() -> None:
    it = Guarded()
    with guarded(it.a_reply()):
        it.store.commit(Create(it.an_account("a")))
    it.world.clock.advance(timedelta(seconds=59))
    with pytest.raises(RequestInProgressError):
        it.replies.recall("idem_1", "same")
    it.world.clock.advance(timedelta(seconds=1))
    with pytest.raises(ReplyLostError, match="look at"):
        it.replies.recall("idem_1", "same")


def test_a_reply_that_the_table_has_not_dropped_yet_is_forgotten_all_the_same() -> None:
    it = Guarded()
    with guarded(it.a_reply()):
        it.store.commit(Create(it.an_account("a")))
    it.world.clock.advance(timedelta(hours=24))
    assert it.replies.recall("idem_1", "other") is None
    with guarded(it.a_reply()):
        it.store.commit(Create(it.an_account("b")))
