"""What the broker is asked for a request that it no longer has, and what becomes of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compat import describe_configs as configs_compat
from compat import fetch as fetch_compat
from compat import list_offsets as list_offsets_compat
from compat import produce as produce_compat
from compat import same_bytes
from compat.table import TRANSLATIONS
from compat.translation import MOST_FETCH_BYTES, Context, Translation, Unanswerable, renumbered
from protocol.apis import APIS, ApiKey
from protocol.errors import ErrorCode
from protocol.messages import describe_acls, describe_configs, fetch, list_offsets, produce
from protocol.records.batches import Compression, Record, decode_records, encode_records
from protocol.records.message_sets import decode_message_set, encode_message_set
from tests.compat.exchanging import translated, unasked
from tests.compat.logs import Log, as_old, logs, read_from, records_in
from tests.examples import examples
from tests.protocol.strategies import messages

E = ErrorCode
NOW = 1_767_225_600_123
unhurried = settings(deadline=None)

Partition = tuple[str, int]

# --- Produce ---------------------------------------------------------------------------------------------------------


def message_set(value: bytes, codec: Compression = Compression.NONE) -> bytes:
    return encode_message_set([Record(b"k", value, (), -1, 0)], 0, compression=codec)


GOOD, ALSO_GOOD = message_set(b"v"), message_set(b"w", Compression.SNAPPY)
CORRUPT = GOOD[:-1] + b"?"
MIXED = GOOD + encode_message_set([Record(b"k", b"v", (), NOW, 0)], 1)


def produced(topics: Mapping[str, Mapping[int, bytes | None]], acks: int = -1) -> produce.ProduceRequest:
    return produce.ProduceRequest(
        None,
        acks,
        1234,
        tuple(
            produce.TopicProduceData(
                name, partition_data=tuple(produce.PartitionProduceData(*each) for each in partitions.items())
            )
            for name, partitions in topics.items()
        ),
    )


class Appender:
    """A broker that has a partition for everything, but for those that have an error."""

    def __init__(self, errors: Mapping[Partition, ErrorCode] | None = None) -> None:
        self.taken: dict[Partition, bytes] = {}
        self.requests: list[produce.ProduceRequest] = []
        self._errors = errors or {}

    def __call__(self, request: produce.ProduceRequest) -> produce.ProduceResponse:
        self.requests.append(request)
        responses = []
        for topic in reversed(request.topic_data):
            partitions = []
            for each in topic.partition_data:
                self.taken[topic.name, each.index] = each.records or b""
                error = self._errors.get((topic.name, each.index), E.NONE)
                offset = -1 if error else 100 + each.index
                partitions.append(produce.PartitionProduceResponse(each.index, error, offset, NOW))
            responses.append(produce.TopicProduceResponse(topic.name, partition_responses=tuple(partitions)))
        return produce.ProduceResponse(tuple(responses), 77)


def told_of(response: produce.ProduceResponse) -> list[tuple[str, int, int, int]]:
    return [
        (topic.name, each.index, each.error_code, each.base_offset)
        for topic in response.responses
        for each in topic.partition_responses
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce(version: int) -> None:
    broker = Appender({("u", 5): E.NOT_LEADER_OR_FOLLOWER})
    request = produced({"t": {3: GOOD, 1: CORRUPT, 2: ALSO_GOOD}, "u": {5: GOOD}, "w": {0: MIXED}})
    response = translated(produce_compat.TRANSLATION, version, request, broker)
    assert told_of(response) == [
        ("t", 3, E.NONE, 103),
        ("t", 1, E.CORRUPT_MESSAGE, -1),
        ("t", 2, E.NONE, 102),
        ("u", 5, E.NOT_LEADER_OR_FOLLOWER, -1),
        ("w", 0, E.INVALID_RECORD, -1),
    ]
    assert response.throttle_time_ms == (77 if version >= 1 else 0)
    assert response.responses[0].partition_responses[0].log_append_time_ms == (NOW if version >= 2 else -1)
    (asked,) = broker.requests
    assert (asked.acks, asked.timeout_ms, asked.transactional_id) == (-1, 1234, None)
    assert [topic.name for topic in asked.topic_data] == ["t", "u"]
    assert {name: [record.value for record in decode_records(batch)] for name, batch in broker.taken.items()} == {
        ("t", 3): [b"v"],
        ("t", 2): [b"w"],
        ("u", 5): [b"v"],
    }


def test_produce_of_nothing_that_the_broker_could_take() -> None:
    response = translated(produce_compat.TRANSLATION, 1, produced({"t": {0: CORRUPT, 1: MIXED, 2: GOOD[:-1]}}), unasked)
    assert told_of(response) == [("t", 0, E.CORRUPT_MESSAGE, -1), ("t", 1, E.INVALID_RECORD, -1), ("t", 2, E.NONE, -1)]
    assert response.throttle_time_ms == 0


def test_produce_of_nothing_at_all() -> None:
    """It was written, as far as a broker of these versions is concerned."""
    assert told_of(translated(produce_compat.TRANSLATION, 2, produced({}), unasked)) == []
    request = produced({"t": {0: None, 1: b"", 2: GOOD[:-1]}})
    assert told_of(translated(produce_compat.TRANSLATION, 2, request, unasked)) == [
        ("t", number, E.NONE, -1) for number in range(3)
    ]
    with pytest.raises(StopIteration) as end:
        next(produce_compat.exchange(0, produced({"t": {0: b""}}, acks=0), Context()))
    assert end.value.value is None


def test_produce_that_the_broker_does_not_answer_in_full() -> None:
    broker = Appender()
    response = translated(
        produce_compat.TRANSLATION,
        2,
        produced({"t": {0: GOOD, 1: GOOD}}),
        lambda request: broker(produced({"t": {0: GOOD}})),
    )
    assert told_of(response) == [("t", 0, E.NONE, 100), ("t", 1, E.UNKNOWN_SERVER_ERROR, -1)]


def test_produce_without_an_answer() -> None:
    translation = produce_compat.TRANSLATION
    good = produced({"t": {0: GOOD}}, acks=0)
    assert not translation.answered(good)
    assert translation.answered(produced({"t": {0: GOOD}}, acks=1))
    (asked,) = next(translation.exchange(0, good, Context()))
    assert asked.acks == 0
    assert [record.value for record in decode_records(asked.topic_data[0].partition_data[0].records)] == [b"v"]
    # What is sound is produced all the same.
    exchange = translation.exchange(0, produced({"t": {0: GOOD}, "u": {7: CORRUPT}}, acks=0), Context())
    (asked,) = next(exchange)
    assert [topic.name for topic in asked.topic_data] == ["t"]
    with pytest.raises(Unanswerable, match=r"^produce with acks=0: CRC mismatch"):
        exchange.send([])
    with pytest.raises(Unanswerable):
        next(translation.exchange(0, produced({"u": {7: CORRUPT}}, acks=0), Context()))


def test_what_producing_costs() -> None:
    cost = produce_compat.TRANSLATION.cost
    assert cost(produced({"t": {0: b"123", 1: None}, "u": {0: b"45"}})) == 5
    assert cost(Appender()(produced({"t": {0: GOOD}}))) == 0


# --- Fetch -----------------------------------------------------------------------------------------------------------


def fetching(
    offsets: Mapping[Partition, int], partition_max_bytes: int = 1 << 20, max_bytes: int = 1 << 30
) -> fetch.FetchRequest:
    topics: dict[str, list[fetch.FetchPartition]] = {}
    for (topic, number), offset in offsets.items():
        partition = fetch.FetchPartition(number, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        topics.setdefault(topic, []).append(partition)
    return fetch.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=tuple(fetch.FetchTopic(name, partitions=tuple(each)) for name, each in topics.items()),
    )


def asked_for(request: fetch.FetchRequest) -> list[tuple[Partition, int]]:
    return [((topic.topic, each.partition), each.fetch_offset) for topic in request.topics for each in topic.partitions]


def found(partitions: Mapping[Partition, fetch.PartitionData]) -> fetch.FetchResponse:
    return fetch.FetchResponse(
        33,
        responses=tuple(
            fetch.FetchableTopicResponse(topic, partitions=(each,)) for (topic, _), each in partitions.items()
        ),
    )


def batch(*offsets: int) -> bytes:
    return encode_records([Record(b"k", b"v%d" % offset, (("h", b""),), NOW, offset) for offset in offsets])


def marker(offset: int) -> bytes:
    return encode_records([Record(b"\0\0\0\1", b"", (), NOW, offset)], attributes=0x30)


class Leader:
    """A broker of these logs, as v10 has it: the first batch of a response is given whole, no other is cut off."""

    def __init__(self, partitions: Mapping[Partition, Log]) -> None:
        self.requests: list[fetch.FetchRequest] = []
        self._logs = partitions

    def __call__(self, request: fetch.FetchRequest) -> fetch.FetchResponse:
        self.requests.append(request)
        left = request.max_bytes
        topics = []
        given_any = False
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                log = self._logs[topic.topic, each.partition]
                size = min(left, each.partition_max_bytes)
                whole = read_from(log, each.fetch_offset, size)
                records = whole if not given_any or len(whole) <= size else b""
                given_any = given_any or bool(records)
                left = max(0, left - len(records))
                end = log[-1].last + 1
                partitions.append(fetch.PartitionData(each.partition, E.NONE, end, records=records))
            topics.append(fetch.FetchableTopicResponse(topic.topic, partitions=tuple(partitions)))
        return fetch.FetchResponse(responses=tuple(topics))


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_fetch(version: int) -> None:
    names = [("t", 0), ("t", 1), ("u", 0)]
    asked: list[fetch.FetchRequest] = []

    def broker(request: fetch.FetchRequest) -> fetch.FetchResponse:
        asked.append(request)
        return found(
            {
                ("u", 0): fetch.PartitionData(0, E.NOT_LEADER_OR_FOLLOWER, -1, records=None),
                ("t", 0): fetch.PartitionData(0, E.NONE, 9, 8, 7, records=batch(5, 6)),
                ("t", 1): fetch.PartitionData(1, E.NONE, 4, 4, 0, records=b""),
            }
        )

    request = fetching(dict.fromkeys(names, 6))
    response = translated(fetch_compat.TRANSLATION, version, request, broker)
    assert response.throttle_time_ms == (33 if version >= 1 else 0)
    assert [topic.topic for topic in response.responses] == ["t", "u"]
    (first, second), (third,) = (topic.partitions for topic in response.responses)
    assert first[:3] == (0, E.NONE, 9)
    assert decode_message_set(first.records).records == [Record(b"k", b"v6", (), NOW if version >= 2 else -1, 6)]
    assert (second[:3], second.records) == ((1, E.NONE, 4), b"")
    assert (third[:3], third.records) == ((0, E.NOT_LEADER_OR_FOLLOWER, -1), b"")
    assert asked_for(asked[0]) == [(name, 6) for name in names]
    assert (asked[0].replica_id, asked[0].max_wait_ms, asked[0].min_bytes) == (-1, 500, 1)
    assert (asked[0].session_id, asked[0].session_epoch, asked[0].isolation_level) == (0, -1, 0)


@pytest.mark.parametrize(("version", "asked", "passed"), [
    (0, 1 << 30, MOST_FETCH_BYTES),
    (2, 5, MOST_FETCH_BYTES),
    (3, 1 << 30, MOST_FETCH_BYTES),
    (3, 5, 5),
])  # fmt: skip
def test_no_more_is_fetched_than_is_converted_at_once(version: int, asked: int, passed: int) -> None:
    leader = Leader({("t", 0): []})
    request = fetching({}, max_bytes=asked)
    translated(fetch_compat.TRANSLATION, version, request, leader)
    assert leader.requests[0].max_bytes == passed


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_first_message_that_is_larger_than_asked_for(version: int) -> None:
    def broker(_: fetch.FetchRequest) -> fetch.FetchResponse:
        return found({("t", 0): fetch.PartitionData(0, E.NONE, 2, records=batch(0, 1))})

    response = translated(fetch_compat.TRANSLATION, version, fetching({("t", 0): 0}, partition_max_bytes=20), broker)
    records, end, needed = decode_message_set(response.responses[0].partitions[0].records)
    if version >= 3:
        assert ([record.offset for record in records], needed) == ([0], 0)
    else:
        assert (records, end) == ([], 0)
        assert needed > 20


@pytest.mark.parametrize("error", [E.CORRUPT_MESSAGE, E.KAFKA_STORAGE_ERROR, E.OFFSET_OUT_OF_RANGE])
def test_errors(error: ErrorCode) -> None:
    def broker(_: fetch.FetchRequest) -> fetch.FetchResponse:
        return found({("t", 0): fetch.PartitionData(0, error, -1)})

    response = translated(fetch_compat.TRANSLATION, 2, fetching({("t", 0): 0}), broker)
    told = E.NOT_LEADER_OR_FOLLOWER if error == E.KAFKA_STORAGE_ERROR else error
    assert response.responses[0].partitions[0].error_code == told


@pytest.mark.parametrize("records", [batch(0)[:-1] + b"?", bytes(61), batch(0)[:16] + b"\7" * 50])
def test_corrupt_records(records: bytes) -> None:
    """Those of the partitions beside it are given."""

    def broker(_: fetch.FetchRequest) -> fetch.FetchResponse:
        return found(
            {
                ("t", 0): fetch.PartitionData(0, E.NONE, 1, records=records),
                ("u", 0): fetch.PartitionData(0, E.NONE, 1, records=batch(0)),
            }
        )

    response = translated(fetch_compat.TRANSLATION, 2, fetching({("t", 0): 0, ("u", 0): 0}), broker)
    bad, good = (topic.partitions[0] for topic in response.responses)
    assert (bad.error_code, bad.records) == (E.CORRUPT_MESSAGE, b"")
    assert (good.error_code, len(decode_message_set(good.records).records)) == (E.NONE, 1)


def test_partitions_that_are_missing_come_twice_or_were_not_asked_for() -> None:
    def broker(_: fetch.FetchRequest) -> fetch.FetchResponse:
        twice = fetch.PartitionData(0, E.NONE, 1, records=batch(0))
        of_t = fetch.FetchableTopicResponse("t", partitions=(twice, twice))
        return fetch.FetchResponse(responses=(of_t, of_t, fetch.FetchableTopicResponse("x", partitions=(twice,))))

    context = Context()
    request = fetching({("t", 0): 0, ("u", 1): 0})
    response = translated(fetch_compat.TRANSLATION, 3, request, broker, context)
    assert [topic.topic for topic in response.responses] == ["t"]
    (there,) = response.responses[0].partitions
    assert len(decode_message_set(there.records).records) == 1
    assert context.first is None


def test_who_is_throttled_is_named_no_partition() -> None:
    """As by a 3.9 broker: any error would be taken for one of the topic's."""
    response = translated(fetch_compat.TRANSLATION, 1, fetching({("t", 0): 0}), lambda _: fetch.FetchResponse(1991))
    assert (response.throttle_time_ms, response.responses) == (1991, ())
    refused = fetch.FetchResponse(0, E.UNKNOWN_SERVER_ERROR)
    response = translated(fetch_compat.TRANSLATION, 1, fetching({("t", 0): 0}), lambda _: refused)
    assert response.responses[0].partitions[0].error_code == E.UNKNOWN_SERVER_ERROR


def test_a_partition_that_is_asked_for_twice() -> None:
    leader = Leader({("t", 0): []})
    asked = fetching({("t", 0): 3}).topics[0]
    request = fetching({})._replace(topics=(asked, asked._replace(partitions=asked.partitions * 2)))

    def broker(request: fetch.FetchRequest) -> fetch.FetchResponse:
        leader.requests.append(request)
        return found({("t", 0): fetch.PartitionData(0, E.NONE, 9, records=batch(3))})

    response = translated(fetch_compat.TRANSLATION, 1, request, broker)
    assert asked_for(leader.requests[0]) == [(("t", 0), 3)]
    assert [len(topic.partitions) for topic in response.responses] == [1]
    assert {each.records for topic in response.responses for each in topic.partitions} == {
        encode_message_set([Record(b"k", b"v3", (), -1, 3)], 0)
    }


class Marked:
    """A broker of partitions that have nothing but markers of transactions up to an offset, and then ``behind``."""

    def __init__(self, until: Mapping[Partition, int], behind: Mapping[Partition, fetch.PartitionData]) -> None:
        self.asked: list[tuple[int, dict[Partition, int]]] = []
        self._until = until
        self._behind = behind

    def __call__(self, request: fetch.FetchRequest) -> fetch.FetchResponse:
        offsets = dict(asked_for(request))
        self.asked.append((request.max_wait_ms, offsets))
        empty = fetch.PartitionData(0, E.NONE, 50, records=b"")
        return found(
            {
                name: (
                    fetch.PartitionData(name[1], E.NONE, 50, records=marker(offset))
                    if offset < self._until[name]
                    else self._behind.get(name, empty)._replace(partition_index=name[1])
                )
                for name, offset in offsets.items()
            }
        )


def records_of_each(request: fetch.FetchRequest, broker: Marked) -> list[tuple[int, int]]:
    """Error and number of records of each partition."""
    answer = translated(fetch_compat.TRANSLATION, 2, request, broker)
    return [
        (each.error_code, len(decode_message_set(each.records or b"").records))
        for topic in answer.responses
        for each in topic.partitions
    ]


T, U = ("t", 0), ("u", 0)
DATA = fetch.PartitionData(0, E.NONE, 50, records=batch(20, 21))


def test_behind_markers_alone_the_broker_is_asked_again_and_waits_there() -> None:
    """Nobody waits longer than the client wants, and for a second time."""
    broker = Marked({T: 9}, {T: DATA})
    assert records_of_each(fetching({T: 7}), broker) == [(E.NONE, 2)]
    assert broker.asked == [(500, {T: 7}), (500, {T: 8}), (0, {T: 9})]
    broker = Marked({T: 8}, {})
    assert records_of_each(fetching({T: 7}), broker) == [(E.NONE, 0)]
    assert broker.asked == [(500, {T: 7}), (500, {T: 8})]


def test_who_waits_behind_markers_waits_for_all_partitions() -> None:
    broker = Marked({T: 8, U: 0}, {})
    assert records_of_each(fetching({T: 7, U: 3}), broker) == [(E.NONE, 0), (E.NONE, 0)]
    assert broker.asked == [(500, {T: 7, U: 3}), (500, {T: 8, U: 3})]


def test_nobody_waits_for_what_is_behind_markers_while_others_have_something() -> None:
    broker = Marked({T: 9, U: 0}, {T: DATA, U: DATA})
    assert records_of_each(fetching({T: 7, U: 20}), broker) == [(E.NONE, 2), (E.NONE, 2)]
    assert broker.asked == [(500, {T: 7, U: 20}), (0, {T: 8}), (0, {T: 9})]


def test_an_error_behind_markers_is_not_the_clients() -> None:
    """Where it asks itself, there is none."""
    broker = Marked({T: 8}, {T: fetch.PartitionData(0, E.OFFSET_OUT_OF_RANGE, -1)})
    assert records_of_each(fetching({T: 7}), broker) == [(E.NONE, 0)]


def test_endless_markers_end() -> None:
    broker = Marked({T: 10**6}, {})
    assert records_of_each(fetching({T: 7}), broker) == [(E.NONE, 0)]
    assert [offsets[T] for _, offsets in broker.asked] == list(range(7, 15))


def test_who_asks_for_no_bytes_is_not_led_past_any() -> None:
    context = Context()
    leader = Leader({("t", 0): []})

    def broker(request: fetch.FetchRequest) -> fetch.FetchResponse:
        leader.requests.append(request)
        return found({("t", 0): fetch.PartitionData(0, E.NONE, 2, records=marker(0) + batch(1))})

    for size in (0, 1000):
        response = translated(
            fetch_compat.TRANSLATION, 0, fetching({("t", 0): 0}, partition_max_bytes=size), broker, context
        )
    assert [asked_for(request) for request in leader.requests] == [[(("t", 0), 0)]] * 2
    assert len(decode_message_set(response.responses[0].partitions[0].records).records) == 1


def test_who_got_nothing_comes_first_the_next_time() -> None:
    """Each has the same share, though every batch is larger than what a response may have."""
    names = [("t", 0), ("t", 1), ("u", 0), ("v", 0)]
    given_to: list[Partition] = []
    requests: list[fetch.FetchRequest] = []

    def broker(request: fetch.FetchRequest) -> fetch.FetchResponse:
        requests.append(request)
        partitions = {name: fetch.PartitionData(name[1], E.NONE, 99, records=b"") for name, _ in asked_for(request)}
        first, offset = asked_for(request)[0]
        given_to.append(first)
        partitions[first] = partitions[first]._replace(records=batch(offset))
        return found(partitions)

    context = Context()
    request = fetching(dict.fromkeys(names, 5))
    for _ in range(8):
        response = translated(fetch_compat.TRANSLATION, 2, request, broker, context)
        assert [
            (topic.topic, each.partition_index) for topic in response.responses for each in topic.partitions
        ] == names
    assert given_to == names * 2
    assert [name for name, _ in asked_for(requests[1])] == [("t", 1), ("t", 0), ("u", 0), ("v", 0)], "by topics"

    # Another request than the last one, without the partition that would come first.
    translated(fetch_compat.TRANSLATION, 2, request, broker, context)
    assert context.first == ("t", 1)
    translated(fetch_compat.TRANSLATION, 2, fetching({("v", 0): 5, ("u", 0): 5}), broker, context)
    assert given_to[-1] == ("v", 0)


@pytest.mark.parametrize(
    "data",
    [
        fetch.PartitionData(0, E.NONE, 5, records=b""),
        fetch.PartitionData(0, E.NOT_LEADER_OR_FOLLOWER, 99, records=b""),
        fetch.PartitionData(0, E.NONE, 99, records=batch(5)),
    ],
    ids=["at the end", "an error", "records"],
)
def test_who_comes_first_only_if_there_is_something_to_fetch(data: fetch.PartitionData) -> None:
    context = Context()
    translated(fetch_compat.TRANSLATION, 2, fetching({("t", 0): 5}), lambda _: found({("t", 0): data}), context)
    assert context.first is None


def test_what_fetching_costs() -> None:
    cost = fetch_compat.TRANSLATION.cost
    three, four = fetch.PartitionData(0, E.NONE, 5, records=b"123"), fetch.PartitionData(0, E.NONE, 5, records=b"1234")
    assert cost(found({("t", 0): three, ("u", 0): four, ("v", 0): three._replace(records=None)})) == 7
    assert cost(fetching({("t", 0): 0})) == 0


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@settings(unhurried, max_examples=examples(15))
@given(
    some=st.lists(logs(most=3), min_size=1, max_size=3),
    partition_max_bytes=st.integers(1, 60) | st.integers(1, 3000),
    max_bytes=st.integers(1, 3000),
)
def test_an_old_consumer_sees_every_record_of_all_partitions_once(
    version: int, some: list[Log], partition_max_bytes: int, max_bytes: int
) -> None:
    partitions = {("t" if number < 2 else "u", number): log for number, log in enumerate(some)}
    leader, context = Leader(partitions), Context()
    positions = {name: log[0].first for name, log in partitions.items()}
    seen: dict[Partition, list[Record]] = {name: [] for name in partitions}
    wanted = {name: as_old(records_in(log), 1 if version >= 2 else 0) for name, log in partitions.items()}
    for _ in range(2000):
        if seen == wanted:
            break
        request = fetching(positions, partition_max_bytes, max_bytes)
        response = translated(fetch_compat.TRANSLATION, version, request, leader, context)
        for topic in response.responses:
            for each in topic.partitions:
                assert each.error_code == E.NONE
                records, _, needed = decode_message_set(each.records)
                name = (topic.topic, each.partition_index)
                seen[name] += records
                if records:
                    positions[name] = records[-1].offset + 1
                elif needed:
                    assert version < 3
                    partition_max_bytes *= 2
    assert seen == wanted


# --- ListOffsets -----------------------------------------------------------------------------------------------------

LATEST, EARLIEST = list_offsets_compat.LATEST, list_offsets_compat.EARLIEST


def listed(timestamp: int, most: int, found: tuple[int, int], start: tuple[int, int]) -> tuple[int, tuple[int, ...]]:
    """Error and offsets that an old client is told; each given with its error and offset."""

    def broker(request: list_offsets.ListOffsetsRequest) -> list_offsets.ListOffsetsResponse:
        (topic,) = request.topics
        (partition,) = topic.partitions
        assert (topic.name, partition.partition_index) == ("t", 4)
        times.append(partition.timestamp)
        error, offset = {EARLIEST: start, LATEST: found if timestamp == LATEST else (E.NONE, 95)}.get(
            partition.timestamp, found
        )
        answer = list_offsets.ListOffsetsPartitionResponse(4, error, timestamp=NOW, offset=offset)
        return list_offsets.ListOffsetsResponse(topics=(list_offsets.ListOffsetsTopicResponse("t", (answer,)),))

    times: list[int] = []
    partition = list_offsets.ListOffsetsPartition(4, timestamp=timestamp, max_num_offsets=most)
    request = list_offsets.ListOffsetsRequest(-1, topics=(list_offsets.ListOffsetsTopic("t", (partition,)),))
    response = translated(list_offsets_compat.TRANSLATION, 0, request, broker)
    assert times == [timestamp, EARLIEST, LATEST]
    (topic,) = response.topics
    (answer,) = topic.partitions
    assert (topic.name, answer.partition_index) == ("t", 4)
    return answer.error_code, answer.old_style_offsets


@pytest.mark.parametrize(
    ("timestamp", "most", "found", "start", "told"),
    [
        (LATEST, 1, (E.NONE, 90), (E.NONE, 10), (E.NONE, (90,))),
        (LATEST, 2, (E.NONE, 90), (E.NONE, 10), (E.NONE, (90, 10))),
        (LATEST, 2**31 - 1, (E.NONE, 90), (E.NONE, 10), (E.NONE, (90, 10))),
        (LATEST, 5, (E.NONE, 10), (E.NONE, 10), (E.NONE, (10,))),
        (LATEST, 0, (E.NONE, 90), (E.NONE, 10), (E.NONE, ())),
        (LATEST, -1, (E.NONE, 90), (E.NONE, 10), (E.NONE, ())),
        (EARLIEST, 5, (E.NONE, 90), (E.NONE, 10), (E.NONE, (10,))),
        (NOW, 1, (E.NONE, 50), (E.NONE, 10), (E.NONE, (50,))),
        (NOW, 5, (E.NONE, -1), (E.NONE, 10), (E.NONE, (95, 10))),
        (NOW, 1, (E.NONE, -1), (E.NONE, 10), (E.NONE, (95,))),
        (NOW, 5, (E.NOT_LEADER_OR_FOLLOWER, -1), (E.NONE, 10), (E.NOT_LEADER_OR_FOLLOWER, ())),
        (NOW, 5, (E.NONE, 50), (E.NOT_LEADER_OR_FOLLOWER, -1), (E.NOT_LEADER_OR_FOLLOWER, ())),
    ],
)
def test_lists_of_offsets(
    timestamp: int, most: int, found: tuple[int, int], start: tuple[int, int], told: tuple[int, tuple[int, ...]]
) -> None:
    assert listed(timestamp, most, found, start) == told


def test_lists_of_several_partitions() -> None:
    def broker(request: list_offsets.ListOffsetsRequest) -> list_offsets.ListOffsetsResponse:
        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    topic.name,
                    tuple(
                        list_offsets.ListOffsetsPartitionResponse(
                            each.partition_index, E.NONE, offset=100 * each.partition_index + each.timestamp + 2
                        )
                        for each in reversed(topic.partitions)
                    ),
                )
                for topic in reversed(request.topics)
            )
        )

    request = list_offsets.ListOffsetsRequest(
        -1,
        topics=tuple(
            list_offsets.ListOffsetsTopic(
                name, tuple(list_offsets.ListOffsetsPartition(n, timestamp=LATEST, max_num_offsets=n) for n in (1, 2))
            )
            for name in ("t", "u")
        ),
    )
    response = translated(list_offsets_compat.TRANSLATION, 0, request, broker)
    assert {
        (topic.name, each.partition_index): each.old_style_offsets
        for topic in response.topics
        for each in topic.partitions
    } == {(name, n): offsets for name in ("t", "u") for n, offsets in ((1, (101,)), (2, (201, 200)))}


def test_one_partition_may_be_asked_for_several_times() -> None:
    """In newer versions it may not."""

    def broker(request: list_offsets.ListOffsetsRequest) -> list_offsets.ListOffsetsResponse:
        (topic,) = request.topics
        numbers = [each.partition_index for each in topic.partitions]
        assert len(numbers) == len(set(numbers))
        partitions = tuple(
            list_offsets.ListOffsetsPartitionResponse(each.partition_index, E.NONE, offset=each.timestamp + 100)
            for each in topic.partitions
        )
        return list_offsets.ListOffsetsResponse(topics=(list_offsets.ListOffsetsTopicResponse("t", partitions),))

    partitions = tuple(
        list_offsets.ListOffsetsPartition(number, timestamp=timestamp)
        for number, timestamp in [(0, LATEST), (1, LATEST), (0, EARLIEST), (0, 7)]
    )
    request = list_offsets.ListOffsetsRequest(-1, topics=(list_offsets.ListOffsetsTopic("t", partitions),))
    (topic,) = translated(list_offsets_compat.TRANSLATION, 0, request, broker).topics
    told = [(each.partition_index, each.old_style_offsets) for each in topic.partitions]
    assert told == [(0, (99,)), (1, (99,)), (0, (98,)), (0, (107,))]


# --- DescribeConfigs -------------------------------------------------------------------------------------------------

# Where a value comes from, and whether it is the default of a topic, and of a broker.
SOURCES = {1: (False, True), 2: (True, False), 3: (True, True), 4: (True, False), 5: (True, True), 6: (True, True)}


@pytest.mark.parametrize(("resource_type", "column"), [(2, 0), (4, 1)])
def test_configs(resource_type: int, column: int) -> None:
    request = describe_configs.DescribeConfigsRequest(
        (describe_configs.DescribeConfigsResource(resource_type, "r", ("a",)),)
    )

    def broker(asked: describe_configs.DescribeConfigsRequest) -> describe_configs.DescribeConfigsResponse:
        assert asked == request
        synonym = describe_configs.DescribeConfigsSynonym("s", "v", 5)
        configs = tuple(
            describe_configs.DescribeConfigsResourceResult(
                str(source), None, True, config_source=source, is_sensitive=True, synonyms=(synonym,)
            )
            for source in SOURCES
        )
        found = describe_configs.DescribeConfigsResult(0, None, resource_type, "r", configs)
        bad = describe_configs.DescribeConfigsResult(E.INVALID_REQUEST, "no", resource_type, "b", ())
        return describe_configs.DescribeConfigsResponse(9, (found, bad))

    response = translated(configs_compat.TRANSLATION, 0, request, broker)
    found, bad = response.results
    assert response.throttle_time_ms == 9
    assert bad[:4] == (E.INVALID_REQUEST, "no", resource_type, "b")
    assert {int(each.name): each.is_default for each in found.configs} == {
        source: is_default[column] for source, is_default in SOURCES.items()
    }
    assert all((each.value, each.read_only, each.is_sensitive) == (None, True, True) for each in found.configs)


# --- all of them -----------------------------------------------------------------------------------------------------

ALL = [
    pytest.param(translation, version, id=f"{translation.api.name} v{version}")
    for translation in TRANSLATIONS.values()
    for version in range(translation.first, translation.last + 1)
    if translation not in same_bytes.TRANSLATIONS
]


def test_the_table() -> None:
    for key, translation in TRANSLATIONS.items():
        api = translation.api
        assert (api.key, api.name.lower()) == (key, ApiKey(key).name.replace("_", "").lower())
        assert translation.first == api.versions[0] == 0
        assert translation.last < translation.to <= api.versions[1]
        assert translation.to == translation.last + 1 or translation.exchange is fetch_compat.exchange
        # Where there is a schema for all versions, it is that one.
        assert api.versions[1] == 1 or api is APIS[ApiKey(key)]


@pytest.mark.parametrize(("translation", "version"), ALL)
@settings(unhurried, max_examples=examples(10))
@given(data=st.data())
def test_every_old_request_can_be_asked_in_the_new_version(
    translation: Translation, version: int, data: st.DataObject
) -> None:
    api = translation.api
    request: Any = data.draw(messages(cast(Any, api.request), version, api.is_flexible(version)))
    try:
        asked = next(translation.exchange(version, request, Context()))
    except (StopIteration, Unanswerable):
        assert api.key == ApiKey.PRODUCE
        return
    for each in asked:
        read, _ = api.decode_request(translation.to, api.encode_request(translation.to, each))
        if translation.exchange is renumbered:
            assert read == request
            assert api.encode_request(version, read) == api.encode_request(version, request)


@pytest.mark.parametrize(
    ("translation", "version"),
    [each for each in ALL if each.values[0].exchange is renumbered],  # type: ignore[union-attr]
)
@settings(unhurried, max_examples=examples(10))
@given(data=st.data())
def test_every_new_answer_can_be_told_in_the_old_version(
    translation: Translation, version: int, data: st.DataObject
) -> None:
    api = translation.api
    response: Any = data.draw(messages(cast(Any, api.response), translation.to, api.is_flexible(translation.to)))
    if api.key == ApiKey.DESCRIBE_ACLS:
        # Asked for literal names the broker tells of no others (KIP-290).
        response = response._replace(resources=tuple(each._replace(pattern_type=3) for each in response.resources))
    if api.key == ApiKey.DELETE_ACLS:
        response = response._replace(
            filter_results=tuple(
                each._replace(matching_acls=tuple(acl._replace(pattern_type=3) for acl in each.matching_acls))
                for each in response.filter_results
            )
        )
    old, _ = api.decode_response(version, api.encode_response(version, response))
    assert api.encode_response(version, old) == api.encode_response(version, response)
    oldest = {name: getattr(old, name) for name in old._fields if getattr(old, name) != getattr(response, name)}
    assert oldest.keys() <= {"throttle_time_ms", "topics", "responses"}


@pytest.mark.parametrize("translation", same_bytes.TRANSLATIONS, ids=lambda translation: translation.api.name)
@given(data=st.binary(max_size=20))
def test_only_the_number_changes(translation: Translation, data: bytes) -> None:
    api = translation.api
    frame = api.request_frame(0, 7, "me", data)
    header, request = api.parse_request(0, frame, 4)
    (asked,) = next(translation.exchange(0, request, Context()))
    new = api.request_frame(1, header.correlation_id, header.client_id, asked)
    assert new == frame[:6] + b"\0\1" + frame[8:]
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert (header.api_key, header.api_version) == (api.key, 0)
    answer = api.response_frame(1, 7, data)
    assert answer == (4 + len(data)).to_bytes(4, "big") + b"\0\0\0\7" + data
    assert api.parse_response(1, answer, 4) == (7, data)


def test_acls_are_asked_for_by_literal_names() -> None:
    request = describe_acls.DescribeAclsRequest(2, "t")
    (asked,) = next(TRANSLATIONS[ApiKey.DESCRIBE_ACLS].exchange(0, request, Context()))
    assert asked.pattern_type_filter == 3
