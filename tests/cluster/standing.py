"""What stands in a topic, read batch by batch from its leaders: by which producer, too, which no consumer is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from protocol.messages import fetch
from protocol.records import batches
from protocol.records.batches import BatchHeader, Record
from shim.demo.parts import Cluster
from tests.cluster.asking import cluster_metadata
from tests.wire import WireClient

_FETCH: Final = 12
_BYTES: Final = 1 << 20
_READ_S: Final = 60.0


class Stood(NamedTuple):
    """One record. ``producer``: id and epoch, within which a broker takes each record of a partition once."""

    partition: int
    offset: int
    value: str
    producer: tuple[int, int]


def all_records(cluster: Cluster, topic: str) -> list[Stood]:
    """In the order of each partition, up to its high watermark."""
    found: list[Stood] = []
    for partition in sorted(_leaders(cluster, topic)):
        for header, records in batches_of(cluster, topic, partition):
            producer = (header.producer_id, header.producer_epoch)
            for record in records:
                assert record.value is not None
                found.append(Stood(partition, record.offset, record.value.decode(), producer))
    return found


def batches_of(cluster: Cluster, topic: str, partition: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Up to the high watermark of the partition."""
    host, port = _leaders(cluster, topic)[partition]
    with WireClient(port, host) as client:
        yield from _batches(client, topic, partition)


def _leaders(cluster: Cluster, topic: str) -> dict[int, tuple[str, int]]:
    """Host and port, by partition."""
    asked = cluster.brokers[0]
    told = cluster_metadata(asked.port, topic, asked.host)
    brokers = {broker.node_id: (broker.host, broker.port) for broker in told.brokers}
    return {partition.partition_index: brokers[partition.leader_id] for partition in told.topics[0].partitions}


def _batches(client: WireClient, topic: str, partition: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
    offset = end = 0
    deadline = time.monotonic() + _READ_S
    while offset < end or not end:
        assert time.monotonic() < deadline, f"read up to {offset} of {end}"
        wanted = fetch.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=_BYTES)
        topics = (fetch.FetchTopic(topic, partitions=(wanted,)),)
        request = fetch.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=_BYTES, topics=topics)
        ((answer,),) = (each.partitions for each in client.ask(fetch.API, _FETCH, request).responses)
        assert answer.error_code == 0, answer.error_code
        end = answer.high_watermark
        data, before = bytes(answer.records or b""), offset
        try:
            for position, header in batches.batches(data):
                yield header, list(batches.records_of(data, position, header))
                offset = header.next_offset
        except batches.TruncatedBatch:  # the last of many, where they are more than was asked for
            assert offset > before
        if not end:  # nothing was ever written there
            break
