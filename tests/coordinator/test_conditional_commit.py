"""Conditional commits: one refused partition keeps the whole request from being written."""

from __future__ import annotations

import random
from typing import Any

import pytest

from protocol.errors import ErrorCode as E
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.own.conditional_commit import TAG, expecting

from .driving import CALLER, Driven
from .transacting import Transacting

# A partition, the offset expected (None: no condition), and the offset to set.
Swap = tuple[int, int | None, int]


def swap(d: Driven, *swaps: Swap, malformed: bytes | None = None, **request: Any) -> list[int]:
    """The error code of each partition."""
    metadata = request.pop("metadata", {})
    partitions = []
    for index, expected, offset in swaps:
        partition = OffsetCommitRequestPartition(index, offset, committed_metadata=metadata.get(index, ""))
        partitions.append(partition if expected is None else expecting(partition, expected))
    if malformed is not None:
        partitions.append(OffsetCommitRequestPartition(99, 1, tagged=((TAG, malformed),)))
    ticket = d.ticket()
    topics = tuple(OffsetCommitRequestTopic("orders", partitions=(partition,)) for partition in partitions)
    asked = OffsetCommitRequest("g", **request, topics=topics)
    d.take(d.coordinator.offset_commit(d.now, CALLER, 8, asked, ticket))
    answered = d.answer(ticket, OffsetCommitResponse)
    assert [[p.partition_index for p in t.partitions] for t in answered.topics] == [
        [partition.partition_index] for partition in partitions
    ]
    return [p.error_code for t in answered.topics for p in t.partitions]


def offsets(d: Driven, *partitions: int) -> list[int]:
    return [d.fetch("orders", partition).committed_offset for partition in partitions]


class TestOnePartition:
    def test_the_first_offset(self) -> None:
        d = Driven()
        assert swap(d, (0, -1, 5)) == [E.NONE]
        assert swap(d, (0, -1, 6)) == [E.INVALID_UPDATE_VERSION]
        assert offsets(d, 0) == [5]

    def test_the_next_one(self) -> None:
        d = Driven()
        d.commit()
        assert swap(d, (0, 4, 9)) == [E.INVALID_UPDATE_VERSION]
        assert swap(d, (0, 6, 9)) == [E.INVALID_UPDATE_VERSION]
        assert swap(d, (0, 5, 9)) == [E.NONE]
        assert offsets(d, 0) == [9]

    def test_backwards_and_to_the_same(self) -> None:
        d = Driven()
        d.commit()
        assert swap(d, (0, 5, 5)) == [E.NONE]
        assert swap(d, (0, 5, 1)) == [E.NONE]
        assert offsets(d, 0) == [1]

    def test_a_refused_one_makes_no_group_and_no_record(self) -> None:
        d = Driven()
        assert swap(d, (0, 3, 5)) == [E.INVALID_UPDATE_VERSION]
        assert len(d.coordinator.group_ids()) == 0
        assert not d.records

    def test_a_deleted_offset_is_none(self) -> None:
        d = Driven()
        d.commit()
        d.delete_offsets(("orders", (0,)))
        assert swap(d, (0, 5, 6)) == [E.INVALID_UPDATE_VERSION]
        assert swap(d, (0, -1, 6)) == [E.NONE]

    def test_an_offset_of_minus_one_looks_like_none_and_is_none(self) -> None:
        d = Driven()
        d.commit(offsets=[("orders", 0, -1)])
        assert swap(d, (0, -1, 6)) == [E.NONE]

    def test_it_is_judged_after_a_restart_as_before(self) -> None:
        d = Driven()
        assert swap(d, (0, -1, 5)) == [E.NONE]
        d.restart()
        assert swap(d, (0, -1, 6)) == [E.INVALID_UPDATE_VERSION]
        assert swap(d, (0, 5, 6)) == [E.NONE]


class TestAllOrNothing:
    def test_one_of_many_does_not_hold(self) -> None:
        d = Driven()
        swap(d, (0, None, 1), (1, None, 1), (2, None, 1))
        before = len(d.records)
        answered = swap(d, (0, 1, 2), (1, 7, 2), (2, 1, 2), (3, -1, 2), (4, 0, 2), (5, None, 2))
        assert answered == [
            E.OPERATION_NOT_ATTEMPTED,
            E.INVALID_UPDATE_VERSION,
            E.OPERATION_NOT_ATTEMPTED,
            E.OPERATION_NOT_ATTEMPTED,
            E.INVALID_UPDATE_VERSION,
            E.OPERATION_NOT_ATTEMPTED,
        ]
        assert len(d.records) == before
        assert offsets(d, 0, 1, 2, 3, 4, 5) == [1, 1, 1, -1, -1, -1]

    def test_all_hold(self) -> None:
        d = Driven()
        swap(d, (0, None, 1), (1, None, 2))
        assert swap(d, (0, 1, 10), (1, 2, 20), (2, -1, 30), (3, None, 40)) == [E.NONE] * 4
        assert offsets(d, 0, 1, 2, 3) == [10, 20, 30, 40]

    def test_metadata_that_is_too_large(self) -> None:
        d = Driven()
        long = {1: "x" * 4097}
        assert swap(d, (0, -1, 1), (1, None, 1), metadata=long) == [
            E.OPERATION_NOT_ATTEMPTED,
            E.OFFSET_METADATA_TOO_LARGE,
        ]
        assert not d.records
        # Without any condition the others are written, as ever.
        assert swap(d, (0, None, 1), (1, None, 1), metadata=long) == [E.NONE, E.OFFSET_METADATA_TOO_LARGE]

    @pytest.mark.parametrize("size", [0, 7, 9])
    def test_a_malformed_condition(self, size: int) -> None:
        d = Driven()
        assert swap(d, (0, None, 1), malformed=bytes(size)) == [E.OPERATION_NOT_ATTEMPTED, E.INVALID_REQUEST]
        assert not d.records

    def test_a_partition_twice_is_judged_by_what_was_there_before(self) -> None:
        d = Driven()
        assert swap(d, (0, -1, 1), (0, 1, 2)) == [E.OPERATION_NOT_ATTEMPTED, E.INVALID_UPDATE_VERSION]
        assert swap(d, (0, -1, 1), (0, -1, 2)) == [E.NONE, E.NONE]
        assert offsets(d, 0) == [2]


class TestMembers:
    def test_who_may_not_commit_is_told_so_first(self) -> None:
        d = Driven()
        d.stable()
        assert swap(d, (0, 7, 5)) == [E.UNKNOWN_MEMBER_ID]
        assert swap(d, (0, -1, 5), member_id="nobody", generation_id_or_member_epoch=1) == [E.UNKNOWN_MEMBER_ID]

    def test_a_refused_commit_renews_the_session(self) -> None:
        d = Driven()
        (member_id,), generation = d.stable()
        member: dict[str, Any] = {"member_id": member_id, "generation_id_or_member_epoch": generation}
        for _ in range(4):
            d.advance(9_000)
            assert swap(d, (0, 7, 5), **member) == [E.INVALID_UPDATE_VERSION]
        assert swap(d, (0, -1, 5), **member) == [E.NONE]


class TestTransactions:
    def test_nobody_knows_while_one_is_open(self) -> None:
        d = Transacting()
        d.commit()
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 8)])
        assert sent_on is not None
        assert swap(d, (0, 5, 6), (1, -1, 1)) == [E.UNSTABLE_OFFSET_COMMIT, E.OPERATION_NOT_ATTEMPTED]
        d.read(10, sent_on)
        d.tell(ticket, sent_on)
        assert d.errors(ticket) == {0}
        # The client's EndTxn may have been answered by now: 8 may be what counts.
        assert swap(d, (0, 5, 6)) == [E.UNSTABLE_OFFSET_COMMIT]
        assert swap(d, (1, -1, 1)) == [E.NONE]
        d.read(11, (1, 0, True))
        assert swap(d, (0, 5, 6)) == [E.INVALID_UPDATE_VERSION]
        assert swap(d, (0, 8, 9)) == [E.NONE]

    def test_one_that_is_aborted(self) -> None:
        d = Transacting()
        d.commit()
        ticket, sent_on = d.ask_txn_commit([("orders", 0, 8)])
        assert sent_on is not None
        d.read(10, sent_on)
        d.tell(ticket, sent_on)
        d.read(11, (1, 0, False))
        assert swap(d, (0, 5, 6)) == [E.NONE]


@pytest.mark.parametrize("seed", range(20))
def test_random_swaps_against_a_dict(seed: int) -> None:
    """Every request leaves what the rule leaves: all of it where all conditions hold, otherwise nothing."""
    rng = random.Random(seed)
    d, table = Driven(), dict.fromkeys(range(4), -1)
    outcomes = set()
    for _ in range(200):
        swaps: list[Swap] = [
            (index, rng.choice([None, table[index], table[index], -1, rng.randrange(-1, 3)]), rng.randrange(3))
            for index in rng.sample(range(4), rng.randrange(1, 5))
        ]
        errors = swap(d, *swaps)
        holds = [expected is None or expected == table[index] for index, expected, _ in swaps]
        if all(holds):
            assert errors == [E.NONE] * len(swaps)
            table.update((index, offset) for index, _, offset in swaps)
        else:
            assert errors == [E.OPERATION_NOT_ATTEMPTED if held else E.INVALID_UPDATE_VERSION for held in holds]
        outcomes.add(all(holds))
        assert offsets(d, *table) == list(table.values())
        if rng.random() < 0.02:
            d.restart()
    assert outcomes == {True, False}
