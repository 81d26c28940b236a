"""Kafka's own DumpLogSegments reads the shim's log: every batch, every key and value, to the last field."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from protocol.errors import ErrorCode
from protocol.messages import offset_commit
from shim.demo.parts import Broker
from shim.demo.parts.jars import KAFKA
from shim.log import LogSettings, OffsetsLog, PartitionWrite
from tests.admin.running import TIMESTAMP, commit_record, log
from tests.conftest import TopicFactory
from tests.legacy.parts import KAFKA_3
from tests.log_format.dump import Dumped, LoggedRecord, dumped
from tests.shim_process import Shim
from tests.wire import WireClient

PARTITIONS = 3
TIME_LIMIT_SECONDS = 60.0
SIMPLE_GROUPS = 12
RETENTION_MS = 3_600_000
SETTINGS: Mapping[str, str | int] = {
    "offsets.topic.num.partitions": 5,
    "offsets.topic.segment.bytes": 2_000,
    "log.cleaner.enable": "false",
}


def consume_as_two(shim: Shim, topic: str, group: str, instance: str) -> None:
    """A group of two real members, one of them static: a rebalance when the second joins, commits, a member leaves."""

    def member(**settings: str) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": shim.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 200,
                **settings,
            }
        )
        consumer.subscribe([topic])
        return consumer

    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    members = [member()]
    _poll_until(lambda: len(members[0].assignment()) == PARTITIONS, members, deadline)
    members.append(member(**{"group.instance.id": instance}))
    _poll_until(lambda: all(0 < len(each.assignment()) < PARTITIONS for each in members), members, deadline)
    for consumer in members:
        consumer.commit(offsets=[TopicPartition(topic, p.partition, p.partition) for p in consumer.assignment()])
        consumer.close()


def _poll_until(condition: Callable[[], bool], members: Sequence[Consumer], deadline: float) -> None:
    while not condition():
        assert time.monotonic() < deadline, "the members never shared the partitions"
        for member in members:
            member.poll(0.05)


def commit_by_wire(shim: Shim, topic: str, group: str) -> None:
    """Simple groups, every version of OffsetCommit, with and without a retention time, and metadata of many kinds."""
    with WireClient(shim.port) as client:
        for number in range(SIMPLE_GROUPS):
            for version in range(2, 10):
                request = offset_commit.OffsetCommitRequest(
                    group_id=f"{group}-{number}",
                    retention_time_ms=RETENTION_MS if version in (2, 4) else -1,
                    topics=(
                        offset_commit.OffsetCommitRequestTopic(
                            topic,
                            partitions=tuple(
                                offset_commit.OffsetCommitRequestPartition(
                                    partition,
                                    number * 1_000 + version,
                                    committed_leader_epoch=version - 1,
                                    committed_metadata=("", None, 'quoted "ö" \U0001f600 {}')[partition],
                                )
                                for partition in range(PARTITIONS)
                            ),
                        ),
                    ),
                )
                response = client.ask(offset_commit.API, version, request)
                assert {p.error_code for t in response.topics for p in t.partitions} == {ErrorCode.NONE}


def segments_in(data_dir: Path) -> list[Path]:
    return sorted(data_dir.glob("__consumer_offsets-*/*.log"))


def test_every_batch_key_and_value_is_read(
    broker: Broker, make_topic: TopicFactory, group: str, tmp_path: Path
) -> None:
    topic = make_topic(PARTITIONS)
    data_dir = tmp_path / "data"
    with Shim(broker.bootstrap_servers, data_dir, settings=SETTINGS) as shim:
        consume_as_two(shim, topic, group, "the-static-one")
        commit_by_wire(shim, topic, group)
        assert shim.stop() == 0
    close_every_segment(data_dir)
    not_compacted = tmp_path / "not-compacted"
    shutil.copytree(data_dir, not_compacted)
    assert log("compact", "--data-dir", data_dir).status == 0

    segments = [*segments_in(not_compacted), *segments_in(data_dir)]
    told = dumped(segments, KAFKA)  # all at once: a tool takes a second to start
    assert dumped(segments, KAFKA_3) == told
    before = {data_dir / path.relative_to(not_compacted): told[path] for path in segments_in(not_compacted)}
    after = {path: told[path] for path in segments_in(data_dir)}
    everything_is_there([record for each in before.values() for record in each.records], group)
    for folder in sorted(data_dir.glob("__consumer_offsets-*")):
        only_the_newest_is_left(folder, before, after)


def close_every_segment(data_dir: Path) -> None:
    """By one more commit in each partition, which begins a new one."""
    offsets_log = OffsetsLog.open(data_dir, 5, settings=LogSettings(segment_bytes=1))
    try:
        for partition in range(5):
            assert all(offsets_log.recover(partition))
            record = commit_record("another", "t", partition, 1)
            assert offsets_log.write([PartitionWrite(partition, [[record]], TIMESTAMP)]) == {}
    finally:
        offsets_log.close()


def everything_is_there(records: list[LoggedRecord], group: str) -> None:
    offsets = [value for _, _, key, value in records if key["type"] == "1" and value]
    assert {value["version"] for value in offsets} == {"1", "3"}, "with and without an expire timestamp"
    by_wire = [value for _, _, key, value in records if key["type"] == "1" and f"{group}-" in key["data"]["group"]]
    assert len(by_wire) == SIMPLE_GROUPS * 8 * PARTITIONS
    groups = [value["data"] for _, _, key, value in records if key == {"type": "2", "data": {"group": group}} and value]
    assert {len(value["members"]) for value in groups} >= {0, 1, 2}
    assert max(value["generation"] for value in groups) >= 2
    members = [member for value in groups for member in value["members"]]
    assert {member["groupInstanceId"] for member in members} == {None, "the-static-one"}
    assert all(member["subscription"] and member["assignment"] for member in members)
    assert {key["type"] for _, _, key, _ in records} == {"1", "2"}


def only_the_newest_is_left(folder: Path, before: dict[Path, Dumped], after: dict[Path, Dumped]) -> None:
    """In the one segment that the closed ones have become; the active one is as it was."""
    *closed, active = [path for path in before if path.parent == folder]
    assert [path for path in after if path.parent == folder] == [*closed[:1], active]
    assert after[active] == before[active]
    newest = {json.dumps(record.key): record for path in closed for record in before[path].records}
    left = [record for path in closed[:1] for record in after[path].records]
    assert left == sorted(newest.values(), key=lambda record: record.offset)
