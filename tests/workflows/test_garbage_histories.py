"""Random histories of saves, forks, uploads, starts and deaths, with a collector that crashes."""

from datetime import timedelta

from crashing_store import Crash
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from yard import KIND, UNFINISHED, Yard

from podferry.domain.operation import Operation
from podferry.domain.snapshot import Snapshot, SnapshotState

PICK = st.integers(0, 10**6)
QUIET_DAYS = 36  # After 30 no save is kept for its age, and a few more see it deleted.


class Histories(RuleBasedStateMachine):
    """Whatever happens, a committed snapshot is whole; in the end nothing needless is left."""

    @initialize()
    def first_save(self) -> None:
        self.yard = Yard()
        self.volumes = [self.yard.volume()]
        self.operations: list[Operation] = []
        self.yard.save(self.volumes[0])

    def some(self, *states: SnapshotState) -> list[Snapshot]:
        return [one for one in self.yard.snapshots() if one.state in states]

    @rule(pick=PICK, every=st.sampled_from([1, 2, 3]), is_whole=st.booleans())
    def save(self, pick: int, every: int, is_whole: bool) -> None:
        self.yard.save(self.volumes[pick % len(self.volumes)], every=every, is_whole=is_whole)

    @rule(pick=PICK, packs=st.integers(0, 3))
    def begin_an_upload(self, pick: int, packs: int) -> None:
        upload = self.yard.begin(self.volumes[pick % len(self.volumes)])
        self.yard.upload(upload, packs)
        self.yard.waste(upload)

    @rule(pick=PICK, is_good=st.booleans(), every=st.sampled_from([1, 2]))
    def end_an_upload(self, pick: int, is_good: bool, every: int) -> None:
        uploads = self.some(*UNFINISHED)
        if not uploads:
            return
        upload = uploads[pick % len(uploads)]
        if is_good:
            self.yard.keep(upload.id, every)
            self.yard.commit(upload.id)
        else:
            self.yard.abandon(upload.id)

    @rule(pick=PICK, count=st.integers(1, 4))
    def expire(self, pick: int, count: int) -> None:
        heads = self.yard.heads()
        for offset in range(count):
            saves = [
                one
                for one in self.some(SnapshotState.COMMITTED)
                if one.expired_at is None and one.id not in heads
            ]
            if saves:
                self.yard.expire(saves[(pick + offset) % len(saves)].id)

    @rule(pick=PICK)
    def fork(self, pick: int) -> None:
        saves = [one for one in self.some(SnapshotState.COMMITTED) if one.expired_at is None]
        self.volumes.append(self.yard.volume(head=saves[pick % len(saves)].id))

    @rule(pick=PICK)
    def start(self, pick: int) -> None:
        heads = sorted(self.yard.heads())
        self.operations.append(self.yard.operation(heads[pick % len(heads)]))

    @rule()
    def end_starts(self) -> None:
        for operation in self.operations:
            self.yard.end(operation)
        self.operations = []

    @rule(days=st.sampled_from([0.5, 1, 3]))
    def pass_days(self, days: float) -> None:
        self.yard.pass_days(days)

    @rule(days=st.integers(1, 4))
    def collect(self, days: int) -> None:
        self.yard.rounds(days)

    @rule(number=st.integers(1, 12), after=st.booleans())
    def collect_and_crash_at_a_write(self, number: int, after: bool) -> None:
        store = self.yard.store
        store.crash_at = store.commits + number
        store.crash_after_writing = after
        self.yard.rounds(1)
        store.crash_at = None

    @rule(number=st.integers(0, 3), after=st.booleans())
    def collect_and_crash_at_a_deletion(self, number: int, after: bool) -> None:
        objects, left = self.yard.world.objects, [number]
        delete = objects.delete

        def dying(kind, keys):
            left[0] -= 1
            is_last = left[0] < 0
            # Half of a batch may be gone only if the caller learns of it.
            delete(kind, keys[::2] if is_last and not after else keys)
            if is_last:
                raise Crash

        objects.delete = dying
        self.yard.rounds(1)
        del objects.delete

    @rule(looks=st.integers(0, 12))
    def collect_for_a_short_time(self, looks: int) -> None:
        left = [looks]

        def has_time() -> bool:
            left[0] -= 1
            return left[0] >= 0

        self.yard.pass_days(1)
        self.yard.round(has_time)

    @rule(number=st.integers(1, 6), pick=PICK, what=st.sampled_from(["save", "commit", "round"]))
    def something_happens_during_a_collection(self, number: int, pick: int, what: str) -> None:
        left = [number]

        def meanwhile() -> None:
            left[0] -= 1
            if left[0] == 0:
                self.yard.store.before_commit = lambda: None
                self.yard.world.clock.advance(timedelta(seconds=1))
                self._happens(what, pick)

        self.yard.pass_days(1)
        self.yard.store.before_commit = meanwhile
        self.yard.round()
        self.yard.store.before_commit = lambda: None

    def _happens(self, what: str, pick: int) -> None:
        match what:
            case "save":
                self.save(pick, 2, is_whole=False)
            case "commit":
                self.end_an_upload(pick, is_good=True, every=1)
            case _:
                self.yard.round()

    @invariant()
    def every_committed_snapshot_is_whole(self) -> None:
        assert self.yard.missing() == []

    def teardown(self) -> None:
        if not hasattr(self, "yard"):
            return
        self.end_starts()
        for upload in self.some(*UNFINISHED):
            self.yard.abandon(upload.id)
        self.yard.rounds(QUIET_DAYS)
        assert self.yard.missing() == []
        assert self.yard.needless() == set()
        assert self.some(SnapshotState.ABANDONED) == []
        for row in self.some(SnapshotState.DELETED):
            prefix = f"{row.account_id}/{row.id}/"
            assert any(key.startswith(prefix) for key in self.yard.world.objects.keys(KIND))
        assert self.yard.world.signals.counts["GarbageHalted"] == 0


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
