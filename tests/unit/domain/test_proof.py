"""Which objects a restore drill reads."""

from hypothesis import given
from hypothesis import strategies as st

from podferry.domain.manifest import NeededObject
from podferry.domain.proof import SAMPLE, ProofMode, chosen


def objects(count: int) -> list[NeededObject]:
    return [
        NeededObject(snapshot_id="snap_1", name=f"packs/{n:064x}", size=n, sha256=f"{n:064x}")
        for n in range(count)
    ]


@given(st.integers(0, 3 * SAMPLE))
def test_a_full_drill_reads_all_and_a_sample_what_it_can_up_to_its_size(count: int) -> None:
    needed = objects(count)
    assert chosen(needed, ProofMode.FULL, "op_1") == set(needed)
    assert len(chosen(needed, ProofMode.SAMPLE, "op_1")) == min(SAMPLE, count)


def test_a_sample_is_the_same_in_each_run_of_its_operation_and_another_in_the_next() -> None:
    needed = objects(10 * SAMPLE)
    first = chosen(needed, ProofMode.SAMPLE, "op_1")
    assert chosen(reversed(needed), ProofMode.SAMPLE, "op_1") == first
    assert chosen(needed, ProofMode.SAMPLE, "op_2") != first


def test_in_the_end_every_object_has_been_in_some_sample() -> None:
    needed = objects(4 * SAMPLE)
    seen = set()
    for number in range(60):
        seen |= chosen(needed, ProofMode.SAMPLE, f"op_{number}")
    assert seen == set(needed)
