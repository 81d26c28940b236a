"""Message sets between us and librdkafka, at brokers of the age that had nothing else.

What a broker keeps it has often written itself, so both directions are tried twice: with what the broker makes of it,
and with the very bytes of the one who wrote.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    Producer,
    TopicPartition,
)
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE as NO_TIME

from protocol.messages import fetch
from protocol.records.batches import Record
from protocol.records.compression import Compression
from protocol.records.message_sets import decode_message_set, encode_message_set, read_messages
from tests.legacy.parts import KAFKA_0_8, KAFKA_0_10, LegacyBroker
from tests.protocol_live.place import Place
from tests.protocol_live.relay import Relay
from tests.protocol_live.test_old_clients_live import CODECS, fetched

COUNT: Final = 300
TIME: Final = 1_700_000_000_000
TIMEOUT_S: Final = 30.0

Legacy = Callable[[str], LegacyBroker]
Seen = tuple[bytes | None, bytes | None, tuple[int, int], int]
"""What librdkafka says of a record: key, value, type of the timestamp and timestamp, offset."""


class Age(NamedTuple):
    """What librdkafka is told of the broker (nothing: it asks), and what it then uses and the broker has."""

    release: str
    told: str | None
    produce: int
    magic: int
    fetches: tuple[int, ...]


AGES: Final = {
    "0.8.2.2": Age(KAFKA_0_8, "0.8.2.2", 0, 0, (0,)),
    "0.10.2.2, told 0.8.2.2": Age(KAFKA_0_10, "0.8.2.2", 0, 0, (0, 1, 2)),
    "0.10.2.2, told 0.9.0.1": Age(KAFKA_0_10, "0.9.0.1", 1, 0, (0, 1, 2)),
    "0.10.2.2, told 0.10.2.2": Age(KAFKA_0_10, "0.10.2.2", 2, 1, (0, 1, 2, 3)),
    "0.10.2.2": Age(KAFKA_0_10, None, 2, 1, (0, 1, 2, 3)),
}

every_age = pytest.mark.parametrize("name", AGES)
every_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())


def settings(age: Age, address: str) -> dict[str, Any]:
    told = {} if age.told is None else {"api.version.request": False, "broker.version.fallback": age.told}
    return {"bootstrap.servers": address, "broker.address.family": "v4", **told}


def some_records(magic: int, first: int = 0) -> list[Record]:
    """Null and empty ones among them; offsets from `first` on."""
    keys = itertools.cycle([b"key", None, b"", b"another key"])
    values = itertools.cycle([b"again and " * 5, b"", None, b"once"])
    return [
        Record(key, value, (), TIME + n * n if magic else -1, first + n)
        for n, key, value in zip(range(COUNT), keys, itertools.islice(values, 1, None), strict=False)
    ]


def write(age: Age, address: str, topic: str, records: list[Record], codec: Compression) -> None:
    """Have librdkafka produce the records; where it sends no timestamps it does not matter what it is given."""
    options = {"compression.type": codec.name.lower(), "linger.ms": 200}
    producer = Producer({**settings(age, address), **options})
    for n, record in enumerate(records):
        producer.produce(topic, record.value, record.key, timestamp=record.timestamp if age.magic else TIME + n)
    assert producer.flush(TIMEOUT_S) == 0


def consume(age: Age, address: str, topic: str, count: int) -> list[Seen]:
    """What librdkafka reads from the beginning of partition 0, CRCs checked."""
    options = {"group.id": topic, "enable.auto.commit": False, "check.crcs": True, "fetch.wait.max.ms": 50}
    consumer = Consumer({**settings(age, address), **options})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Seen] = []
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(found), 1.0):
                assert message.error() is None
                fields: Any = message.key(), message.value(), message.timestamp(), message.offset()
                found.append(fields)
    finally:
        consumer.close()
    return found


def seen(records: list[Record], kind: int = TIMESTAMP_CREATE_TIME) -> list[Seen]:
    """How librdkafka says it: it has no -1."""
    return [(r.key, r.value, (NO_TIME, 0) if r.timestamp == -1 else (kind, r.timestamp), r.offset) for r in records]


def contents(records: list[Record]) -> list[tuple[bytes | None, bytes | None, int]]:
    """Without offsets, which mean nothing in a Produce request."""
    return [(record.key, record.value, record.timestamp) for record in records]


@every_codec
@every_age
def test_we_read_what_librdkafka_writes(legacy: Legacy, name: str, codec: Compression) -> None:
    age = AGES[name]
    broker = legacy(age.release)
    records = some_records(age.magic)
    with Place(broker.port, age.release) as place, Relay(broker.port) as relay:
        topic = place.new_topic()
        write(age, relay.address, topic, records, codec)

        sent = relay.produced()
        assert {version for version, _ in sent} == {age.produce}
        messages = [message for _, data in sent for message in read_messages(data).messages]
        assert {message.magic for message in messages} == {age.magic}
        assert {message.compression for message in messages} == {codec}
        assert len(messages) == (len(sent) if codec else COUNT)
        assert contents([r for _, data in sent for r in decode_message_set(data).records]) == contents(records)

        for version in age.fetches:
            found = fetched(place, topic, version)
            # Fetch before version 2 has what is kept in the newer format converted.
            assert {message.magic for message in found.messages} == {0 if version < 2 else 1}
            assert {message.compression for message in found.messages} == {codec}
            assert found.records == (records if version >= 2 else [r._replace(timestamp=-1) for r in records])


@every_age
def test_librdkafka_reads_what_we_write(legacy: Legacy, name: str) -> None:
    age = AGES[name]
    broker = legacy(age.release)
    written: list[Record] = []
    with Place(broker.port, age.release) as place:
        topic = place.new_topic()
        for codec in CODECS:
            data = encode_message_set(some_records(age.magic), age.magic, compression=codec)
            assert place.send(topic, age.produce, data) == len(written)
            written += some_records(age.magic, first=len(written))
    assert consume(age, broker.bootstrap_servers, topic, len(written)) == seen(written)


@every_codec
@pytest.mark.parametrize(
    ("name", "append_time"),
    [*((name, None) for name in AGES), *((name, TIME - 5) for name, age in AGES.items() if age.magic)],
)
def test_librdkafka_reads_our_very_bytes(
    legacy: Legacy, name: str, codec: Compression, append_time: int | None
) -> None:
    age = AGES[name]
    broker = legacy(age.release)
    records = some_records(age.magic)
    given: list[bytes] = []

    def as_we_write(response: fetch.FetchResponse) -> fetch.FetchResponse:
        (of_topic,) = response.responses
        (answer,) = of_topic.partitions
        if answer.records:
            kept = decode_message_set(answer.records).records
            data = encode_message_set(kept, age.magic, compression=codec, log_append_time=append_time)
            given.append(data)
            answer = answer._replace(records=data)
        return response._replace(responses=(of_topic._replace(partitions=(answer,)),))

    with Place(broker.port, age.release) as place:
        topic = place.new_topic()
        place.send(topic, age.produce, encode_message_set(records, age.magic))
    with Relay(broker.port, (fetch.API, as_we_write)) as relay:
        found = consume(age, relay.address, topic, COUNT)
    if append_time is None:
        assert found == seen(records)
    else:
        assert found == seen([r._replace(timestamp=append_time) for r in records], TIMESTAMP_LOG_APPEND_TIME)
    messages = [message for data in given for message in read_messages(data).messages]
    assert {(message.magic, message.compression) for message in messages} == {(age.magic, codec)}
    assert len(messages) == (len(given) if codec else COUNT)


@every_age
def test_librdkafka_does_not_compress_with_zstd_there(legacy: Legacy, name: str) -> None:
    """There is no zstd in message sets: what is asked for with it goes without, and the other way round we refuse."""
    age = AGES[name]
    broker = legacy(age.release)
    with Place(broker.port, age.release) as place, Relay(broker.port) as relay:
        topic = place.new_topic()
        write(age, relay.address, topic, some_records(age.magic), Compression.ZSTD)
        assert {m.compression for _, data in relay.produced() for m in read_messages(data).messages} == {0}
    with pytest.raises(ValueError, match="ZSTD"):
        encode_message_set(some_records(age.magic), age.magic, compression=Compression.ZSTD)
