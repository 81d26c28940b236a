"""Real offsets in a real broker, of every kind that its release has; and what it serves of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages import (
    add_offsets_to_txn,
    delete_groups,
    end_txn,
    offset_commit,
    offset_delete,
    offset_fetch,
    txn_offset_commit,
)
from tests.protocol_live.place import Place, Transaction

METADATA: Final = ("", 'quoted "ö" \U0001f600 {}', "x" * 4000)
_MANY_GROUPS_SINCE: Final = 8

Served = dict[tuple[str, str, int], tuple[int, int, str]]


def commit(place: Place, group: str, topic: str, offset: int, *, text: str = "", retention_ms: int = -1) -> None:
    """For partition 0, as nobody's member; a retention time goes in an old version."""
    version = 2 if retention_ms >= 0 else place.newest(offset_commit.API, 9)
    partition = offset_commit.OffsetCommitRequestPartition(
        0, offset, 3 if version >= 6 else -1, committed_metadata=text
    )
    request = offset_commit.OffsetCommitRequest(
        group,
        retention_time_ms=retention_ms,
        topics=(offset_commit.OffsetCommitRequestTopic(topic, partitions=(partition,)),),
    )
    place.ask_until(offset_commit.API, version, request, lambda answer: answer.topics[0].partitions[0].error_code)


def commit_in_transaction(place: Place, group: str, topic: str, offset: int) -> Transaction:
    """The transaction is left open."""
    made = place.new_transaction()
    request = add_offsets_to_txn.AddOffsetsToTxnRequest(*made, group)
    place.ask_until(add_offsets_to_txn.API, 3, request, lambda answer: answer.error_code)
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(0, offset, 5, "in a transaction")
    commits = txn_offset_commit.TxnOffsetCommitRequest(
        *(made.transactional_id, group, made.producer_id, made.producer_epoch),
        topics=(txn_offset_commit.TxnOffsetCommitRequestTopic(topic, (partition,)),),
    )
    place.ask_until(txn_offset_commit.API, 3, commits, lambda answer: answer.topics[0].partitions[0].error_code)
    return made


def end(place: Place, made: Transaction, *, committed: bool) -> None:
    request = end_txn.EndTxnRequest(*made, committed)
    place.ask_until(end_txn.API, 3, request, lambda answer: answer.error_code)


def delete_offset(place: Place, group: str, topic: str) -> None:
    partition = offset_delete.OffsetDeleteRequestPartition(0)
    topics = (offset_delete.OffsetDeleteRequestTopic(topic, (partition,)),)
    answer = place.ask(offset_delete.API, 0, offset_delete.OffsetDeleteRequest(group, topics))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def delete_group(place: Place, group: str) -> None:
    answer = place.ask(delete_groups.API, 1, delete_groups.DeleteGroupsRequest((group,)))
    assert answer.results[0].error_code == ErrorCode.NONE


def simple_groups(place: Place, topics: Sequence[str], count: int) -> list[str]:
    """Groups with an offset for each topic, overwritten twice."""
    groups = [place.new_group() for _ in range(count)]
    for round_ in range(3):
        for number, group in enumerate(groups):
            for at, topic in enumerate(topics):
                text = METADATA[(number + at + round_) % len(METADATA)]
                commit(place, group, topic, 1000 * round_ + 10 * number + at, text=text)
    return groups


def fetch(place: Place, groups: Iterable[str]) -> Served:
    """All that the broker serves of these groups."""
    version = place.newest(offset_fetch.API, 9)
    served: Served = {}
    for group in groups:
        # A coordinator that has just started is still loading.
        if version >= _MANY_GROUPS_SINCE:
            wanted = offset_fetch.OffsetFetchRequestGroup(group, topics=None)
            request = offset_fetch.OffsetFetchRequest(groups=(wanted,))
            answer = place.ask_until(offset_fetch.API, version, request, lambda found: found.groups[0].error_code)
            topics: Sequence[Any] = answer.groups[0].topics
        else:
            request = offset_fetch.OffsetFetchRequest(group, topics=None)
            topics = place.ask_until(offset_fetch.API, version, request, lambda found: found.error_code).topics
        for topic in topics:
            for index, offset, leader_epoch, text, error, _ in topic.partitions:
                assert error == ErrorCode.NONE
                served[group, topic.name, index] = (offset, leader_epoch, text or "")
    return served
