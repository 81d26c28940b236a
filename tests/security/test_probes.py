"""Questions about rights, and what their answers say: only what is known to come behind the authorizer grants."""

from __future__ import annotations

from typing import Any, Final

import pytest

from protocol.errors import ErrorCode
from protocol.messages import (
    describe_acls,
    describe_groups,
    fetch,
    heartbeat,
    list_offsets,
    offset_commit,
    offset_delete,
    txn_offset_commit,
)
from shim.security.probes import NAMES_AT_ONCE, REFUSALS, Probe, probes_for, read
from shim.security.rights import Need, Right


def _fetched(names: list[str], error: int) -> fetch.FetchResponse:
    partition = fetch.PartitionData(-1, error, -1)
    return fetch.FetchResponse(
        responses=tuple(fetch.FetchableTopicResponse(name, partitions=(partition,)) for name in names)
    )


def _listed(names: list[str], error: int) -> list_offsets.ListOffsetsResponse:
    partition = list_offsets.ListOffsetsPartitionResponse(-1, error)
    return list_offsets.ListOffsetsResponse(
        topics=tuple(list_offsets.ListOffsetsTopicResponse(name, (partition,)) for name in names)
    )


def _described(names: list[str], error: int) -> describe_groups.DescribeGroupsResponse:
    return describe_groups.DescribeGroupsResponse(
        groups=tuple(describe_groups.DescribedGroup(error_code=error, group_id=name) for name in names)
    )


def _committed(names: list[str], error: int) -> txn_offset_commit.TxnOffsetCommitResponse:
    partition = txn_offset_commit.TxnOffsetCommitResponsePartition(-1, error)
    return txn_offset_commit.TxnOffsetCommitResponse(
        throttle_time_ms=0, topics=(txn_offset_commit.TxnOffsetCommitResponseTopic("?", (partition,)),)
    )


# Of each right the response that names these with this error.
RESPONSES: Final[dict[Right, Any]] = {
    Right.READ_GROUP: lambda names, error: heartbeat.HeartbeatResponse(error_code=error),
    Right.DESCRIBE_GROUP: _described,
    Right.DELETE_GROUP: lambda names, error: offset_delete.OffsetDeleteResponse(error, 0, ()),
    Right.READ_TOPIC: _fetched,
    Right.DESCRIBE_TOPIC: _listed,
    Right.WRITE_TRANSACTIONAL_ID: _committed,
    Right.DESCRIBE_CLUSTER: lambda names, error: describe_acls.DescribeAclsResponse(0, error, None, ()),
}
GROUP_SAYS: Final = {0, 14, 15, 16, 22, 24, 25, 27, 68, 69}
TOPIC_SAYS: Final = {0, 3, 5, 6, 17}
# What a broker answers to who has the right, whatever state it is in: by the numbers of the protocol.
GRANTING: Final[dict[Right, set[int]]] = {
    Right.READ_GROUP: GROUP_SAYS,
    Right.DESCRIBE_GROUP: GROUP_SAYS,
    Right.DELETE_GROUP: GROUP_SAYS,
    Right.READ_TOPIC: TOPIC_SAYS,
    Right.DESCRIBE_TOPIC: TOPIC_SAYS,
    Right.WRITE_TRANSACTIONAL_ID: {3, 29, 30},
    Right.DESCRIBE_CLUSTER: {0, 54},
}


def probe_for(need: Need) -> Probe:
    (probe,) = probes_for([need])
    return probe


@pytest.mark.parametrize("right", Right, ids=lambda right: right.name)
def test_every_error_grants_refuses_or_is_unclear(right: Right) -> None:
    need = Need(right, "name")
    probe = probe_for(need)
    for error in [*(int(code) for code in ErrorCode), 9999]:
        answers = read(probe, RESPONSES[right](["name"], error))
        assert answers.granted == {need: error in GRANTING[right]}, error
        clear = error in GRANTING[right] or error == REFUSALS[right]
        assert answers.unclear == ({} if clear else {need: error}), error


def test_beside_a_group_every_error_grants_refuses_says_that_the_group_is_refused_or_is_unclear() -> None:
    need = Need(Right.READ_TOPIC, "t")
    (probe,) = probes_for([need], "g")
    for error in [*(int(code) for code in ErrorCode), 9999]:
        partition = offset_commit.OffsetCommitResponsePartition(-1, error)
        topic = offset_commit.OffsetCommitResponseTopic("t", partitions=(partition,))
        answers = read(probe, offset_commit.OffsetCommitResponse(topics=(topic,)))
        assert answers.granted == {need: error in TOPIC_SAYS}, error
        assert answers.moot == ([need] if error == ErrorCode.GROUP_AUTHORIZATION_FAILED else [])
        clear = error in TOPIC_SAYS or error in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 30)
        assert answers.unclear == ({} if clear else {need: error}), error


def test_who_is_not_named_by_an_answer_to_one_over_a_quota_is_neither_granted_nor_refused() -> None:
    needs = [Need(Right.READ_TOPIC, name) for name in ("a", "b")]
    (probe,) = probes_for(needs)
    answers = read(probe, _fetched(["b"], 3)._replace(throttle_time_ms=1))
    assert answers.granted == {needs[1]: True}
    assert (answers.throttled, answers.unclear) == ([needs[0]], {})


@pytest.mark.parametrize("right", [Right.DESCRIBE_GROUP, Right.READ_TOPIC, Right.DESCRIBE_TOPIC])
def test_who_is_not_named_in_the_answer_has_no_right(right: Right) -> None:
    needs = [Need(right, name) for name in ("a", "b")]
    (probe,) = probes_for(needs)
    answers = read(probe, RESPONSES[right](["b", "c"], 0))
    assert answers.granted == {needs[0]: False, needs[1]: True}
    assert answers.unclear == {needs[0]: None}


def test_one_that_is_named_twice_has_the_right_only_if_both_say_so() -> None:
    need = Need(Right.DESCRIBE_GROUP, "a")
    both = describe_groups.DescribeGroupsResponse(
        groups=(*_described(["a"], 0).groups, *_described(["a"], ErrorCode.GROUP_AUTHORIZATION_FAILED).groups)
    )
    assert read(probe_for(need), both).granted == {need: False}


def test_many_names_are_asked_for_together_where_they_can_be_and_each_of_them_once() -> None:
    names = [str(number) for number in range(NAMES_AT_ONCE + 1)]
    for right, most in ((Right.READ_TOPIC, 2), (Right.DESCRIBE_GROUP, 2), (Right.DELETE_GROUP, len(names))):
        probes = list(probes_for([Need(right, name) for name in (*names, *names)]))
        assert len(probes) == most
        assert sorted(need.name for probe in probes for need in probe.needs) == sorted(names)


def test_what_is_asked_can_be_sent_and_has_no_effect() -> None:
    """No member, no partition, no producer, no topic that there could be."""
    for right in Right:
        probe = probe_for(Need(right, "ä" * 16_383))
        assert probe.api.request_frame(probe.version, 1, None, probe.request)
    assert probe_for(Need(Right.READ_GROUP, "g")).request == heartbeat.HeartbeatRequest("g", -1, "")
    assert probe_for(Need(Right.DELETE_GROUP, "g")).request == offset_delete.OffsetDeleteRequest("g", ())
    (topic,) = probe_for(Need(Right.READ_TOPIC, "t")).request.topics
    assert [p.partition for p in topic.partitions] == [-1]
    (probe,) = probes_for([Need(Right.READ_TOPIC, "t")], "g")
    assert (probe.request.group_id, probe.request.generation_id_or_member_epoch, probe.request.member_id) == (
        *("g", 0, "?"),
    )
    assert [[p.partition_index for p in topic.partitions] for topic in probe.request.topics] == [[-1]]
    (probe,) = probes_for([Need(Right.READ_TOPIC, "t")], "ä" * 16_384)
    assert probe.api is fetch.API, "a group of that name is refused anyway"
    (topic,) = probe_for(Need(Right.DESCRIBE_TOPIC, "t")).request.topics
    assert [p.partition_index for p in topic.partitions] == [-1]
    commit = probe_for(Need(Right.WRITE_TRANSACTIONAL_ID, "x")).request
    assert (commit.transactional_id, commit.producer_id) == ("x", -1)
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in commit.topics] == [("?", [-1])]


def test_a_name_that_is_too_long_is_not_asked_for() -> None:
    assert list(probes_for([Need(Right.READ_GROUP, "ä" * 16_384)])) == []
