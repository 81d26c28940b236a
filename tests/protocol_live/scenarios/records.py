"""Records and their places: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, ShareFetch, ShareAcknowledge."""

import itertools
import time
from typing import NamedTuple

from protocol.errors import ErrorCode
from protocol.messages import fetch, list_offsets, offset_for_leader_epoch, produce, share_acknowledge, share_fetch
from protocol.records.batches import Record
from tests.protocol_live.place import Place, as_read, as_written, scenario, some_records
from tests.protocol_live.scenarios.groups import new_sharer

NO_PARTITION = 7  # of topics that have one partition

EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -2, -1, -3, -4


@scenario(produce.API)
def produces(place: Place, version: int) -> None:
    topic = place.new_topic()
    records = some_records(version)
    data = as_written(records, version)
    assert place.send(topic, version, data) == 0
    assert place.send(topic, version, data) == len(records)
    if version < 13:
        partitions = (produce.PartitionProduceData(NO_PARTITION, data),)
        request = produce.ProduceRequest(
            acks=1, timeout_ms=10_000, topic_data=(produce.TopicProduceData(topic, partition_data=partitions),)
        )
        ((_, _, (refused,), _),) = place.ask(produce.API, version, request).responses
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@scenario(fetch.API)
def fetches(place: Place, version: int) -> None:
    topic, records = place.filled_topic()
    topic_id = place.topic_id(topic) if version >= 13 else None

    def topics(*numbers: int) -> tuple[fetch.FetchTopic, ...]:
        partitions = tuple(fetch.FetchPartition(n, partition_max_bytes=1 << 20) for n in numbers)
        if topic_id:
            return (fetch.FetchTopic(topic_id=topic_id, partitions=partitions),)
        return (fetch.FetchTopic(topic, partitions=partitions),)

    plain = fetch.FetchRequest(max_wait_ms=5_000, min_bytes=1, topics=topics(0, NO_PARTITION))
    answer = place.ask(fetch.API, version, plain)
    ((_, _, partitions, _),) = answer.responses
    by_index = {partition.partition_index: partition for partition in partitions}
    assert by_index[NO_PARTITION].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (by_index[0].error_code, by_index[0].high_watermark) == (0, len(records))
    # A response older than the format of the log has it converted, to one without timestamps for the oldest.
    timestamps = version >= 2
    expected = records if timestamps else [record._replace(timestamp=-1) for record in records]
    assert as_read(by_index[0].records) == expected
    if version >= 4:
        assert by_index[0].last_stable_offset == len(records)
    if version >= 5:
        assert by_index[0].log_start_offset == 0
    if version >= 7:  # KIP-227: a session, and a request that changes it
        opened = place.ask(fetch.API, version, plain._replace(session_epoch=0, topics=topics(0)))
        assert opened.error_code == 0
        assert opened.session_id > 0
        forgotten = (
            fetch.ForgottenTopic(topic_id=topic_id, partitions=(0,))
            if topic_id
            else fetch.ForgottenTopic(topic, partitions=(0,))
        )
        changed = fetch.FetchRequest(
            session_id=opened.session_id, session_epoch=1, forgotten_topics_data=(forgotten,), rack_id=""
        )
        assert place.ask(fetch.API, version, changed).error_code == 0
        unknown = place.ask(fetch.API, version, plain._replace(session_id=opened.session_id + 1, session_epoch=1))
        assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@scenario(list_offsets.API)
def lists_offsets(place: Place, version: int) -> None:
    topic, records = place.filled_topic()

    def asked(timestamp: int, max_num_offsets: int = 1, index: int = 0) -> list_offsets.ListOffsetsPartitionResponse:
        partition = list_offsets.ListOffsetsPartition(index, timestamp=timestamp, max_num_offsets=max_num_offsets)
        request = list_offsets.ListOffsetsRequest(
            -1, topics=(list_offsets.ListOffsetsTopic(topic, (partition,)),), timeout_ms=10_000
        )
        ((name, (answer,), _),) = place.ask(list_offsets.API, version, request).topics
        assert (name, answer.partition_index) == (topic, index)
        return answer

    assert asked(LATEST, index=NO_PARTITION).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version == 0:
        assert asked(LATEST, 5).old_style_offsets == (3, 0)
        assert asked(EARLIEST, 5).old_style_offsets == (0,)
        return
    expected = {LATEST: (-1, 3), EARLIEST: (-1, 0), records[1].timestamp: (records[1].timestamp, 1)}
    if version >= 7:
        expected[MAX_TIMESTAMP] = (records[2].timestamp, 2)
    if version >= 8:
        expected[EARLIEST_LOCAL] = (-1, 0)
    for timestamp, found in expected.items():
        answer = asked(timestamp)
        assert (answer.error_code, answer.timestamp, answer.offset) == (0, *found)
        if version >= 4:
            assert answer.leader_epoch == 0


@scenario(offset_for_leader_epoch.API)
def finds_the_end_of_an_epoch(place: Place, version: int) -> None:
    topic, records = place.filled_topic()
    partitions = tuple(offset_for_leader_epoch.OffsetForLeaderPartition(n) for n in (0, NO_PARTITION))
    request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        -1, (offset_for_leader_epoch.OffsetForLeaderTopic(topic, partitions),)
    )
    ((name, ends, _),) = place.ask(offset_for_leader_epoch.API, version, request).topics
    assert name == topic
    by_index = {end.partition: end for end in ends}
    assert by_index[NO_PARTITION].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (by_index[0].error_code, by_index[0].end_offset) == (0, len(records))
    assert by_index[0].leader_epoch == (0 if version >= 1 else -1)


class Share(NamedTuple):
    """A share session that has acquired the records written last."""

    group: str
    member: str
    next_epoch: int
    topic: str
    topic_id: bytes
    found: share_fetch.PartitionData
    records: list[Record]


def _share(place: Place, fetch_version: int) -> Share:
    group, member, topic = new_sharer(place)
    topic_id = place.topic_id(topic)
    topics = (share_fetch.FetchTopic(topic_id, (share_fetch.FetchPartition(0, ()),)),)
    opening = share_fetch.ShareFetchRequest(
        group, member, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, max_records=10, batch_size=10, topics=topics
    )
    # The group begins at what is the end of the log when it is first asked for; what is written before goes by.
    deadline = time.monotonic() + 30.0
    for epoch in itertools.count():
        assert time.monotonic() < deadline
        records = some_records(9)
        base_offset = place.send(topic, 9, as_written(records, 9)) if epoch else 0
        request = opening._replace(share_session_epoch=epoch, topics=() if epoch else topics)
        answer = place.ask(share_fetch.API, fetch_version, request)
        assert (answer.error_code, answer.error_message) == (0, None)
        for found_id, (found,), _ in answer.responses:
            assert (found_id, found.partition_index, found.error_code) == (topic_id, 0, 0)
            if found.acquired_records:
                expected = [record._replace(offset=base_offset + record.offset) for record in records]
                return Share(group, member, epoch + 1, topic, topic_id, found, expected)
    raise AssertionError("unreachable")


@scenario(share_fetch.API)
def share_fetches(place: Place, version: int) -> None:
    share = _share(place, version)
    assert as_read(share.found.records) == share.records
    first, last = share.records[0].offset, share.records[-1].offset
    assert [acquired[:3] for acquired in share.found.acquired_records] == [(first, last, 1)]

    def answered(
        request: share_fetch.ShareFetchRequest, acknowledge_type: int, offset: int = first
    ) -> share_fetch.PartitionData:
        """Acknowledge three records from `offset` on, by default those acquired, and fetch on."""
        batch = share_fetch.AcknowledgementBatch(offset, offset + last - first, (acknowledge_type,))
        topic = share_fetch.FetchTopic(share.topic_id, (share_fetch.FetchPartition(0, (batch,)),))
        answer = place.ask(share_fetch.API, version, request._replace(topics=(topic,)))
        assert (answer.error_code, answer.error_message) == (0, None)
        assert answer.acquisition_lock_timeout_ms > 0
        ((found_id, (found,), _),) = answer.responses
        assert (found_id, found.partition_index, found.error_code) == (share.topic_id, 0, 0)
        return found

    request = share_fetch.ShareFetchRequest(share.group, share.member, share.next_epoch, max_bytes=0)
    if version >= 2:  # KIP-1222: nothing can be fetched along with it
        renewed = answered(request._replace(is_renew_ack=True), 4)
        assert (renewed.acknowledge_error_code, renewed.acquired_records) == (0, ())
        request = request._replace(share_session_epoch=request.share_session_epoch + 1)
    assert place.send(share.topic, 9, as_written(some_records(9), 9)) == last + 1
    request = request._replace(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, max_records=2, batch_size=2)
    if version >= 2:  # KIP-1206: a batch can be cut to what was asked for
        request = request._replace(share_acquire_mode=1)
    found = answered(request, 1)
    assert found.acknowledge_error_code == 0
    until = last + (2 if version >= 2 else 3)
    assert [acquired[:3] for acquired in found.acquired_records] == [(last + 1, until, 1)]
    never = answered(request._replace(share_session_epoch=request.share_session_epoch + 1), 1, last + 100)
    assert never.acknowledge_error_code == ErrorCode.INVALID_REQUEST
    assert never.acknowledge_error_message


@scenario(share_acknowledge.API)
def share_acknowledges(place: Place, version: int) -> None:
    share = _share(place, 1)
    first, last = share.records[0].offset, share.records[-1].offset

    def acknowledged(epoch: int, *types: int) -> int:
        batches = (share_acknowledge.AcknowledgementBatch(first, last, types),)
        partitions = (share_acknowledge.AcknowledgePartition(0, batches),)
        request = share_acknowledge.ShareAcknowledgeRequest(
            share.group,
            share.member,
            epoch,
            is_renew_ack=4 in types,
            topics=(share_acknowledge.AcknowledgeTopic(share.topic_id, partitions),),
        )
        answer = place.ask(share_acknowledge.API, version, request)
        assert (answer.error_code, answer.error_message) == (0, None)
        assert (answer.acquisition_lock_timeout_ms > 0) == (version >= 2)
        ((found_id, (found,), _),) = answer.responses
        assert (found_id, found.partition_index) == (share.topic_id, 0)
        return found.error_code

    epoch = share.next_epoch
    if version >= 2:  # KIP-1222
        assert acknowledged(epoch, 4) == 0
        epoch += 1
    assert acknowledged(epoch, 1, 2, 3) == 0
    assert acknowledged(epoch + 1, 1, 2, 3) == ErrorCode.INVALID_RECORD_STATE
