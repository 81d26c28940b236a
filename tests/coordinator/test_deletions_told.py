"""What the history is told of offsets that are there no more: which one it was, by whom and why."""

from __future__ import annotations

from typing import Final

from protocol.own.history_log import DELETED, NO_OFFSET, TAKEN_AWAY, OffsetHistoryKey, OffsetHistoryValue
from shim.coordinator import CoordinatorSettings
from shim.coordinator.outcome import NOBODY, Caller, OffsetReset
from shim.coordinator.upkeep.topic_deletion import TopicDeletion

from .driving import CALLER, Driven
from .test_offsets_retention import pending

WEEK: Final = 7 * 24 * 3_600_000
ZOOKEEPER: Final = Caller("zookeeper", "")

Told = tuple[str, int, int, Caller, str, int]
"""Topic, partition, the offset that was there, by whom, why, and how."""


def told(d: Driven, first: int) -> list[Told]:
    """Of deletions. What else a history says of an offset, none of these has."""
    found = []
    for key, value in d.history[first:]:
        by = Caller(value.client_id, value.client_host, value.principal)
        assert key == OffsetHistoryKey("g", key.topic, key.partition, d.now)
        assert value == OffsetHistoryValue(
            *(NO_OFFSET, -1, "", d.now, -1, "", None, *by),
            cause=value.cause,
            replaced=value.replaced,
            deleted=value.deleted,
        )
        found.append((key.topic, key.partition, value.replaced, by, value.cause, value.deleted))
    return found


def committed() -> tuple[Driven, int]:
    d = Driven()
    d.commit(offsets=[("orders", 0, 5), ("orders", 1, 6), ("bills", 0, 7)])
    return d, len(d.history)


def test_offsets_that_a_client_deletes() -> None:
    d, first = committed()
    assert d.delete_offset_errors(("orders", [1, 9]), ("bills", [0])) == [[0, 0], [0]]
    why = (CALLER, "the offset was deleted", DELETED)
    assert told(d, first) == [("orders", 1, 6, *why), ("bills", 0, 7, *why)]


def test_a_group_that_a_client_deletes() -> None:
    d, first = committed()
    assert d.delete_group() == 0
    why = (CALLER, "the group was deleted", DELETED)
    assert told(d, first) == [("orders", 0, 5, *why), ("orders", 1, 6, *why), ("bills", 0, 7, *why)]


def test_what_is_only_pending_was_never_committed() -> None:
    d, first = committed()
    pending(d, "orders")
    pending(d, "payments")
    assert d.delete_offset_errors(("orders", [0]), ("payments", [0])) == [[0], [0]]
    assert [each[:3] for each in told(d, first)] == [("orders", 0, 5)]


def test_what_has_expired() -> None:
    d, first = committed()
    d.now += WEEK
    assert d.check_retention().offsets == 3
    assert [(*each[:3], each[3], each[5]) for each in told(d, first)] == [
        ("orders", 0, 5, NOBODY, DELETED),
        ("orders", 1, 6, NOBODY, DELETED),
        ("bills", 0, 7, NOBODY, DELETED),
    ]
    assert {each[4] for each in told(d, first)} == {"it had expired (offsets.retention.minutes)"}


def test_a_topic_that_is_deleted() -> None:
    d, first = committed()
    ticket = d.ticket()
    d.take(TopicDeletion(d.coordinator._state, "orders").step(d.now, ticket))
    why = (NOBODY, "its topic was deleted", DELETED)
    assert told(d, first) == [("orders", 0, 5, *why), ("orders", 1, 6, *why)]


def test_a_reset_that_takes_one_away() -> None:
    d, first = committed()
    changes = [OffsetReset("orders", 0, 5, None), OffsetReset("orders", 3, -1, None)]
    d.take(d.coordinator.reset_offsets(d.now, CALLER, "g", changes, "groups reset --undo", d.ticket()))
    assert told(d, first) == [("orders", 0, 5, CALLER, "groups reset --undo", TAKEN_AWAY)]


def test_one_that_is_gone_from_zookeeper() -> None:
    d, first = committed()
    d.take(d.coordinator.carry(d.now, "g", {("orders", 1): -1}, d.ticket()))
    assert told(d, first) == [("orders", 1, 6, ZOOKEEPER, "it was deleted in ZooKeeper", DELETED)]


def test_nothing_where_no_history_is_kept() -> None:
    d = Driven(settings=CoordinatorSettings(offsets_history_retention_minutes=0))
    d.commit(offsets=[("orders", 0, 5)])
    assert d.delete_group() == 0
    assert d.history == []
