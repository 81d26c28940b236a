"""What is in a segment of the offsets log: once as Kafka's DumpLogSegments says, once as our own reader does."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from protocol.consumer import TopicPartition, decode_assignment, decode_subscription
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    Value,
    decode_key,
    decode_value,
)
from protocol.records.batches import BatchHeader, batches, records_of
from shim.demo.parts.jars import KAFKA
from shim.demo.parts.tools import DUMP_LOG_SEGMENTS, java_tool
from tests.legacy.parts import KAFKA_3

TOOLS: Final = {KAFKA: DUMP_LOG_SEGMENTS, KAFKA_3: "kafka.tools.DumpLogSegments"}
"""By release: where its DumpLogSegments is."""

_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*position: (\d+) CreateTime: (\d+) size: (\d+) "
    r"magic: 2 compresscodec: none crc: (\d+) isvalid: true"
)
_RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*?key: (\{.*\}) payload: (.*)")


class LoggedRecord(NamedTuple):
    """Key and value as DumpLogSegments shows them; the timestamp is in milliseconds; a tombstone has no value."""

    offset: int
    timestamp: int
    key: dict[str, Any]
    value: dict[str, Any] | None


class Dumped(NamedTuple):
    """What one segment holds, as the tool says, or as our own reader does; in one form, to be compared."""

    batches: list[tuple[int, ...]]
    records: list[LoggedRecord]


def told_by_kafka(dump: str) -> dict[str, Dumped]:
    """By segment."""
    told: dict[str, Dumped] = {}
    # At the end, of compacted segments as of Kafka's own: where offsets are not consecutive.
    batches_and_records, _, _ = dump.partition("\nNon-consecutive offsets in ")
    for line in batches_and_records.splitlines():
        if line.startswith("Dumping "):
            current = told[line.removeprefix("Dumping ")] = Dumped([], [])
        elif line.startswith("baseOffset:"):
            found = _BATCH.fullmatch(line)
            assert found, f"not a sound batch: {line}"
            current.batches.append(tuple(map(int, found.groups())))
        elif line.startswith("|"):
            found = _RECORD.fullmatch(line)
            assert found, f"key or value not decoded: {line}"
            offset, timestamp, key, value = found.groups()
            payload = None if value == "<DELETE>" else json.loads(value)
            current.records.append(LoggedRecord(int(offset), int(timestamp), json.loads(key), payload))
        else:
            assert re.fullmatch(r"Log starting offset: \d+|", line), f"the tool says more than it should: {line}"
    return told


def told_by_us(segment: Path) -> Dumped:
    log = segment.read_bytes()
    told = Dumped([], [])
    for position, header in batches(log):
        told.batches.append(_batch(position, header))
        for record in records_of(log, position, header):
            assert record.key is not None
            key = decode_key(record.key)
            value = decode_value(key, record.value)
            version = None if record.value is None else int.from_bytes(record.value[:2], "big")
            told.records.append(LoggedRecord(record.offset, record.timestamp, _key(key), _value(value, version)))
    return told


def _batch(position: int, header: BatchHeader) -> tuple[int, ...]:
    return (
        *(header.base_offset, header.last_offset, header.record_count, position),
        *(header.max_timestamp, header.size, header.crc),
    )


def _key(key: Key) -> dict[str, Any]:
    match key:
        case OffsetCommitKey(group, topic, partition):
            return {"type": "1", "data": {"group": group, "topic": topic, "partition": partition}}
        case GroupMetadataKey(group):
            return {"type": "2", "data": {"group": group}}
        case UnknownKey(version):
            raise AssertionError(f"a record of type {version}")


def _value(value: Value | None, version: int | None) -> dict[str, Any] | None:
    match value:
        case OffsetCommitValue():
            data: dict[str, Any] = {"offset": value.offset}
            if version == 3:
                data["leaderEpoch"] = value.leader_epoch
            data |= {"metadata": value.metadata, "commitTimestamp": value.commit_timestamp}
            if version == 1:
                data["expireTimestamp"] = value.expire_timestamp
        case GroupMetadataValue():
            data = {
                "protocolType": value.protocol_type,
                "generation": value.generation,
                "protocol": value.protocol,
                "leader": value.leader,
                "currentStateTimestamp": value.current_state_timestamp,
                "members": [
                    {
                        "memberId": member.member_id,
                        "groupInstanceId": member.group_instance_id,
                        "clientId": member.client_id,
                        "clientHost": member.client_host,
                        "rebalanceTimeout": member.rebalance_timeout,
                        "sessionTimeout": member.session_timeout,
                        "subscription": _subscription(member.subscription),
                        "assignment": _assignment(member.assignment),
                    }
                    for member in value.members
                ],
            }
        case None:
            return None
        case bytes():
            raise AssertionError("a value of an unknown kind")
    return {"version": str(version), "data": data}


def _subscription(raw: bytes) -> dict[str, Any]:
    """The tool shows the fields that the subscription's own version has."""
    version = int.from_bytes(raw[:2], "big")
    subscription = decode_subscription(raw)
    fields = [
        (0, "topics", list(subscription.topics)),
        (0, "userData", _user_data(subscription.user_data)),
        (1, "ownedPartitions", _topic_partitions(subscription.owned_partitions)),
        (2, "generationId", subscription.generation_id),
        (3, "rackId", subscription.rack_id),
    ]
    return {name: value for since, name, value in fields if version >= since}


def _assignment(raw: bytes) -> dict[str, Any]:
    assignment = decode_assignment(raw)
    return {
        "assignedPartitions": _topic_partitions(assignment.assigned_partitions),
        "userData": _user_data(assignment.user_data),
    }


def _topic_partitions(found: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": list(partitions)} for topic, partitions in found]


def _user_data(raw: bytes | None) -> str | None:
    return None if raw is None else b64encode(raw).decode()


def dumped(segments: Sequence[Path], release: str = KAFKA) -> dict[Path, Dumped]:
    """What DumpLogSegments of this release tells of these segments; asserts that our reader finds the same in each."""
    names = ",".join(map(str, segments))
    told = java_tool(TOOLS[release], "--offsets-decoder", "--deep-iteration", "--files", names, release=release)
    kafkas = told_by_kafka(told.stdout)
    assert list(kafkas) == [str(segment) for segment in segments]
    for segment, theirs in zip(segments, kafkas.values(), strict=True):
        ours = told_by_us(segment)
        assert theirs.batches == ours.batches
        for their_record, our_record in zip(theirs.records, ours.records, strict=True):
            assert their_record == our_record, f"DumpLogSegments: {their_record}\n our own reader: {our_record}"
    return dict(zip(segments, kafkas.values(), strict=True))


def read_by_kafka(segments: Sequence[Path], release: str = KAFKA) -> list[LoggedRecord]:
    """The records of these segments, checked as :func:`dumped` does."""
    return [record for each in dumped(segments, release).values() for record in each.records]
