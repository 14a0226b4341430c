"""Random histories of volumes that are saved, forked, taken back, deleted and collected.

An oracle that knows only what users were told says what must be there: every save that is listed,
every head and what every fork began with can be restored, whatever crashed on the way.
"""

from datetime import timedelta

import pytest
from crashing_store import Crash
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from yard import Yard

from podferry.domain.errors import NotFoundError, WrongStateError
from podferry.domain.volume import TRASH, Volume

PICK = st.integers(0, 10**6)
UNTIL_EMPTY = 14
"""Days: a week in the trash, then mark, wait, sweep and forget."""


class VolumeHistories(RuleBasedStateMachine):
    """Each volume of the oracle is the bytes of its head; what is in the trash has a time, too."""

    @initialize()
    def first_save(self) -> None:
        self.yard = Yard()
        self.app, self.account = self.yard.world.app, self.yard.world.account.id
        self.heads: dict[str, str | None] = {self.yard.volume(): None}
        self.origins: dict[str, str] = {}
        self.trashed: dict[str, float] = {}
        self.lost: set[str] = set()
        """Deleted for good, or perhaps: nobody may rely on them."""
        self.save(0, 1)

    # What users do

    def present(self, pick: int) -> str | None:
        found = sorted(set(self.heads) - set(self.trashed))
        return found[pick % len(found)] if found else None

    @rule(pick=PICK, every=st.sampled_from([1, 2, 3]))
    def save(self, pick: int, every: int) -> None:
        volume = self.present(pick)
        if volume is not None:
            self.heads[volume] = self.yard.save(volume, every=every)

    @rule(days=st.sampled_from([0.01, 0.5, 1, 5, 32]))
    def pass_days(self, days: float) -> None:
        self.yard.pass_days(days)

    @rule(pick=PICK, which=PICK)
    def restore(self, pick: int, which: int) -> None:
        volume = self.present(pick)
        if volume is None:
            return
        points = self.points(volume)
        if points:
            chosen = points[which % len(points)]
            self.app.restore_volume.restore(self.account, volume, chosen)
            self.heads[volume] = chosen

    @rule(pick=PICK, which=PICK)
    def fork(self, pick: int, which: int) -> None:
        volume = self.present(pick)
        if volume is None:
            return
        points = self.points(volume)
        if points:
            chosen = points[which % len(points)]
            fork = self.app.fork_volume.fork(self.account, volume, chosen, None)
            self.heads[fork.id] = self.origins[fork.id] = chosen

    @rule(pick=PICK)
    def delete(self, pick: int) -> None:
        volume = self.present(pick)
        if volume is not None:
            self.app.keep_volume.trash(self.account, volume)
            self.trashed[volume] = self.yard.world.seconds

    @rule(pick=PICK)
    def take_back(self, pick: int) -> None:
        candidates = sorted(set(self.trashed) - self.lost)
        if not candidates:
            return
        volume = candidates[pick % len(candidates)]
        is_safe = self.yard.world.seconds - self.trashed[volume] < TRASH.total_seconds()
        try:
            self.app.keep_volume.take_back(self.account, volume)
        except NotFoundError:
            assert not is_safe
            self.lost.add(volume)
        else:
            del self.trashed[volume]

    # What the collector does, and what goes wrong with it

    @rule(days=st.integers(1, 9))
    def collect(self, days: int) -> None:
        self.yard.rounds(days)

    @rule(number=st.integers(1, 20), after=st.booleans())
    def collect_and_crash_at_a_write(self, number: int, after: bool) -> None:
        self._crash_soon(number, after=after)
        self.yard.rounds(1)
        self.yard.store.crash_at = None

    @rule(pick=PICK, which=PICK, after=st.booleans(), what=st.sampled_from("rfdt"))
    def crash_in_a_request(self, pick: int, which: int, after: bool, what: str) -> None:
        """The user hears nothing, asks again, and it is one effect, or one more fork."""
        before = dict(self.heads)
        self._crash_soon(1, after=after)
        try:
            self._ask(what, pick, which)
        except Crash:
            self.yard.store.crash_at = None
            self._learn(before)
            self._ask(what, pick, which)
        self.yard.store.crash_at = None

    @rule(number=st.integers(1, 6), pick=PICK, which=PICK, what=st.sampled_from("rfdts"))
    def something_happens_during_a_collection(
        self, number: int, pick: int, which: int, what: str
    ) -> None:
        left = [number]

        def meanwhile() -> None:
            left[0] -= 1
            if left[0] == 0:
                self.yard.store.before_commit = lambda: None
                self.yard.world.clock.advance(timedelta(seconds=1))
                self._ask(what, pick, which)

        self.yard.pass_days(1)
        self.yard.store.before_commit = meanwhile
        self.yard.round()
        self.yard.store.before_commit = lambda: None

    def _crash_soon(self, number: int, *, after: bool) -> None:
        store = self.yard.store
        store.crash_at, store.crash_after_writing = store.commits + number, after

    def _ask(self, what: str, pick: int, which: int) -> None:
        match what:
            case "r":
                self.restore(pick, which)
            case "f":
                self.fork(pick, which)
            case "d":
                self.delete(pick)
            case "t":
                self.take_back(pick)
            case _:
                self.save(pick, 2)

    def _learn(self, before: dict[str, str | None]) -> None:
        """What was written before the crash; each request writes all of it or nothing."""
        for volume in self.yard.volumes():
            if volume.purged_at is None:
                self.heads[volume.id] = volume.head
            if volume.forked_from is not None and volume.id not in before:
                self.origins[volume.id] = volume.forked_from.snapshot_id
            if volume.trashed_at is None:
                self.trashed.pop(volume.id, None)
            else:
                self.trashed.setdefault(volume.id, self.yard.world.seconds)

    # What must hold

    def points(self, volume: str) -> list[str]:
        listed = self.app.browse.saves(self.account, volume, limit=100, cursor=None).items
        origin = self.origins.get(volume)
        return sorted({one.id for one in listed} | ({origin} if origin else set()))

    def promised(self) -> set[str]:
        """The snapshots that some user was told can be restored."""
        found: set[str] = set()
        now = self.yard.world.seconds
        for volume, head in self.heads.items():
            since = self.trashed.get(volume)
            if volume in self.lost or (since is not None and now - since >= TRASH.total_seconds()):
                continue
            found |= set(self.points(volume)) | ({head} if head else set())
        return found

    @invariant()
    def every_save_that_is_listed_can_be_restored(self) -> None:
        there = set(self.yard.keys())
        for snapshot_id in self.promised():
            assert set(self.yard.needed_by(snapshot_id)) <= there
            assert self.yard.snapshot(snapshot_id).mark is None
            self.app.verify_snapshot.run(
                [self.yard.snapshot(snapshot_id)], None, trust_parents=False
            )

    @invariant()
    def heads_are_where_users_put_them(self) -> None:
        for volume in self.yard.volumes():
            if volume.purged_at is None:
                assert volume.head == self.heads[volume.id]

    @invariant()
    def the_sums_are_those_of_the_charges(self) -> None:
        sums: dict[str, int] = {}
        for snapshot in self.yard.snapshots():
            if snapshot.charge is not None:
                sums[snapshot.charge.to] = sums.get(snapshot.charge.to, 0) + snapshot.charge.bytes
        charged = self.yard.charged_bytes()
        assert {one: n for one, n in sums.items() if n} == {o: n for o, n in charged.items() if n}
        # A deletion is noted after it was done, so never less than there is.
        assert sum(charged.values()) >= self.yard.stored_bytes()

    def teardown(self) -> None:
        """Only what was deleted goes; when all is deleted, all goes."""
        if not hasattr(self, "yard"):
            return
        self.yard.rounds(3)
        charged = self.yard.charged_bytes()
        assert sum(charged.values()) == self.yard.stored_bytes()
        for volume in sorted(set(self.heads) - set(self.trashed)):
            self.app.keep_volume.trash(self.account, volume)
        self.yard.rounds(UNTIL_EMPTY)
        assert self.yard.keys() == []
        assert all(volume.purged_at is not None for volume in self.yard.volumes())
        assert self.yard.snapshots() == []
        assert sum(self.yard.charged_bytes().values()) == 0
        assert self.yard.world.signals.counts["GarbageHalted"] == 0


TestVolumeHistories = VolumeHistories.TestCase
TestVolumeHistories.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_a_request_for_what_is_not_there_is_refused():
    yard = Yard()
    volume, other = yard.volume(), yard.volume()
    foreign = yard.save(other)
    app, account = yard.world.app, yard.world.account.id
    with pytest.raises(NotFoundError, match="not a save of volume"):
        app.restore_volume.restore(account, volume, foreign)
    with pytest.raises(NotFoundError, match="not a save of volume"):
        app.fork_volume.fork(account, volume, foreign, None)
    with pytest.raises(WrongStateError, match="never saved"):
        app.fork_volume.fork(account, volume, None, None)
    assert yard.store.get(Volume, volume).head is None
