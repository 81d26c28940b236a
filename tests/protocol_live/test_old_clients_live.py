"""Message sets of both formats and every codec, between us and the brokers and clients that used them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pytest

from protocol.messages import fetch
from protocol.records.batches import Record
from protocol.records.compression import Compression
from protocol.records.message_sets import Message, decode_message_set, encode_message_set, read_messages
from shim.demo.parts.tools import java_tool
from tests.legacy.parts import KAFKA_0_8, KAFKA_0_10, LegacyBroker
from tests.protocol_live.place import Place
from tests.protocol_live.relay import Relay

CODECS: Final = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
COUNT: Final = 50

Legacy = Callable[[str], LegacyBroker]


class Fetched(NamedTuple):
    messages: list[Message]
    records: list[Record]


def fetched(place: Place, topic: str, version: int) -> Fetched:
    """All of partition 0, in Fetch's `version`; what ends in the middle of a message is asked for again."""
    messages: list[Message] = []
    records: list[Record] = []
    while True:
        partition = fetch.FetchPartition(0, fetch_offset=len(records), partition_max_bytes=20_000)
        topics = (fetch.FetchTopic(topic, partitions=(partition,)),)
        ((_, _, (answer,), _),) = place.ask(fetch.API, version, fetch.FetchRequest(topics=topics)).responses
        assert answer.error_code == 0
        data = answer.records or b""
        # A wrapper may begin before the offset that was asked for.
        found = [record for record in decode_message_set(data).records if record.offset >= len(records)]
        assert [record.offset for record in found] == list(range(len(records), len(records) + len(found)))
        messages += read_messages(data).messages
        records += found
        if len(records) == answer.high_watermark:
            return Fetched(messages, records)
        assert found


def lines_of(name: str, count: int = COUNT) -> list[str]:
    return [f"{name} number {n} " + "again and " * 5 for n in range(count)]


def consume(broker: LegacyBroker, topic: str, count: int, *, by_zookeeper: bool) -> list[str]:
    """What the console consumer of the broker's own release prints: keys and values, tabs between."""
    where = (
        ["--zookeeper", broker.zookeeper.connect_string]
        if by_zookeeper
        else ["--new-consumer", "--bootstrap-server", broker.bootstrap_servers]
    )
    options = ["--topic", topic, "--from-beginning", "--max-messages", str(count), "--property", "print.key=true"]
    result = java_tool("kafka.tools.ConsoleConsumer", *where, *options, release=broker.release)
    return [line for line in result.stdout.splitlines() if "\t" in line]


# Produce carries magic 0 up to version 1, magic 1 in version 2.
@pytest.mark.parametrize(
    ("release", "versions", "by_zookeeper"),
    [(KAFKA_0_8, (0,), True), (KAFKA_0_10, (0, 1, 2), True), (KAFKA_0_10, (0, 1, 2), False)],
    ids=["0.8.2.2", "0.10.2.2, by ZooKeeper", "0.10.2.2, new consumer"],
)
def test_old_consumers_read_what_we_write(
    legacy: Legacy, release: str, versions: tuple[int, ...], by_zookeeper: bool
) -> None:
    broker = legacy(release)
    expected: list[str] = []
    written: list[Record] = []
    with Place(broker.port, release) as place:
        topic = place.new_topic()
        for version in versions:
            magic = 1 if version == 2 else 0
            for codec in CODECS:
                lines = lines_of(f"v{magic} {codec.name.lower()} by {version}")
                records = [
                    Record(b"key %d" % n, line.encode(), (), 1_700_000_000_000 + n if magic else -1, n)
                    for n, line in enumerate(lines)
                ]
                base_offset = place.send(topic, version, encode_message_set(records, magic, compression=codec))
                assert base_offset == len(written)
                written += [record._replace(offset=base_offset + record.offset) for record in records]
                expected += [f"key {n}\t{line}" for n, line in enumerate(lines)]
        assert fetched(place, topic, 2 if 2 in versions else 0).records == written
    assert consume(broker, topic, len(expected), by_zookeeper=by_zookeeper) == expected


class Writer(NamedTuple):
    """`magic`: what it writes itself."""

    release: str
    magic: int
    options: tuple[str, ...]


WRITERS: Final = {
    "0.8.2.2, Scala": Writer(KAFKA_0_8, 0, ()),
    "0.8.2.2, Java": Writer(KAFKA_0_8, 0, ("--new-producer",)),
    "0.10.2.2, Scala": Writer(KAFKA_0_10, 1, ("--old-producer",)),
    "0.10.2.2, Java": Writer(KAFKA_0_10, 1, ()),
}


def _each_format_with_each_codec() -> Iterator[object]:
    """In the short form each writer has one codec, and each codec one writer; all have librdkafka
    (test_old_librdkafka_live.py), which takes no JVM for each."""
    for writer, name in enumerate(WRITERS):
        for number, codec in enumerate(CODECS):
            marks = [] if writer == number else [pytest.mark.soak]
            yield pytest.param(name, codec, marks=marks, id=f"{name}-{codec.name.lower()}")


@pytest.mark.parametrize(("name", "codec"), [*_each_format_with_each_codec()])
def test_we_read_what_old_producers_write(legacy: Legacy, name: str, codec: Compression) -> None:
    writer = WRITERS[name]
    broker = legacy(writer.release)
    lines = lines_of(name, 500)
    with Place(broker.port, writer.release) as place, Relay(broker.port) as relay:
        topic = place.new_topic()
        options = ["--broker-list", relay.address, "--topic", topic, *writer.options]
        # By default 0.8's tool ends before it is known that anything arrived.
        options += ["--request-required-acks", "-1", "--compression-codec", codec.name.lower()]
        text = "".join(f"{line}\n" for line in lines)
        java_tool("kafka.tools.ConsoleProducer", *options, input=text, release=writer.release)

        # What the broker keeps is partly its own work.
        sent = [data for _, data in relay.produced()]
        messages = [message for data in sent for message in read_messages(data).messages]
        assert {(message.magic, message.compression) for message in messages} == {(writer.magic, codec)}
        records = [record for data in sent for record in decode_message_set(data).records]
        assert [(record.key, record.value) for record in records] == [(None, line.encode()) for line in lines]

        for version in (0,) if writer.release == KAFKA_0_8 else (0, 1, 2, 3):
            found = fetched(place, topic, version)
            assert [(r.offset, r.key, r.value) for r in found.records] == [
                (n, None, line.encode()) for n, line in enumerate(lines)
            ]
            # Fetch before version 2 has what is kept in the newer format converted.
            assert {message.magic for message in found.messages} == {0 if version < 2 else 1}
            assert {message.compression for message in found.messages} == {codec}
            if codec:
                assert len(found.messages) < len(lines)
            has_timestamps = version >= 2
            assert {record.timestamp > 1_500_000_000_000 for record in found.records} == {has_timestamps}
