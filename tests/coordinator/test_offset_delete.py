"""OffsetDelete: seen on a 4.3.1 broker, state by state."""

from itertools import pairwise

import pytest

from protocol.errors import ErrorCode as E
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.offsets_log import OffsetCommitKey
from shim.coordinator import CoordinatorSettings

from .driving import CALLER, SUBSCRIPTION, Driven, subscription
from .durable import assert_same, reloaded

SUBSCRIBED = E.GROUP_SUBSCRIBED_TO_TOPIC


def test_offsets_of_an_empty_group_go_and_the_group_stays() -> None:
    d = Driven()
    d.commit(offsets=[("orders", 0, 5), ("orders", 1, 6), ("payments", 0, 7)])
    written = len(d.records)
    assert d.delete_offset_errors(("orders", [1, 9, 1]), ("payments", [0]), ("orders", [1])) == [[0, 0, 0], [0], [0]]
    assert d.records[written:] == [
        (OffsetCommitKey("g", "orders", 1), None),
        (OffsetCommitKey("g", "payments", 0), None),
    ]
    assert d.offsets() == {("orders", 0): 5}
    assert d.fetch("orders", 1).committed_offset == -1
    assert d.delete_offset_errors(("orders", [0])) == [[0]]
    assert d.delete_offset_errors(("orders", [0])) == [[0]]
    assert d.delete_offset_errors() == []
    assert d.state() == "Empty"
    assert [group.group_id for group in d.coordinator.list_groups()] == ["g"]
    assert_same(d.coordinator, reloaded(d.records))


def test_more_than_one_batch() -> None:
    d = Driven(CoordinatorSettings(commit_max_bytes=1_000))
    for partition in range(100):
        d.commit(offsets=[("orders", partition, 5)])
    request = OffsetDeleteRequest(
        "g", (OffsetDeleteRequestTopic("orders", tuple(OffsetDeleteRequestPartition(n) for n in range(99))),)
    )
    outcome = d.coordinator.offset_delete(d.now, CALLER, 0, request, d.ticket())
    assert len(outcome.records) == 99
    assert len(outcome.cuts) > 3
    assert max(end - first for first, end in pairwise([0, *outcome.cuts, 99])) < 30
    assert d.offsets() == {("orders", 99): 5}


def test_no_group() -> None:
    d = Driven()
    assert d.delete_offset_errors(("orders", [0])) == E.GROUP_ID_NOT_FOUND
    assert d.delete_offset_errors() == E.GROUP_ID_NOT_FOUND
    d.commit(group="")
    assert d.delete_offset_errors(("orders", [0]), group="") == E.INVALID_GROUP_ID
    assert d.offsets("") == {("orders", 0): 5}


def test_consumers_keep_what_they_are_subscribed_to() -> None:
    d = Driven()
    (member_id,), generation = d.stable()
    d.commit(member_id, generation, [("orders", 0, 5), ("payments", 0, 6)])
    assert d.delete_offset_errors(("orders", [0, 1]), ("payments", [0])) == [[SUBSCRIBED] * 2, [0]]
    assert d.offsets() == {("orders", 0): 5}
    assert d.heartbeat(member_id, generation) == E.NONE
    assert_same(d.coordinator, reloaded(d.records))
    d.restart()
    assert d.delete_offset_errors(("orders", [0]), ("payments", [0])) == [[SUBSCRIBED], [0]]
    d.leave(member_id)
    assert d.delete_offset_errors(("orders", [0])) == [[0]]


def test_while_they_rebalance_it_goes_by_the_last_generation() -> None:
    d = Driven()
    (first,), _ = d.stable()
    both = [("range", subscription("orders", "payments"))]
    second, _ = d.member(protocols=both)
    assert d.state() == "PreparingRebalance"
    assert d.delete_offset_errors(("orders", [0]), ("payments", [0])) == [[SUBSCRIBED], [0]]
    d.ask_join(first, protocols=[("range", subscription("refunds"))])
    assert d.state() == "CompletingRebalance"
    asked = ("orders", [0]), ("payments", [0]), ("refunds", [0]), ("others", [0])
    assert d.delete_offset_errors(*asked) == [[SUBSCRIBED], [SUBSCRIBED], [SUBSCRIBED], [0]]
    assert second in {member.member_id for member in d.coordinator.describe_group("g", 5).members}


def test_the_first_rebalance_may_be_for_any_topic_and_that_of_an_empty_group_for_none() -> None:
    d = Driven()
    member_id, _ = d.member()
    assert d.state() == "PreparingRebalance"
    assert d.delete_offset_errors(("others", [0])) == [[SUBSCRIBED]]
    d.leave(member_id)
    d.advance(3_000)
    assert d.state() == "Empty"
    assert d.delete_offset_errors(("others", [0])) == [[0]]
    d.member()
    assert d.state() == "PreparingRebalance"
    assert d.delete_offset_errors(("orders", [0])) == [[0]]


@pytest.mark.parametrize("metadata", [b"", b"\0\0", b"\xff\xff\0\0\0\0", SUBSCRIPTION[:-4]])
def test_a_subscription_that_cannot_be_understood_may_be_for_any_topic(metadata: bytes) -> None:
    d = Driven()
    d.stable(protocols=[("range", metadata)])
    assert d.delete_offset_errors(("orders", [0]), ("others", [0])) == [[SUBSCRIBED], [SUBSCRIBED]]


def test_a_negative_version_is_not_looked_at() -> None:
    d = Driven()
    d.stable(protocols=[("range", b"\xff\xff" + SUBSCRIPTION[2:])])
    assert d.delete_offset_errors(("orders", [0]), ("others", [0])) == [[SUBSCRIBED], [0]]


def test_members_of_another_type_keep_everything() -> None:
    d = Driven()
    (member_id,), generation = d.stable(protocol_type="connect", protocols=[("default", b"x")])
    d.commit(member_id, generation)
    assert d.delete_offset_errors(("orders", [0])) == d.delete_offset_errors() == E.NON_EMPTY_GROUP
    assert d.offsets() == {("orders", 0): 5}
    d.leave(member_id)
    assert d.delete_offset_errors(("orders", [0])) == [[0]]
