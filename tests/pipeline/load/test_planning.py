"""Which offsets a batch reads: by hand, and for any offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import NotDone
from pipeline.load.offsets import Range, TopicPartition, flat, nested, source_options
from pipeline.load.planning import check_ends, plan_batch

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_from_where_it_stands_to_the_ends() -> None:
    plan = plan_batch({A0: 3, A1: 7}, {A0: 0, A1: 7}, {A0: 10, A1: 7})
    assert plan.ranges == (Range(A0, 3, 10),)
    assert plan.gaps == ()
    assert plan.offsets == 7


def test_at_most_so_many_of_each_partition() -> None:
    plan = plan_batch({A0: 3, A1: 7}, {A0: 0, A1: 0}, {A0: 10, A1: 8}, most=2)
    assert plan.ranges == (Range(A0, 3, 5), Range(A1, 7, 8))


def test_a_gap_names_partition_and_range() -> None:
    with pytest.raises(NotDone, match=r"a-0 offsets 3 to 5\. --allow-gaps"):
        plan_batch({A0: 3}, {A0: 6}, {A0: 10})


def test_a_gap_that_may_be_passed_over_is_counted() -> None:
    plan = plan_batch({A0: 3}, {A0: 6}, {A0: 10}, allow_gaps=True)
    assert plan.ranges == (Range(A0, 6, 10),)
    assert plan.gaps == (Range(A0, 3, 6),)
    assert plan.starts == {A0: 3}, "the group stands before the gap until the batch is committed"
    assert plan.ends == {A0: 10}


def test_a_partition_of_which_all_is_gone() -> None:
    plan = plan_batch({A0: 3}, {A0: 10}, {A0: 10}, allow_gaps=True)
    assert plan.ranges == ()
    assert plan.gaps == (Range(A0, 3, 10),)
    assert plan.ends == {A0: 10}
    assert plan


def test_an_end_before_the_start_is_another_topic() -> None:
    with pytest.raises(NotDone, match="a-0 ends at offset 4, and is to be read from 9 on"):
        check_ends({A0: 9, B0: 0}, {A0: 4, B0: 0})


def test_the_source_reads_just_the_ranges() -> None:
    options = source_options([Range(B0, 1, 2), Range(A1, 3, 9), Range(A0, 0, 5)])
    assert options == {
        "assign": '{"a": [0, 1], "b": [0]}',
        "startingOffsets": '{"a": {"0": 0, "1": 3}, "b": {"0": 1}}',
        "endingOffsets": '{"a": {"0": 5, "1": 9}, "b": {"0": 2}}',
    }


_POINTS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)).map(sorted), min_size=1, max_size=6
)


@given(_POINTS, st.one_of(st.none(), st.integers(1, 20)))
def test_batch_after_batch_each_offset_is_read_once(points: list[list[int]], most: int | None) -> None:
    """start and earliest in either order, end behind both."""
    starts, earliest, ends = {}, {}, {}
    for number, (low, middle, high) in enumerate(points):
        at = TopicPartition("t", number)
        starts[at], earliest[at], ends[at] = (low, middle, high) if number % 2 else (middle, low, high)
    read: dict[TopicPartition, list[int]] = {at: [] for at in starts}
    at_now = dict(starts)
    while plan := plan_batch(
        {at: start for at, start in at_now.items() if start < ends[at]}, earliest, ends, most=most, allow_gaps=True
    ):
        for each in plan.ranges:
            assert most is None or len(each) <= most
            read[each.at] += range(each.start, each.end)
        at_now |= plan.ends
    for at, found in read.items():
        assert found == list(range(max(starts[at], earliest[at]), ends[at]))
    assert at_now == {at: max(ends[at], starts[at]) for at in starts}


@given(st.dictionaries(st.tuples(st.text(min_size=1), st.integers(0, 99)).map(lambda at: TopicPartition(*at)),
                       st.integers(0, 2**63 - 1)))  # fmt: skip
def test_offsets_as_json_and_back(offsets: dict[TopicPartition, int]) -> None:
    assert flat(nested(offsets)) == offsets
