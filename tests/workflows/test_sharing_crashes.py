"""A process that dies at any line of a share or of its acceptance."""

import pytest
from crashing_store import Crash
from sharing_scenes import CLEAN, Owned, decide, files_below, restored
from world import World

from podferry.domain.operation import Operation, OperationState
from podferry.domain.share import Decision, ShareState
from podferry.domain.volume import Environment
from podferry.services.sharing.ask import NewShare

HISTORY = "root/.bash_history"
TOKEN = "opt/app/settings.py"
FILES = {
    **CLEAN,
    HISTORY: b"export TOKEN=whatever\n",
    TOKEN: b"".join((b"KEY = 'AK", b"IAIOSFODNN7ABCDEFG'\n")),
}


class Sharing:
    """Ask, decide and accept, each asked again by a caller who got no answer."""

    def __init__(self, world: World, tmp_path, stranger):
        self.world, self.tmp_path, self.stranger = world, tmp_path, stranger
        self.owned = Owned.make(world, tmp_path, FILES)
        self.crashed = 0

    def insist(self, what):
        try:
            return what()
        except Crash:
            self.crashed += 1
        self.world.settle()
        return what()

    def decide(self, share):
        if self.owned.fresh(share).state == ShareState.NEEDS_DECISION:
            decide(self.owned, share, f"/{TOKEN}", Decision.EXCLUDE)

    def run(self):
        wanted = NewShare(accounts=(self.stranger.id,), with_link=False)
        shares = self.world.app.shares
        ours = (self.owned.account.id, self.owned.environment.id, self.owned.version.number)
        share, _ = self.insist(lambda: shares.share(*ours, wanted))
        self.world.settle()
        self.insist(lambda: self.decide(share))
        self.world.settle()
        assert self.owned.fresh(share).state == ShareState.SHARED
        self.insist(lambda: shares.accept(self.stranger.id, share.id, None, "theirs"))
        self.world.settle()
        return share


def commits_of_sharing(tmp_path_factory) -> int:
    world = World()
    stranger, _, _ = world.app.accounts.create("stranger")
    sharing = Sharing(world, tmp_path_factory.mktemp("count"), stranger)
    world.store.commits = 0
    sharing.run()
    return world.store.commits


@pytest.fixture(scope="module")
def last_commit(tmp_path_factory) -> int:
    return commits_of_sharing(tmp_path_factory)


@pytest.mark.parametrize("after_writing", [False, True])
def test_promise_10_and_12_a_crash_at_any_commit_shares_the_same_and_no_more(
    tmp_path_factory, last_commit, after_writing
):
    assert last_commit > 5
    for number in range(1, last_commit + 1):
        world = World()
        stranger, _, _ = world.app.accounts.create("stranger")
        tmp_path = tmp_path_factory.mktemp("crash")
        sharing = Sharing(world, tmp_path, stranger)
        world.store.commits = 0
        world.store.crash_at, world.store.crash_after_writing = number, after_writing
        sharing.run()
        world.store.crash_at = None
        assert sharing.crashed + world.crashes == 1, number
        assert {HISTORY, TOKEN}.isdisjoint(files_of_all(sharing, number)), number


def files_of_all(sharing: Sharing, number: int) -> set[str]:
    """What the recipient can restore, the same in each environment that they have got."""
    world, stranger = sharing.world, sharing.stranger
    environments = list(world.app.records.all_owned(Environment, stranger.id))
    assert environments, number
    left: set[str] = set()
    for place, environment in enumerate(environments):
        into = sharing.tmp_path / f"theirs-{place}"
        found = files_below(restored(world, stranger, environment.head, into))
        assert set(found) == set(CLEAN), number
        left |= set(found)
    operations = list(world.app.records.all_owned(Operation, stranger.id))
    assert {one.state for one in operations} <= {OperationState.SUCCEEDED}, number
    return left
