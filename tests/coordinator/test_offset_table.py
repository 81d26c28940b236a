"""The offset table alone: what it gives back, what it takes in memory, and what of it is shared."""

import random
import struct
import tracemalloc
from collections.abc import Callable, Iterable

import pytest

from protocol.offsets_log import CommittedOffset
from shim.coordinator.state.offset_table import OffsetTable
from shim.coordinator.state.topic_offsets import TopicOffsets

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def committed(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, 3, "m", 1_000)


def plain(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, 3, "", 1_760_000_000_000)


def traced(make: Callable[[], object]) -> tuple[int, int]:
    """The bytes that are allocated for what is made, in the end and at most."""
    tracemalloc.start()
    try:
        made = make()
        memory = tracemalloc.get_traced_memory()
        del made
        return memory
    finally:
        tracemalloc.stop()


def table_of(partitions: Iterable[int], topics: int = 1) -> OffsetTable:
    """A group with an offset for these partitions, in their order, of so many topics."""
    table = OffsetTable()
    for partition in partitions:
        for topic in range(topics):
            table.set("g", f"topic-{topic}", partition, plain(10_000_000_000 + partition))
    return table


def test_set_get_replace_delete() -> None:
    table = OffsetTable()
    assert table.get("g", "t", 0) is None
    table.set("g", "t", 0, committed(1))
    table.set("g", "t", 0, committed(2))
    assert table.get("g", "t", 0) == committed(2)
    assert table.get("g", "t", 1) is None
    assert table.get("g", "u", 0) is None
    assert table.get("h", "t", 0) is None
    table.delete("g", "t", 1)
    table.delete("g", "u", 0)
    table.delete("h", "t", 0)
    assert len(table) == 1
    table.delete("g", "t", 0)
    assert table.get("g", "t", 0) is None
    assert len(table) == 0


def test_groups_and_topics_without_offsets_are_gone() -> None:
    table = OffsetTable()
    table.set("g", "t", 0, committed(1))
    table.set("g", "u", 7, committed(2))
    table.set("g", "t", 1, committed(3))
    table.set("h", "t", 0, committed(4))
    assert list(table.of_group("g")) == [("t", 0, committed(1)), ("t", 1, committed(3)), ("u", 7, committed(2))]
    table.delete("g", "u", 7)
    assert [topic for topic, *_ in table.of_group("g")] == ["t", "t"]
    table.delete("g", "t", 0)
    table.delete("g", "t", 1)
    assert not table.has_offsets("g")
    assert list(table.of_group("g")) == []
    assert table.has_offsets("h")


def test_topics_keep_their_order_and_partitions_come_by_number() -> None:
    table = OffsetTable()
    for topic, partition in (("u", 5), ("t", 70_000), ("t", 2), ("u", -1), ("t", 0), ("u", 0)):
        table.set("g", topic, partition, plain(partition))
    table.set("g", "t", 70_000, plain(1))
    assert [(topic, partition) for topic, partition, _ in table.of_group("g")] == [
        ("u", -1),
        ("u", 0),
        ("u", 5),
        ("t", 0),
        ("t", 2),
        ("t", 70_000),
    ]
    for partition in (-1, 0, 5):
        table.delete("g", "u", partition)
    table.set("g", "u", 0, plain(1))
    assert [topic for topic, *_ in table.of_group("g")] == ["t", "t", "t", "u"]


@pytest.mark.parametrize("partition", [0, 1, 13, 14, 70_000, INT32_MAX, -1, INT32_MIN])
@pytest.mark.parametrize(
    "offset",
    [
        CommittedOffset(0, 0, "", 0, 0),
        CommittedOffset(-1, -1, "", -1),
        CommittedOffset(INT64_MAX, INT32_MAX, "", INT64_MAX, INT64_MAX),
        CommittedOffset(INT64_MIN, INT32_MIN, "", INT64_MIN, INT64_MIN),
        CommittedOffset(5, 6, "\0", 7),
        CommittedOffset(5, 6, "lone \ud800, escaped \udcff, pair \ud83d\ude00, one \U0001f600", 7, 8),
        CommittedOffset(5, 6, "x" * 4096, 7),
    ],
)
def test_every_value_comes_back(partition: int, offset: CommittedOffset) -> None:
    table = OffsetTable()
    table.set("g", "t", partition, offset)
    # Two metadata and expire timestamps of others, which must not be mixed up with it.
    table.set("g", "t", partition ^ 1, CommittedOffset(1, 2, "other", 3, 4))
    for found in (table, OffsetTable.restore(b"".join(table.dump()))):
        got = found.get("g", "t", partition)
        assert type(got) is CommittedOffset
        assert got == offset
        assert list(found.of_group("g")) == sorted(
            [("t", partition, offset), ("t", partition ^ 1, (1, 2, "other", 3, 4))]
        )


@pytest.mark.parametrize("partition", [2, 70_000])
def test_metadata_and_expire_timestamp_go_with_the_commit_that_had_them(partition: int) -> None:
    table = OffsetTable()
    for offset in (
        CommittedOffset(1, 2, "m", 3, 4),
        CommittedOffset(1, 2, "m", 3),
        CommittedOffset(1, 2, "", 3, 4),
        CommittedOffset(1, 2, "n", 3, 5),
        CommittedOffset(1, 2, "", 3),
    ):
        table.set("g", "t", partition, offset)
        assert table.get("g", "t", partition) == offset
    table.set("g", "t", partition, CommittedOffset(1, 2, "m", 3, 4))
    table.set("g", "t", 0, plain(0))  # so that the topic stays
    table.delete("g", "t", partition)
    assert table.get("g", "t", partition) is None
    alone = OffsetTable()
    alone.set("g", "t", 0, plain(0))
    assert OffsetTable.restore(b"".join(table.dump())).get("g", "t", 0) == alone.get("g", "t", 0)
    table.set("g", "t", partition, plain(5))
    assert table.get("g", "t", partition) == plain(5)


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        (INT32_MAX + 1, plain(1)),
        (INT32_MIN - 1, plain(1)),
        (3, plain(INT64_MAX + 1)),
        (3, plain(1)._replace(leader_epoch=INT32_MIN - 1)),
        (3, plain(1)._replace(commit_timestamp=INT64_MIN - 1)),
        (3, plain(1)._replace(metadata="m", expire_timestamp=INT64_MAX + 1)),
    ],
)
def test_a_number_that_no_request_can_carry_is_refused_with_nothing_changed(
    partition: int, offset: CommittedOffset
) -> None:
    table = OffsetTable()
    with pytest.raises((ValueError, struct.error)):
        table.set("g", "t", partition, offset)
    assert not table.has_offsets("g")
    table.set("g", "t", 3, plain(7))
    before = table.dump()
    with pytest.raises((ValueError, struct.error)):
        table.set("g", "t", partition, offset)
    assert (table.dump(), len(table)) == (before, 1)
    assert table.get("g", "t", INT32_MAX + 1) is None
    table.delete("g", "t", INT32_MAX + 1)
    assert table.dump() == before


@pytest.mark.parametrize(
    "partitions",
    [
        pytest.param([INT32_MAX], id="the last one"),
        pytest.param([0, INT32_MAX, INT32_MIN, 1], id="both ends"),
        pytest.param([10**6 * n for n in range(1000)], id="far apart"),
        pytest.param([14 * n + 13 for n in range(1000)], id="a little too far apart"),
        # Each is as high as may be without being far.
        pytest.param([4 * n + 13 for n in range(1000)], id="just near enough"),
        pytest.param([*range(10**6, 10**6 + 500), *(4 * n + 2013 for n in range(500))], id="near enough for the many"),
    ],
)
def test_partition_numbers_far_apart_take_memory_by_their_count(partitions: list[int]) -> None:
    _, peak = traced(lambda: table_of(partitions))
    assert peak < 2_000 + 300 * len(partitions)


@pytest.mark.parametrize("order", ["ascending", "descending", "any"])
def test_dense_partitions_take_few_bytes_in_whatever_order_they_come(order: str) -> None:
    partitions = list(range(100))
    if order == "descending":
        partitions.reverse()
    elif order == "any":
        random.Random(3).shuffle(partitions)
    # At most 64 are allowed; resident memory is measured by benchmarks/log/offset_table.py.
    held, _ = traced(lambda: table_of(partitions, topics=200))
    assert held < 30 * 100 * 200


def test_entries_that_were_far_are_found_when_they_are_no_more() -> None:
    partitions = [70_000, 5_000, 300, 90, 57, -3, *range(2_000)]
    table = OffsetTable()
    expected = {}
    for n, partition in enumerate(partitions):
        expected[partition] = CommittedOffset(n, n, f"m{n}" if n % 3 else "", n, n if n % 2 else -1)
        table.set("g", "t", partition, expected[partition])
        if n % 100 < 10:
            assert {p: committed for _, p, committed in table.of_group("g")} == expected
            assert all(table.get("g", "t", p) == committed for p, committed in expected.items())
            assert len(table) == len(expected)


def test_far_entries_are_looked_through_once_for_every_doubling(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_through = []
    settle = TopicOffsets._settle

    def counted(offsets: TopicOffsets, far: dict[int, bytes]) -> None:
        looked_through.append(len(far))
        settle(offsets, far)

    monkeypatch.setattr(TopicOffsets, "_settle", counted)
    table = table_of(10**6 * n for n in range(2_000))
    for _ in range(100):
        table.delete("g", "topic-0", 10**6)
        table.set("g", "topic-0", 10**6, plain(1))
    assert 0 < sum(looked_through) < 2 * 2_000


def test_names_are_shared_between_groups_and_metadata_within_a_commit() -> None:
    table = OffsetTable()
    for group in ("g", "h"):
        for partition in (0, 1, 70_000):
            # New strings each time, as they are in requests and records.
            table.set(group, "".join(["to", "pic"]), partition, CommittedOffset(1, 2, "".join(["meta", "data"]), 3))
    for found in (table, OffsetTable.restore(b"".join(table.dump()))):
        names = {id(topic) for group in ("g", "h") for topic, *_ in found.of_group(group)}
        texts = {id(offset.metadata) for group in ("g", "h") for _, _, offset in found.of_group(group)}
        assert (len(names), len(texts)) == (1, 1)


def test_a_forgotten_iterator_keeps_nobody_from_committing() -> None:
    table = OffsetTable()
    table.set("g", "t", 0, plain(0))
    table.set("g", "t", 1, plain(1))
    forgotten = table.of_group("g")
    assert next(forgotten) == ("t", 0, plain(0))
    for partition in range(100):
        table.set("g", "t", partition, plain(2))
    assert len(table) == 100
