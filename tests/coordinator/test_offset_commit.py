"""OffsetCommit: its checks in their order, what is recorded, sessions; and OffsetFetch of what was committed."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from shim.coordinator import CoordinatorSettings

from .driving import CALLER, START, Driven

VERSIONS = range(1, 10)


class TestSimpleGroups:
    def test_a_commit_without_a_generation_makes_one(self) -> None:
        d = Driven()
        assert d.commit_error() == ErrorCode.NONE
        (listed,) = d.coordinator.list_groups()
        assert (listed.group_id, listed.protocol_type, listed.group_state) == ("g", "", "Empty")
        assert d.fetch("orders", 0).committed_offset == 5

    def test_whatever_the_member_id(self) -> None:
        d = Driven()
        assert d.commit_error("somebody", -1) == ErrorCode.NONE
        assert d.commit_error("another", -1, instance="i") == ErrorCode.NONE

    def test_an_empty_group_id_is_fine(self) -> None:
        d = Driven()
        assert d.commit_error(group="") == ErrorCode.NONE
        assert d.fetch("orders", 0, group="").committed_offset == 5

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_generation_of_a_group_that_does_not_exist(self, version: int) -> None:
        d = Driven()
        expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
        assert d.commit_error("m", 1, version=version) == expected
        assert len(d.coordinator.group_ids()) == 0
        assert not d.records

    def test_a_simple_group_can_become_a_real_one_and_keeps_its_offsets(self) -> None:
        d = Driven()
        d.commit()
        d.stable()
        assert d.fetch("orders", 0).committed_offset == 5


class TestChecks:
    def test_a_member_of_the_generation(self) -> None:
        d = Driven()
        (member_id,), generation = d.stable()
        assert d.commit_error(member_id, generation) == ErrorCode.NONE

    @pytest.mark.parametrize(
        ("member", "generation", "instance", "error"),
        [
            ("nobody", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
            ("nobody", 9, None, ErrorCode.UNKNOWN_MEMBER_ID),
            ("", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
            ("", -1, None, ErrorCode.UNKNOWN_MEMBER_ID),
            ("", -1, "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
            ("", -1, "i", ErrorCode.FENCED_INSTANCE_ID),
            ("nobody", 9, "i", ErrorCode.FENCED_INSTANCE_ID),
            ("i-1", -1, None, ErrorCode.ILLEGAL_GENERATION),
            ("i-1", 0, None, ErrorCode.ILLEGAL_GENERATION),
            ("i-1", 2, "i", ErrorCode.ILLEGAL_GENERATION),
            ("i-1", 1, "i", ErrorCode.NONE),
            ("i-1", 1, None, ErrorCode.NONE),
        ],
    )
    def test_against_a_stable_group(self, member: str, generation: int, instance: str | None, error: ErrorCode) -> None:
        d = Driven()
        d.ask_join(instance="i")
        d.advance(3_000)
        d.ask_sync("i-1", 1, {}, instance="i")
        recorded = len(d.records)
        assert d.commit_error(member, generation, instance=instance) == error
        assert len(d.records) - recorded == (error is ErrorCode.NONE)
        assert d.fetch("orders", 0).committed_offset == (5 if error is ErrorCode.NONE else -1)

    def test_against_an_empty_group_that_had_members(self) -> None:
        d = Driven()
        (member_id,), generation = d.stable()
        d.leave(member_id)
        assert d.commit_error(member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert d.commit_error(member_id, -1) == ErrorCode.NONE
        assert d.commit_error() == ErrorCode.NONE

    def test_while_the_rebalance_completes(self) -> None:
        d = Driven()
        member_id, _ = d.member()
        d.advance(3_000)
        assert d.commit_error(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        assert d.commit_error(member_id, 0) == ErrorCode.ILLEGAL_GENERATION
        assert d.commit_error() == ErrorCode.UNKNOWN_MEMBER_ID

    def test_while_a_rebalance_is_prepared(self) -> None:
        d = Driven()
        (member_id,), generation = d.stable()
        d.member()
        assert d.state() == "PreparingRebalance"
        assert d.commit_error(member_id, generation) == ErrorCode.NONE

    def test_an_error_is_given_for_every_partition(self) -> None:
        d = Driven()
        response = d.commit("m", 1, [("a", 0, 1), ("b", 3, 2)])
        assert [(t.name, p.partition_index, p.error_code) for t in response.topics for p in t.partitions] == [
            ("a", 0, ErrorCode.ILLEGAL_GENERATION),
            ("b", 3, ErrorCode.ILLEGAL_GENERATION),
        ]


def test_it_renews_the_session() -> None:
    d = Driven()
    (member_id,), generation = d.stable(session=10_000)
    d.advance(9_000)
    d.commit(member_id, generation)
    d.advance(9_999)
    assert d.heartbeat(member_id, generation) == ErrorCode.NONE


def test_a_refused_commit_does_not_renew_the_session() -> None:
    d = Driven()
    (member_id,), generation = d.stable(session=10_000)
    d.advance(9_000)
    d.commit(member_id, generation + 1)
    d.advance(1_000)
    assert d.heartbeat(member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID


class TestRecords:
    def test_all_of_a_request_are_in_one_outcome(self) -> None:
        d = Driven()
        d.commit(offsets=[("a", 0, 1), ("a", 1, 2), ("b", 0, 3)], metadata="m", leader_epoch=4)
        assert d.records == [
            (
                OffsetCommitKey("g", topic, partition),
                OffsetCommitValue(offset=offset, leader_epoch=4, metadata="m", commit_timestamp=START),
            )
            for topic, partition, offset in [("a", 0, 1), ("a", 1, 2), ("b", 0, 3)]
        ]

    def test_null_metadata_is_recorded_as_none(self) -> None:
        d = Driven()
        d.commit(metadata=None)
        assert d.fetch("orders", 0).metadata == ""

    def test_the_commit_timestamp_of_version_1(self) -> None:
        d = Driven()
        d.commit(version=1, commit_timestamp=123)
        d.commit(version=1, commit_timestamp=-1)
        values = [value for _, value in d.records]
        assert [v.commit_timestamp for v in values if isinstance(v, OffsetCommitValue)] == [123, START]

    @pytest.mark.parametrize(
        ("retention", "expire"), [(-1, -1), (60_000, START + 60_000), (0, START), (2**63 - 1, 2**63 - 1)]
    )
    def test_the_retention_time_of_versions_2_to_4(self, retention: int, expire: int) -> None:
        d = Driven()
        d.commit(version=4, retention_time_ms=retention)
        (_, value), *_ = d.records
        assert isinstance(value, OffsetCommitValue)
        assert value.expire_timestamp == expire

    def test_a_later_commit_wins_whatever_its_offset(self) -> None:
        d = Driven()
        d.commit(offsets=[("a", 0, 10)])
        d.commit(offsets=[("a", 0, 3)])
        assert d.fetch("a", 0).committed_offset == 3


class TestMetadataSize:
    """The limit is on UTF-16 units, for each partition by itself."""

    @pytest.mark.parametrize(
        ("metadata", "fits"),
        [
            ("x" * 4_096, True),
            ("x" * 4_097, False),
            ("é" * 4_096, True),
            ("é" * 4_097, False),
            ("\N{GRINNING FACE}" * 2_048, True),
            ("\N{GRINNING FACE}" * 2_048 + "x", False),
        ],
    )
    def test_limit(self, metadata: str, fits: bool) -> None:
        d = Driven()
        error = d.commit_error(metadata=metadata)
        assert error == (ErrorCode.NONE if fits else ErrorCode.OFFSET_METADATA_TOO_LARGE)
        assert d.fetch("orders", 0).metadata == (metadata if fits else "")

    def test_the_other_partitions_are_committed(self) -> None:
        d = Driven(CoordinatorSettings(offset_metadata_max_bytes=3))
        ticket = d.ticket()
        partitions = tuple(
            OffsetCommitRequestPartition(partition_index=p, committed_offset=7, committed_metadata=metadata)
            for p, metadata in enumerate(("abc", "abcd", "ab"))
        )
        request = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=partitions),))
        d.take(d.coordinator.offset_commit(d.now, CALLER, 8, request, ticket))
        (topic,) = d.answer(ticket, OffsetCommitResponse).topics
        assert [p.error_code for p in topic.partitions] == [
            ErrorCode.NONE,
            ErrorCode.OFFSET_METADATA_TOO_LARGE,
            ErrorCode.NONE,
        ]
        assert [d.fetch("t", p).committed_offset for p in range(3)] == [7, -1, 7]

    def test_a_commit_of_which_nothing_is_left_makes_no_group(self) -> None:
        d = Driven()
        d.commit(metadata="x" * 5_000)
        assert len(d.coordinator.group_ids()) == 0


class TestFetch:
    def test_unknown(self) -> None:
        d = Driven()
        d.commit()
        for found in (d.fetch("orders", 1), d.fetch("other", 0), d.fetch("orders", 0, group="h")):
            assert (found.committed_offset, found.committed_leader_epoch) == (-1, -1)
            assert (found.metadata, found.error_code) == ("", ErrorCode.NONE)

    def test_known(self) -> None:
        d = Driven()
        d.commit(metadata="\x00state\N{GRINNING FACE}", leader_epoch=9)
        found = d.fetch("orders", 0)
        assert (found.partition_index, found.committed_offset, found.committed_leader_epoch) == (0, 5, 9)
        assert (found.metadata, found.error_code) == ("\x00state\N{GRINNING FACE}", ErrorCode.NONE)

    def test_what_is_asked_for_is_answered_in_its_order(self) -> None:
        d = Driven()
        d.commit(offsets=[("a", 0, 1), ("b", 2, 3)])
        topic_id = bytes(range(16))
        response = d.coordinator.offset_fetch(
            OffsetFetchRequestGroup(
                group_id="g",
                topics=(
                    OffsetFetchRequestTopics(name="b", partition_indexes=(2, 0)),
                    OffsetFetchRequestTopics(name="a", topic_id=topic_id, partition_indexes=(0,)),
                    OffsetFetchRequestTopics(name="c", partition_indexes=()),
                ),
            )
        )
        assert response.group_id == "g"
        assert [(t.name, [(p.partition_index, p.committed_offset) for p in t.partitions]) for t in response.topics] == [
            ("b", [(2, 3), (0, -1)]),
            ("a", [(0, 1)]),
            ("c", []),
        ]
        assert response.topics[1].topic_id == topic_id

    def test_all_of_a_group(self) -> None:
        d = Driven()
        d.commit(offsets=[("a", 0, 1), ("b", 2, 3), ("a", 4, 5)])
        d.commit(offsets=[("z", 0, 1)], group="h")
        response = d.coordinator.offset_fetch(OffsetFetchRequestGroup(group_id="g", topics=None))
        assert [(t.name, [(p.partition_index, p.committed_offset) for p in t.partitions]) for t in response.topics] == [
            ("a", [(0, 1), (4, 5)]),
            ("b", [(2, 3)]),
        ]

    def test_all_of_a_group_that_does_not_exist(self) -> None:
        d = Driven()
        response = d.coordinator.offset_fetch(OffsetFetchRequestGroup(group_id="g", topics=None))
        assert (response.group_id, response.topics, response.error_code) == ("g", (), ErrorCode.NONE)


def test_records_that_would_be_too_large_are_refused_whole() -> None:
    """Each record repeats the group's name and the topic's: a request of 200 KB asks for records of 60 MB here."""
    d = Driven(CoordinatorSettings(commit_max_bytes=32 << 20))
    request = OffsetCommitRequest(
        group_id="g" * 30_000,
        topics=(
            OffsetCommitRequestTopic("t", partitions=tuple(OffsetCommitRequestPartition(n, n) for n in range(2_000))),
        ),
    )
    outcome = d.coordinator.offset_commit(d.now, CALLER, 8, request, d.ticket())
    ((_, response),) = outcome.answers
    assert isinstance(response, OffsetCommitResponse)
    assert {p.error_code for t in response.topics for p in t.partitions} == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert not outcome.records
    assert len(d.coordinator.group_ids()) == 0
