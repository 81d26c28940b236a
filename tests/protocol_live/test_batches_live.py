"""Record batches of every codec between us and a real broker, Java's clients and librdkafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import cramjam
import pytest
from confluent_kafka import Consumer, Producer

from protocol.messages import fetch
from protocol.records import batches
from protocol.records.batches import (
    HEADER_SIZE,
    BatchHeader,
    Compression,
    ControlRecordType,
    Record,
    decode_records,
    encode_end_transaction,
    encode_records,
    end_transaction_marker,
)
from shim.demo.parts import Broker
from shim.demo.parts.jars import KAFKA
from tests.conftest import TopicFactory
from tests.java_tools import console_consumer, console_producer
from tests.protocol.test_batches import with_field
from tests.protocol_live.place import Place
from tests.wire import WireClient

PRODUCE, FETCH = 9, 12  # the first flexible Produce, the last Fetch that names topics
TIMEOUT_S = 30.0
CODECS = list(Compression)


def send(broker: Broker, topic: str, batch: bytes) -> int:
    """Produce one batch to partition 0; gives back its base offset."""
    with Place(broker.port, KAFKA) as place:
        return place.send(topic, PRODUCE, batch)


def fetch_raw(broker: Broker, topic: str, end: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
    """The batches of partition 0, awaited, up to offset `end`: the buffer, the position in it, and the header."""
    offset = 0
    deadline = time.monotonic() + TIMEOUT_S
    with WireClient(broker.port) as client:
        while offset < end:
            assert time.monotonic() < deadline
            partition = fetch.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
            topics = (fetch.FetchTopic(topic, partitions=(partition,)),)
            request = fetch.FetchRequest(max_wait_ms=5_000, min_bytes=1, max_bytes=1 << 20, topics=topics)
            (answer,) = client.ask(fetch.API, FETCH, request).responses
            (found,) = answer.partitions
            assert found.error_code == 0
            data = bytes(found.records or b"")
            for pos, header in batches.batches(data):
                offset = header.next_offset
                yield data, pos, header
    assert offset == end


def compressible(name: str, count: int = 50) -> list[str]:
    return [f"{name} number {n} " + "again and " * 20 for n in range(count)]


def confluent_records(broker: Broker, topic: str, count: int) -> list[Record]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Record] = []
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(found), 1.0):
                assert message.error() is None
                headers: Any = message.headers() or ()
                key, value, (_, timestamp) = message.key(), message.value(), message.timestamp()
                fields: Any = (key, value, tuple(headers), timestamp, message.offset())
                found.append(Record(*fields))
    finally:
        consumer.close()
    return found


def test_java_and_librdkafka_read_what_we_write(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic()
    now = time.time_ns() // 1_000_000
    written: list[bytes] = []
    expected: list[Record] = []
    for codec in CODECS:
        records = [
            Record(b"%s %d" % (codec.name.encode(), n), text.encode(), (("codec", b"%d" % codec),), now + n, n)
            for n, text in enumerate(compressible(codec.name))
        ]
        written.append(encode_records(records, compression=codec))
        base_offset = send(broker, topic, written[-1])
        assert base_offset == len(expected)
        expected += [record._replace(offset=base_offset + record.offset) for record in records]

    # The broker took each as it was: only base offset and leader epoch are its own.
    kept = list(fetch_raw(broker, topic, len(expected)))
    assert [header.compression for _, _, header in kept] == CODECS
    assert [data[pos + 16 : pos + header.size] for data, pos, header in kept] == [batch[16:] for batch in written]
    assert [record for data, pos, _ in kept for record in decode_records(data, pos)] == expected

    assert confluent_records(broker, topic, len(expected)) == expected

    shown = [f"print.{part}=true" for part in ("key", "offset", "timestamp", "headers")]
    lines = console_consumer(
        broker.bootstrap_servers,
        topic,
        max_messages=len(expected),
        args=[word for option in shown for word in ("--formatter-property", option)],
    )
    assert lines == [
        f"CreateTime:{r.timestamp}\tOffset:{r.offset}\t{r.headers[0][0]}:{(r.headers[0][1] or b'').decode()}"
        f"\t{(r.key or b'').decode()}\t{(r.value or b'').decode()}"
        for r in expected
    ]


def test_raw_snappy_is_what_others_read_too(broker: Broker, make_topic: TopicFactory) -> None:
    """librdkafka and Kafka's own client take one raw snappy block where they expect xerial's stream, as we do."""
    topic = make_topic()
    records = [Record(None, text.encode(), (), 1_000 + n, n) for n, text in enumerate(compressible("raw"))]
    plain = encode_records(records)
    body = bytes(cramjam.snappy.compress_raw(plain[HEADER_SIZE:]))
    sized = with_field(plain[:HEADER_SIZE] + body, 8, "i", HEADER_SIZE - 12 + len(body))
    batch = with_field(sized, 21, "h", Compression.SNAPPY)
    assert send(broker, topic, batch) == 0
    ((data, pos, _),) = fetch_raw(broker, topic, len(records))
    assert decode_records(data, pos) == records
    assert confluent_records(broker, topic, len(records)) == records
    assert console_consumer(broker.bootstrap_servers, topic, max_messages=50) == compressible("raw")


# A JVM each: in the short form those that Java frames in its own way.
@pytest.mark.parametrize(
    "codec",
    [
        codec if codec in (Compression.SNAPPY, Compression.LZ4) else pytest.param(codec, marks=pytest.mark.soak)
        for codec in CODECS
    ],
    ids=lambda codec: codec.name.lower(),
)
def test_we_read_what_java_writes(broker: Broker, make_topic: TopicFactory, codec: Compression) -> None:
    topic = make_topic()
    lines = compressible("java", 500)
    # The option, as the tool's default for it goes before the property.
    args = ["--compression-codec", codec.name.lower()]
    console_producer(broker.bootstrap_servers, topic, lines, properties={"linger.ms": 200}, args=args)
    found = list(fetch_raw(broker, topic, 500))
    assert {header.compression for _, _, header in found} == {codec}
    records = [record for data, pos, _ in found for record in decode_records(data, pos)]
    assert [(r.offset, r.key, r.value) for r in records] == [(n, None, text.encode()) for n, text in enumerate(lines)]
    # Java's producer is idempotent by default.
    assert all(header.producer_id >= 0 and header.base_sequence == header.base_offset for _, _, header in found)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_we_read_what_librdkafka_writes(broker: Broker, make_topic: TopicFactory, codec: Compression) -> None:
    topic = make_topic()
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec.name.lower(), "linger.ms": 200}
    )
    values = compressible("librdkafka", 500)
    for n, value in enumerate(values):
        producer.produce(topic, value, b"%d" % n, timestamp=1_000 + n, headers=[("n", b"%d" % n), ("null", None)])
    assert producer.flush(TIMEOUT_S) == 0
    found = list(fetch_raw(broker, topic, 500))
    assert {header.compression for _, _, header in found} == {codec}
    assert [record for data, pos, _ in found for record in decode_records(data, pos)] == [
        Record(b"%d" % n, value.encode(), (("n", b"%d" % n), ("null", None)), 1_000 + n, n)
        for n, value in enumerate(values)
    ]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_log_append_time(broker: Broker, make_topic: TopicFactory, codec: Compression) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    before = time.time_ns() // 1_000_000
    assert send(broker, topic, encode_records([Record(b"k", b"v", (), 5, n) for n in range(3)], compression=codec)) == 0
    ((data, pos, header),) = fetch_raw(broker, topic, 3)
    assert (header.is_log_append_time, header.compression) == (True, codec)
    (stamp,) = {record.timestamp for record in decode_records(data, pos)}
    assert before <= stamp <= time.time_ns() // 1_000_000


def test_the_ends_of_transactions(broker: Broker, make_topic: TopicFactory, fresh_name: Callable[[], str]) -> None:
    topic = make_topic()
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": fresh_name(), "compression.type": "zstd"}
    )
    producer.init_transactions(TIMEOUT_S)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for text in compressible("transactional", 3):
            producer.produce(topic, text)
        assert producer.flush(TIMEOUT_S) == 0
        end(TIMEOUT_S)
    found = list(fetch_raw(broker, topic, 8))
    assert [(h.is_transactional, h.is_control, h.compression) for _, _, h in found] == [
        (True, False, Compression.ZSTD),
        (True, True, Compression.NONE),
    ] * 2
    types = []
    for data, pos, header in found:
        if header.is_control:
            (record,) = decode_records(data, pos)
            marker = end_transaction_marker(record)
            types.append(marker.type)
            # And byte for byte what we would have written.
            assert data[pos : pos + header.size] == encode_end_transaction(
                header.base_offset,
                marker,
                record.timestamp,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                leader_epoch=header.partition_leader_epoch,
            )
    assert types == [ControlRecordType.COMMIT, ControlRecordType.ABORT]
