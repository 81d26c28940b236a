"""Offsets that whoever looks after the groups sets: on condition, all or none, and in the history."""

from __future__ import annotations

from protocol.errors import ErrorCode as E
from protocol.own.history_log import NONE_REPLACED, TAKEN_AWAY
from shim.coordinator import CoordinatorSettings, OffsetReset, OffsetsReset, Outcome

from .driving import CALLER, Driven


def reset(d: Driven, *changes: OffsetReset, group: str = "g") -> tuple[OffsetsReset, Outcome]:
    ticket = d.ticket()
    outcome = d.coordinator.reset_offsets(d.now, CALLER, group, changes, "why", ticket)
    d.take(outcome)
    return d.answer(ticket, OffsetsReset), outcome


def offsets(d: Driven, *partitions: int) -> list[int]:
    return [d.fetch("orders", partition).committed_offset for partition in partitions]


def test_all_of_it_is_set_and_told() -> None:
    d = Driven()
    assert reset(d, OffsetReset("orders", 0, -1, 5))[0].error is E.NONE  # it makes the group
    answer, outcome = reset(d, OffsetReset("orders", 0, 5, 2), OffsetReset("orders", 1, -1, 9))
    assert answer == OffsetsReset(E.NONE)
    assert offsets(d, 0, 1) == [2, 9]
    assert [(key.partition, value.offset, value.replaced, value.cause) for key, value in outcome.history] == [
        (0, 2, 5, "why"),
        (1, 9, NONE_REPLACED, "why"),
    ]


def test_an_offset_can_be_taken_away() -> None:
    d = Driven()
    reset(d, OffsetReset("orders", 0, -1, 5), OffsetReset("orders", 1, -1, 6))
    answer, outcome = reset(d, OffsetReset("orders", 0, 5, None), OffsetReset("orders", 2, -1, None))
    assert answer.error is E.NONE
    assert offsets(d, 0, 1, 2) == [-1, 6, -1]
    assert [(key.partition, value.replaced, value.deleted) for key, value in outcome.history] == [(0, 5, TAKEN_AWAY)]


def test_nothing_is_set_where_one_is_not_what_was_expected() -> None:
    d = Driven()
    reset(d, OffsetReset("orders", 0, -1, 5))
    late = OffsetReset("orders", 0, 4, 1)
    answer, outcome = reset(d, OffsetReset("orders", 1, -1, 9), late)
    assert answer == OffsetsReset(E.INVALID_UPDATE_VERSION, (late,))
    assert (offsets(d, 0, 1), outcome.records, list(outcome.history)) == ([5, -1], [], [])
    assert reset(d, OffsetReset("orders", 0, -1, 1))[0].error is E.INVALID_UPDATE_VERSION


def test_not_of_a_group_with_members() -> None:
    d = Driven()
    d.stable()
    assert reset(d, OffsetReset("orders", 0, -1, 5))[0] == OffsetsReset(E.NON_EMPTY_GROUP)
    assert offsets(d, 0) == [-1]


def test_not_more_than_one_batch_can_hold() -> None:
    d = Driven(CoordinatorSettings(commit_max_bytes=1_000))
    many = [OffsetReset("orders", number, -1, 1) for number in range(10)]
    assert reset(d, *many)[0] == OffsetsReset(E.INVALID_COMMIT_OFFSET_SIZE)
    assert offsets(d, 0, 9) == [-1, -1]
    assert reset(d, *many[:2])[0].error is E.NONE
