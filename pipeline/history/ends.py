"""Where partitions end, and where they ended at earlier times, as far as brokers can tell.

A broker says which is the first record with a timestamp at or after a time: where that one is, the partition ended just
before that time, if its records came in the order of their timestamps. Where it is the first record that is still
there, the partition may have ended anywhere before: that is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka.errors import KafkaError
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import TopicPartition

from pipeline.errors import NotDone
from pipeline.kafka_admin import admin_of
from protocol.topic_partition import Partition


class EndAt(NamedTuple):
    """The end offset of a partition at a time, in milliseconds since the epoch."""

    topic: str
    partition: int
    time: int
    end_offset: int


def newest_ends(
    bootstrap_servers: str, settings: Mapping[str, Any], partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """Now; without partitions that the cluster does not know. Raises NotDone."""
    with _Asking(bootstrap_servers, settings) as asking:
        return asking.offsets(asking.known(partitions), OffsetSpec.LATEST)


def ends_at(
    bootstrap_servers: str, settings: Mapping[str, Any], partitions: Iterable[Partition], times: Sequence[int]
) -> list[EndAt]:
    """Of the end of each of these milliseconds, where it is known. Raises NotDone."""
    found: list[EndAt] = []
    with _Asking(bootstrap_servers, settings) as asking:
        known = asking.known(partitions)
        earliest = asking.offsets(known, OffsetSpec.EARLIEST)
        newest = asking.offsets(known, OffsetSpec.LATEST)
        for time in times:
            after = asking.offsets(known, time + 1)
            for at in known:
                end = after.get(at, -1)
                if end < 0:
                    end = newest[at]  # no record is as new as that
                elif end <= earliest[at] > 0:
                    continue
                found.append(EndAt(*at, time, end))
    return found


class _Asking:
    def __init__(self, bootstrap_servers: str, settings: Mapping[str, Any]) -> None:
        self._servers = bootstrap_servers
        self._settings = settings

    def __enter__(self) -> _Asking:
        try:
            self._admin = admin_of(self._servers, self._settings)
        except KafkaError as error:
            raise self._refused(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def known(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Those that there are now, sorted."""
        wanted = sorted(set(partitions))
        try:
            there = set(self._admin.list_topics())
            topics = sorted({topic for topic, _ in wanted} & there)
            described = self._admin.describe_topics(topics) if topics else []
        except KafkaError as error:
            raise self._refused(error) from error
        found = {(each["name"], its["partition_index"]) for each in described for its in each["partitions"]}
        return [at for at in wanted if at in found]

    def offsets(self, partitions: Sequence[Partition], spec: int) -> dict[Partition, int]:
        if not partitions:
            return {}
        try:
            answer = self._admin.list_partition_offsets({TopicPartition(*at): spec for at in partitions})
        except KafkaError as error:
            raise self._refused(error) from error
        return {(at.topic, at.partition): -1 if its is None else int(its.offset) for at, its in answer.items()}

    def _refused(self, error: KafkaError) -> NotDone:
        return NotDone(f"looking up end offsets at {self._servers}: {error}")
