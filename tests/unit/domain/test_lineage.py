"""Who decides over the objects of a snapshot, compared with asking everybody."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from podferry.domain.lineage import Lineage
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState

NOW = datetime(2026, 11, 30, tzinfo=UTC)
FINAL = [SnapshotState.COMMITTED, SnapshotState.DELETED]


def a_snapshot(number: int, parent: int | None, state: SnapshotState) -> Snapshot:
    return Snapshot(
        id=f"snap_{number}",
        account_id="acct_1",
        created_at=NOW,
        kind=SnapshotKind.VOLUME,
        subject_id="vol_1",
        pod_id="pod_1",
        machine_id="mach_1",
        epoch=1,
        operation_id=None,
        parent_id=None if parent is None else f"snap_{parent}",
        state=state,
    )


def a_chain(*states: SnapshotState) -> list[Snapshot]:
    return [a_snapshot(n, n - 1 if n else None, state) for n, state in enumerate(states)]


@st.composite
def histories(draw: st.DrawFn) -> list[Snapshot]:
    """Any tree; a snapshot's number says nothing of its age."""
    count = draw(st.integers(1, 12))
    numbers = draw(st.permutations(range(count)))
    made = []
    for index in range(count):
        parent = draw(st.none() | st.integers(0, index - 1)) if index else None
        state = draw(st.sampled_from(FINAL))
        made.append(a_snapshot(numbers[index], None if parent is None else numbers[parent], state))
    return made


def ancestors(by_id: dict[str, Snapshot], snapshot: Snapshot) -> list[str]:
    """From its parent up."""
    found = []
    at = snapshot.parent_id
    while at is not None:
        found.append(at)
        at = by_id[at].parent_id
    return found


def nearest(snapshots: list[Snapshot], of: Snapshot) -> set[str]:
    """Those committed ones that have no other committed one between themselves and `of`."""
    by_id = {one.id: one for one in snapshots}
    committed = {one.id for one in snapshots if one.state == SnapshotState.COMMITTED}
    if of.id in committed:
        return {of.id}
    found = set()
    for one in committed:
        way = ancestors(by_id, by_id[one])
        if of.id in way and not committed & set(way[: way.index(of.id)]):
            found.add(one)
    return found


@given(histories())
def test_the_keepers_are_the_nearest_committed_descendants(snapshots: list[Snapshot]) -> None:
    lineage = Lineage(snapshots)
    for snapshot in snapshots:
        assert set(lineage.keepers(snapshot.id)) == nearest(snapshots, snapshot)


def test_a_chain_of_thousands_is_no_deeper_than_one_of_two() -> None:
    long = a_chain(*[SnapshotState.DELETED] * 5000, SnapshotState.COMMITTED)
    assert Lineage(long).keepers("snap_0") == ("snap_5000",)


def test_what_is_unfinished_or_given_up_decides_over_nothing() -> None:
    for state in (SnapshotState.OPEN, SnapshotState.CAPTURED, SnapshotState.ABANDONED):
        assert Lineage(a_chain(SnapshotState.DELETED, state)).keepers("snap_0") == ()


def test_a_parent_or_a_head_without_a_row_is_missing() -> None:
    whole = a_chain(*[SnapshotState.COMMITTED] * 3)
    assert Lineage(whole).missing(["snap_2"]) == frozenset()
    assert Lineage(whole[1:]).missing(["snap_2"]) == {"snap_0"}
    assert Lineage(whole).missing(["snap_9"]) == {"snap_9"}


def test_the_children_of_a_removed_one_hang_from_its_parent() -> None:
    lineage = Lineage(a_chain(*[SnapshotState.DELETED] * 2, SnapshotState.COMMITTED))
    lineage.remove("snap_1", ["snap_0"])
    assert lineage.children("snap_0") == ("snap_2",)
    assert lineage.missing(["snap_2"]) == frozenset()
