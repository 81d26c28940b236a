"""What a 3.9 broker gives an old client of what newer ones have written: through the shim it is the same records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Producer

from protocol.errors import ErrorCode
from protocol.messages import fetch, produce
from protocol.records.batches import MAGIC_POSITION, Compression, Record, encode_records
from protocol.records.fetched import decode_fetched
from protocol.records.message_sets import decode_message_set
from shim.demo.parts import Broker
from tests.legacy.parts import KAFKA_3, LegacyBroker
from tests.old_clients.places import end_offset, make_topics
from tests.shim_process import Shim
from tests.waiting import wait_until
from tests.wire import TIMEOUT_SECONDS, WireClient

NOW: Final = 1_795_000_000_000
MIXED, TRANSACTIONAL, COMPACTED, ZSTD, APPEND_TIME, EMPTY = TOPICS = (
    "mixed", "transactional", "compacted", "zstd", "append-time", "empty",
)  # fmt: skip
CONFIG: Final = {
    COMPACTED: {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
        "segment.ms": "100",
    },
    APPEND_TIME: {"message.timestamp.type": "LogAppendTime"},
}
CLEANS_SOON: Final = {"log.cleaner.backoff.ms": 100}
LARGE: Final = 10_000_000


class Place(NamedTuple):
    """``direct_port``: where newer clients write; ``port``: where old ones read."""

    direct_port: int
    port: int


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with LegacyBroker(tmp_path_factory.mktemp("reference"), KAFKA_3, properties=CLEANS_SOON) as running:
        place = Place(running.port, running.port)
        fill(place)
        yield place


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("shim")
    with (
        Broker(folder / "broker", properties=CLEANS_SOON) as broker,
        Shim(broker.bootstrap_servers, folder / "data") as running,
    ):
        place = Place(broker.port, running.broker_port(broker.node_id))
        fill(place)
        yield place


def records(first: int, count: int, headers: tuple[tuple[str, bytes | None], ...] = ()) -> list[Record]:
    return [
        Record(
            b"k%d" % number if number % 3 else None,
            b"v%d" % number * 9 if number % 4 else None,
            headers,
            NOW + number,
            number - first,
        )
        for number in range(first, first + count)
    ]


def fill(place: Place) -> None:
    make_topics(place.direct_port, TOPICS, CONFIG)
    with WireClient(place.direct_port) as client:

        def write(topic: str, version: int, data: bytes) -> None:
            partition = produce.PartitionProduceData(0, data)
            topic_data = (produce.TopicProduceData(topic, partition_data=(partition,)),)
            (answer,) = client.ask(produce.API, version, produce.ProduceRequest(None, -1, 10_000, topic_data)).responses
            assert answer.partition_responses[0].error_code == ErrorCode.NONE

        headers = (("h", b"1"), ("i", None))
        number = 0
        for codec in (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4):
            for each in (1, 7):
                for topic in (MIXED, APPEND_TIME):
                    write(topic, 3, encode_records(records(number, each, headers), compression=codec))
                number += each
        for number, codec in enumerate([Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]):
            write(COMPACTED, 3, encode_records(keyed(number), compression=codec))
        wait_until_compacted(client, write)
        write(ZSTD, 7, encode_records(records(0, 5), compression=Compression.ZSTD))
    transactions(place)


def keyed(number: int) -> list[Record]:
    """The first and the third one stay for good, the second one until the next of these."""
    keys = (b"stays-%d" % number, b"again", b"stays-too-%d" % number)
    return [Record(key, b"value-%d" % number, (), NOW + number, offset) for offset, key in enumerate(keys)]


def wait_until_compacted(client: WireClient, write: Callable[[str, int, bytes], None]) -> None:
    """Something more is written each time, by its time much later: that begins a new segment, and only those that have
    ended are compacted."""
    times = count(NOW + 10_000, 1_000)

    def is_compacted() -> bool:
        write(COMPACTED, 3, encode_records([Record(b"last", b"", (), next(times), 0)]))
        partition = fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=LARGE)
        request = fetch.FetchRequest(max_bytes=LARGE, topics=(fetch.FetchTopic(COMPACTED, partitions=(partition,)),))
        (answer,) = client.ask(fetch.API, 4, request).responses
        kept = [record.key for _, records in decode_fetched(answer.partitions[0].records or b"") for record in records]
        return kept.count(b"again") == 1

    wait_until(is_compacted)


def transactions(place: Place) -> None:
    """Committed and aborted ones, and one record after another, so that each has its offset."""
    producer = Producer(
        {"bootstrap.servers": f"127.0.0.1:{place.direct_port}", "transactional.id": "t", "linger.ms": 0}
    )
    producer.init_transactions(TIMEOUT_SECONDS)
    for number, commit in enumerate([True, False, True, False]):
        producer.begin_transaction()
        for each in range(3):
            producer.produce(TRANSACTIONAL, b"%d-%d" % (number, each), b"k", timestamp=NOW + number)
        producer.flush(TIMEOUT_SECONDS)
        (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_SECONDS)


class Fetched(NamedTuple):
    error: ErrorCode
    high_watermark: int
    records: tuple[tuple[bytes | None, bytes | None, int, int], ...]


def fetched(
    client: WireClient, version: int, topic: str, offset: int, max_bytes: int = LARGE, wait_ms: int = 0
) -> Fetched:
    partition = fetch.FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = fetch.FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=LARGE, topics=(fetch.FetchTopic(topic, partitions=(partition,)),)
    )
    (answer,) = client.ask(fetch.API, version, request).responses
    (found,) = answer.partitions
    data = found.records or b""
    if len(data) > MAGIC_POSITION:
        assert data[MAGIC_POSITION] == (0 if version < 2 else 1)
    kept = []
    next_offset = offset
    for record in decode_message_set(data).records:
        # A 3.9 broker gives the first records twice when the first batch has nothing but a transaction's marker.
        if record.offset >= next_offset:
            kept.append((record.key, record.value, record.timestamp, record.offset))
            next_offset = record.offset + 1
    return Fetched(ErrorCode(found.error_code), found.high_watermark, tuple(kept))


def read_through(client: WireClient, version: int, topic: str, offset: int, end: int) -> list[Fetched]:
    """What an old client gets that fetches again from behind what it has, until there is nothing more."""
    steps = []
    while offset < end:
        step = fetched(client, version, topic, offset)
        steps.append(step)
        if not step.records:
            break
        offset = step.records[-1][3] + 1
    return steps


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("topic", [MIXED, TRANSACTIONAL, EMPTY])
def test_from_every_offset_it_is_the_same(topic: str, version: int, reference: Place, shim: Place) -> None:
    """A 3.9 broker gives no more bytes than the log has there, though messages are larger than records."""
    end = end_offset(reference.port, topic)
    assert end_offset(shim.port, topic) == end
    with WireClient(reference.port) as there, WireClient(shim.port) as here:
        for offset in range(end + 2):
            expected, given = fetched(there, version, topic, offset), fetched(here, version, topic, offset)
            assert given[:2] == expected[:2], offset
            assert given.records[: len(expected.records)] == expected.records, offset
            steps = [read_through(client, version, topic, offset, end) for client in (there, here)]
            expected_records, records = ([each for step in half for each in step.records] for half in steps)
            assert records == expected_records, offset
            assert len(steps[1]) <= len(steps[0])


@pytest.mark.parametrize("version", range(4))
def test_what_compaction_has_left(version: int, reference: Place, shim: Place) -> None:
    """Where it was last at work depends on the broker: "again" and "last" are compared with nothing."""
    lives = (b"again", b"last")
    with WireClient(reference.port) as there, WireClient(shim.port) as here:
        for offset in range(12):
            expected, given = (
                [each for step in read_through(client, version, COMPACTED, offset, 12) for each in step.records]
                for client in (there, here)
            )
            assert [r for r in given if r[0] not in lives] == [r for r in expected if r[0] not in lives], offset
            assert all(r[3] > 9 for r in given if r[0] in lives)


@pytest.mark.parametrize("version", range(4))
def test_the_logs_own_time_is_the_same_for_all_of_a_batch(version: int, shim: Place) -> None:
    """Which time that is depends on the broker."""
    with WireClient(shim.port) as client:
        found = fetched(client, version, APPEND_TIME, 0)
    assert [each[3] for each in found.records] == list(range(end_offset(shim.port, APPEND_TIME)))
    times = {time for _, _, time, _ in found.records}
    assert (times == {-1}) if version < 2 else min(times) > NOW - 10**12


@pytest.mark.parametrize("version", range(4))
def test_zstd_is_given_where_an_old_broker_gives_an_error(version: int, reference: Place, shim: Place) -> None:
    with WireClient(shim.port) as client:
        found = fetched(client, version, ZSTD, 0)
    expected = [(r.key, r.value, r.timestamp if version > 1 else -1, r.offset) for r in records(0, 5)]
    assert found == Fetched(ErrorCode.NONE, 5, tuple(expected))
