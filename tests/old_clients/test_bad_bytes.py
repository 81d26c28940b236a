"""What a 3.9 broker, the last that took old Produce requests, answers to bytes that are not as they should be: the shim
answers the same, and what is refused reaches no broker."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

import psutil
import pytest

from protocol.errors import ErrorCode
from protocol.messages import fetch, list_offsets, produce
from protocol.records.batches import Compression, Record, encode_records
from protocol.records.fetched import decode_fetched
from protocol.records.message_sets import encode_message_set
from shim.demo.parts import Broker
from tests.legacy.parts import KAFKA_3, LegacyBroker
from tests.old_clients.places import make_topics
from tests.shim_process import Shim
from tests.wire import WireClient

NOW: Final = 1_795_000_000_000


def message(
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    offset: int = 0,
    key: bytes | None = b"k",
    timestamp: int = NOW,
    crc: int | None = None,
) -> bytes:
    """One message, as wrong as is wanted."""
    body = struct.pack(">BB", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    checked = struct.pack(">I", zlib.crc32(body) if crc is None else crc) + body
    return struct.pack(">qi", offset, len(checked)) + checked


def wrapper(inner: bytes, **more: int) -> bytes:
    """The set in one message, by gzip."""
    return message(gzip.compress(inner), key=None, **{"attributes": 1, **more})


GOOD: Final = message(b"good")
TWO: Final = message(b"one") + message(b"two", offset=1)
LARGEST: Final = 2**63 - 1
FAR_APART: Final = message(b"a", timestamp=-1) + message(b"b", timestamp=LARGEST)
BATCH: Final = encode_records([Record(b"k", b"v", (), NOW, 0)])


class Case(NamedTuple):
    version: int
    records: bytes


CASES: Final[dict[str, Case]] = {
    "a sound set, v0": Case(0, message(b"v", magic=0)),
    "a sound set, v1": Case(1, message(b"v", magic=0)),
    "a sound set, v2": Case(2, TWO),
    "magic 0 in v2": Case(2, message(b"v", magic=0)),
    "magic 1 in v0": Case(0, GOOD),
    "both magics": Case(2, GOOD + message(b"v", magic=0, offset=1)),
    "both magics, the older first": Case(2, message(b"v", magic=0) + message(b"v", offset=1)),
    "a batch in v2": Case(2, BATCH),
    "a batch in v0": Case(0, BATCH),
    "a batch behind a message": Case(2, GOOD + BATCH),
    "a message behind a batch": Case(2, BATCH + GOOD),
    "no message": Case(2, b""),
    "a wrong CRC": Case(2, message(b"v", crc=1)),
    "a wrong CRC, magic 0": Case(0, message(b"v", magic=0, crc=1)),
    "a wrong CRC behind a good one": Case(2, GOOD + message(b"v", crc=1)),
    "cut off": Case(2, TWO[:-3]),
    "cut off in the size": Case(2, GOOD + TWO[:10]),
    "nothing but a part": Case(2, GOOD[:20]),
    "nothing but a part of a size": Case(2, GOOD[:5]),
    "a size below any": Case(2, struct.pack(">qi", 0, 3) + GOOD[12:]),
    "a negative size": Case(2, struct.pack(">qi", 0, -3) + GOOD[12:]),
    "a size of 2 GiB": Case(2, struct.pack(">qi", 0, 2**31 - 1) + GOOD[12:]),
    "magic 3": Case(2, message(b"v", magic=3)),
    "magic -1": Case(2, message(b"v", magic=255)),
    "codec 5": Case(2, message(b"v", attributes=5)),
    "codec 7": Case(0, message(b"v", magic=0, attributes=7)),
    "zstd": Case(2, message(b"v", attributes=4)),
    "unused attributes": Case(2, message(b"v", attributes=0x70)),
    "log append time": Case(2, message(b"v", attributes=8)),
    "log append time, magic 0": Case(0, message(b"v", magic=0, attributes=8)),
    "no key": Case(2, message(b"v", key=None)),
    "no value": Case(2, message(None)),
    "no timestamp": Case(2, message(b"v", timestamp=-1)),
    "a timestamp below that": Case(2, message(b"v", timestamp=-2)),
    "timestamps far apart, and a wrong CRC": Case(2, FAR_APART + message(b"v", crc=1)),
    "timestamps far apart, and magic 0": Case(2, FAR_APART + message(b"v", magic=0)),
    "timestamps far apart, and one below any": Case(2, FAR_APART + message(b"v", timestamp=-2)),
    "offsets that do not rise": Case(2, message(b"a", offset=5) + message(b"b", offset=5) + message(b"c", offset=1)),
    "negative offsets": Case(2, message(b"a", offset=-1) + message(b"b", offset=-1)),
    "a wrapper": Case(2, wrapper(TWO, offset=1)),
    "a wrapper at offset 0": Case(2, wrapper(TWO)),
    "a wrapper, magic 0": Case(0, wrapper(message(b"a", magic=0) + message(b"b", magic=0, offset=1), magic=0)),
    "a wrapper whose offset is too small": Case(2, wrapper(message(b"a", offset=7), offset=2)),
    "a wrapper far off": Case(2, wrapper(TWO, offset=1000)),
    "a wrapper at -1": Case(2, wrapper(TWO, offset=-1)),
    "offsets in it out of order": Case(2, wrapper(message(b"a", offset=1) + message(b"b"), offset=1)),
    "offsets in it out of order, magic 0": Case(
        1, wrapper(message(b"a", magic=0, offset=1) + message(b"b", magic=0), magic=0, offset=1)
    ),
    "offsets in it with a gap": Case(2, wrapper(message(b"a") + message(b"b", offset=5), offset=5)),
    "a wrapper with a key": Case(2, message(gzip.compress(TWO), key=b"k", attributes=1)),
    "a wrapper of none": Case(2, wrapper(b"")),
    "a wrapper of null": Case(2, message(None, attributes=1)),
    "a wrapper of nothing": Case(2, message(b"", attributes=1)),
    "a wrapper of junk": Case(2, message(b"junk", attributes=1)),
    "a wrapper cut off inside": Case(2, wrapper(TWO[:-3], offset=1)),
    "a wrapper, its bytes cut off": Case(2, message(gzip.compress(TWO)[:-9], key=None, attributes=1, offset=1)),
    "a wrapper with junk behind": Case(2, wrapper(TWO + b"junk", offset=1)),
    "a wrong CRC inside": Case(2, wrapper(message(b"v", crc=1))),
    "a wrapper in a wrapper": Case(2, wrapper(wrapper(TWO, offset=1), offset=1)),
    "magic 0 inside of magic 1": Case(2, wrapper(message(b"v", magic=0))),
    "magic 1 inside of magic 0": Case(2, wrapper(message(b"v"), magic=0)),
    "a batch inside": Case(2, wrapper(BATCH)),
    "a wrapper with log append time": Case(2, wrapper(TWO, offset=1, attributes=9)),
    "log append time inside": Case(2, wrapper(message(b"v", attributes=8))),
    "a wrapper and a message": Case(2, wrapper(TWO, offset=1) + message(b"three", offset=2)),
    "two wrappers": Case(2, wrapper(TWO, offset=1) + wrapper(TWO, offset=3)),
    "snappy": Case(
        2,
        encode_message_set([Record(b"k", b"v", (), NOW, 0)], 1, compression=Compression.SNAPPY),
    ),
    "lz4": Case(2, encode_message_set([Record(b"k", b"v", (), NOW, 0)], 1, compression=Compression.LZ4)),
    "lz4 of magic 0": Case(1, encode_message_set([Record(b"k", b"v", (), -1, 0)], 0, compression=Compression.LZ4)),
    "gzip named lz4": Case(2, message(gzip.compress(TWO), attributes=3, offset=1)),
    "a key of more than there is": Case(2, GOOD[:30] + struct.pack(">i", 100) + GOOD[34:]),
    "larger than message.max.bytes": Case(2, message(bytes(1_100_000))),
    "larger together": Case(2, b"".join(message(bytes(300_000), offset=n) for n in range(5))),
}


class Place(NamedTuple):
    """A port where the leader of all topics stands."""

    pid: int
    port: int


class Answer(NamedTuple):
    """``ended``: the connection was, without a word. ``kept``: key, value, timestamp of all that is in the log then."""

    ended: bool
    error: ErrorCode | None
    base_offset: int | None
    kept: tuple[tuple[bytes | None, bytes | None, int], ...]


TOPICS: Final = {name: f"bad-bytes-{number}" for number, name in enumerate(CASES)}
OF_TIMESTAMPS: Final = "timestamps"
UNANSWERED: Final = {name: f"unanswered-{number}" for number, name in enumerate(CASES)}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with LegacyBroker(tmp_path_factory.mktemp("reference"), KAFKA_3) as running:
        make_topics(running.port, (*TOPICS.values(), *UNANSWERED.values(), OF_TIMESTAMPS))
        yield Place(running.pid, running.port)


@pytest.fixture(scope="module")
def shim(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    make_topics(broker.port, (*TOPICS.values(), *UNANSWERED.values(), OF_TIMESTAMPS))
    with Shim(broker.bootstrap_servers, tmp_path_factory.mktemp("shim") / "data") as running:
        yield Place(running.pid, running.broker_port(broker.node_id))


def request(topic: str, records: bytes, acks: int) -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(0, records)
    return produce.ProduceRequest(None, acks, 10_000, (produce.TopicProduceData(topic, partition_data=(partition,)),))


def answered(place: Place, topic: str, case: Case) -> Answer:
    ended, error, base_offset = False, None, None
    with WireClient(place.port) as client:
        try:
            (answer,) = client.ask(produce.API, case.version, request(topic, case.records, 1)).responses
        except ConnectionError:
            ended = True
        else:
            (response,) = answer.partition_responses
            error, base_offset = ErrorCode(response.error_code), response.base_offset
    return Answer(ended, error, base_offset, kept(place, topic))


def unanswered(place: Place, topic: str, case: Case) -> Answer:
    """With acks=0: the answer to what comes behind says that the broker is through with it."""
    ended = False
    with WireClient(place.port) as client:
        client.send(produce.API, case.version, request(topic, case.records, 0))
        try:
            client.ask(list_offsets.API, 1, list_offsets.ListOffsetsRequest(-1))
        except ConnectionError:
            ended = True
    return Answer(ended, None, None, kept(place, topic))


def kept(place: Place, topic: str) -> tuple[tuple[bytes | None, bytes | None, int], ...]:
    partition = fetch.FetchPartition(0, partition_max_bytes=10_000_000)
    asked = fetch.FetchRequest(max_bytes=10_000_000, topics=(fetch.FetchTopic(topic, partitions=(partition,)),))
    with WireClient(place.port) as client:
        (answer,) = client.ask(fetch.API, 4, asked).responses
    (found,) = answer.partitions
    assert found.error_code == ErrorCode.NONE
    return tuple(
        (record.key, record.value, record.timestamp)
        for _, records in decode_fetched(found.records or b"")
        for record in records
    )


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_taken_or_refused_as_by_a_broker(name: str, reference: Place, shim: Place) -> None:
    assert answered(shim, TOPICS[name], CASES[name]) == answered(reference, TOPICS[name], CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_without_an_answer(name: str, reference: Place, shim: Place) -> None:
    assert unanswered(shim, UNANSWERED[name], CASES[name]) == unanswered(reference, UNANSWERED[name], CASES[name])


@pytest.mark.parametrize(
    "records", [message(b"v", timestamp=LARGEST), FAR_APART, wrapper(FAR_APART)], ids=["largest", "apart", "wrapped"]
)
def test_a_timestamp_that_a_broker_of_today_refuses(
    records: bytes, broker: Broker, reference: Place, shim: Place
) -> None:
    """A 3.9 broker takes it, and where the difference has more than 64 bits writes another one; a 4.3 broker's
    log.message.timestamp.after.max.ms is an hour."""

    def error(port: int, version: int, data: bytes) -> int:
        with WireClient(port) as client:
            (answer,) = client.ask(produce.API, version, request(OF_TIMESTAMPS, data, 1)).responses
        return answer.partition_responses[0].error_code

    assert error(reference.port, 2, records) == ErrorCode.NONE
    today = encode_records([Record(b"k", b"v", (), LARGEST, 0)])
    assert error(broker.port, 3, today) == error(shim.port, 2, records) == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("acks", [-2, 2, 1000])
def test_acks_that_there_are_no_more(acks: int, version: int, reference: Place, shim: Place) -> None:
    """0.8 could wait for so many replicas."""
    topic = TOPICS["a sound set, v2"]
    asked = request(topic, message(b"v", magic=0), acks)
    errors = []
    for place in (reference, shim):
        with WireClient(place.port) as client:
            (answer,) = client.ask(produce.API, version, asked).responses
            errors.append([response.error_code for response in answer.partition_responses])
    assert errors[0] == errors[1] != [ErrorCode.NONE]


@pytest.mark.parametrize("version", range(3))
def test_a_partition_that_does_not_exist(version: int, reference: Place, shim: Place) -> None:
    """Beside one that does, in a request whose third one is bad."""
    topic = TOPICS["a sound set, v2"]
    sets = {0: message(b"v", magic=0), 7: message(b"v", magic=0), 1: message(b"v", magic=0, crc=1)}
    partitions = tuple(produce.PartitionProduceData(*each) for each in sets.items())
    asked = produce.ProduceRequest(None, -1, 10_000, (produce.TopicProduceData(topic, partition_data=partitions),))
    errors = []
    for place in (reference, shim):
        with WireClient(place.port) as client:
            (answer,) = client.ask(produce.API, version, asked).responses
            errors.append({response.index: response.error_code for response in answer.partition_responses})
    assert errors[0][7] == errors[1][7] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors[0][0] == errors[1][0] == ErrorCode.NONE
    assert errors[1][1] == ErrorCode.CORRUPT_MESSAGE  # the broker says that there is none, and has not looked


def test_a_bomb_is_refused_in_little_memory(broker: Broker, shim: Place) -> None:
    """300 MB in a message of 300 KB."""
    bomb = wrapper(message(bytes(300_000_000)))
    before = kept(shim, TOPICS["a sound set, v2"])
    with WireClient(shim.port) as client:
        (answer,) = client.ask(produce.API, 2, request(TOPICS["a sound set, v2"], bomb, 1)).responses
    assert [response.error_code for response in answer.partition_responses] == [ErrorCode.MESSAGE_TOO_LARGE]
    assert kept(shim, TOPICS["a sound set, v2"]) == before
    assert psutil.Process(shim.pid).memory_info().rss < 300 << 20
