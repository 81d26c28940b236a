"""A partition is read on where it is, or is again: whoever hangs, leads, or has lost what was read."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Final

import pytest

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import api_versions, fetch, list_offsets, metadata, offset_for_leader_epoch
from protocol.own.position import Position
from protocol.records.batches import BatchHeader, encode_batch
from shim.config import HostPort, Settings
from shim.upstream import Cluster, TopicReader, UpstreamError, topic_leaders, topic_reader
from shim.upstream.connection import BrokerConnection
from shim.upstream.in_vain import IN_VAIN_TIMES
from shim.upstream.topic_leaders import Leader
from shim.upstream.topic_reader import Fetched, Read, patience_after
from tests.waiting import until

TOPIC: Final = "__consumer_offsets"
WAIT_SECONDS: Final = 20.0
APIS: Final[tuple[Api[Any, Any], ...]] = (
    api_versions.API,
    metadata.API,
    list_offsets.API,
    offset_for_leader_epoch.API,
    fetch.API,
)


class Partition:
    """One partition with one leader; each batch takes one offset."""

    def __init__(self) -> None:
        self.topic_id = b"\1" * 16
        self.leader = 1
        self.number = 0
        self.epochs: list[int] = []
        self.first = 0
        self.error: ErrorCode = ErrorCode.NONE
        self.refusing: ErrorCode = ErrorCode.NONE

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """As a broker tells it (Kafka 4.3, `LeaderEpochFileCache`)."""
        known = [each for each in self.epochs if each <= epoch]
        return (known[-1], len(known)) if known and epoch <= self.epochs[-1] else (-1, -1)


class Broker:
    """Of two. While it hangs, it takes connections and says nothing."""

    def __init__(self, partition: Partition, addresses: dict[int, HostPort]) -> None:
        self.partition = partition
        self.addresses = addresses
        self.hangs = False
        self.believes: Partition | None = None
        """What this broker takes for so, where that is something else."""
        self.asked: list[int] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                self.asked.append(key)
                if self.hangs:
                    await reader.read()
                    return
                api = next(each for each in APIS if each.key == key)
                _, request = api.parse_request(version, frame)
                writer.write(api.response_frame(version, correlation_id, await self._answer(key, request)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the other side has had enough
        finally:
            writer.close()

    async def _answer(self, key: int, request: Any) -> Any:
        here = self.believes or self.partition
        if key == api_versions.API.key:
            offered = tuple(api_versions.ApiVersion(each.key, *each.versions) for each in APIS)
            return api_versions.ApiVersionsResponse(ErrorCode.NONE, offered)
        if key == metadata.API.key:
            brokers = tuple(metadata.MetadataResponseBroker(node_id, *at) for node_id, at in self.addresses.items())
            epoch = here.epochs[-1] if here.epochs else 0
            partitions = (metadata.MetadataResponsePartition(0, here.number, here.leader, epoch),)
            topic = metadata.MetadataResponseTopic(here.error, TOPIC, here.topic_id, partitions=partitions)
            return metadata.MetadataResponse(brokers=brokers, topics=(topic,))
        (asked,) = request.topics[0].partitions
        if key == list_offsets.API.key:
            offset = here.first if asked.timestamp == -2 else len(here.epochs)
            found = list_offsets.ListOffsetsPartitionResponse(0, 0, offset=offset, leader_epoch=here.epochs[-1])
            return list_offsets.ListOffsetsResponse(topics=(list_offsets.ListOffsetsTopicResponse(TOPIC, (found,)),))
        if key == offset_for_leader_epoch.API.key:
            end = offset_for_leader_epoch.EpochEndOffset(0, 0, *here.end_of_epoch(asked.leader_epoch))
            result = offset_for_leader_epoch.OffsetForLeaderTopicResult(TOPIC, (end,))
            return offset_for_leader_epoch.OffsetForLeaderEpochResponse(topics=(result,))
        assert (request.topics[0].topic_id, asked.current_leader_epoch) == (here.topic_id, here.epochs[-1])
        error = here.refusing
        if not here.first <= asked.fetch_offset <= len(here.epochs):
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        data = b""
        if error is ErrorCode.NONE:
            for offset in range(asked.fetch_offset, len(here.epochs)):
                data += encode_batch(offset, [(b"k", b"v")], 0, leader_epoch=here.epochs[offset])
            if not data:
                await asyncio.sleep(request.max_wait_ms / 1000)  # as a broker does
        answered = fetch.PartitionData(0, error, len(here.epochs), records=data)
        return fetch.FetchResponse(
            responses=(fetch.FetchableTopicResponse(topic_id=here.topic_id, partitions=(answered,)),)
        )


class Two:
    """Brokers 1 and 2, and what reads at them."""

    def __init__(self) -> None:
        self.partition = Partition()
        self.addresses: dict[int, HostPort] = {}
        self.brokers = {node_id: Broker(self.partition, self.addresses) for node_id in (1, 2)}
        self.reading: AsyncIterator[Read] | None = None

    async def reader(self) -> TopicReader:
        settings = Settings(request_timeout_ms=3_600_000, socket_connection_setup_timeout_ms=3_600_000)
        cluster = Cluster(list(self.addresses.values()), settings)
        await cluster.take(self.addresses)
        return TopicReader(cluster, settings, TOPIC)

    async def next(self, position: Position | None = None) -> Read:
        """What the next fetch brings; the first one begins at ``position``."""
        if self.reading is None:
            assert position is not None
            self.reading = (await self.reader()).read(position)
        async with asyncio.timeout(WAIT_SECONDS):
            return await anext(self.reading)

    async def first_raw(self, position: Position, least_epoch: int) -> Fetched[bytes]:
        """What the first fetch of a reading of its own brings."""
        reading = (await self.reader()).read_raw(position, least_epoch)
        async with asyncio.timeout(WAIT_SECONDS), aclosing(reading):
            return await anext(reading)

    async def next_with_records(self) -> Read:
        while not (read := await self.next()).batches:
            pass
        return read


@asynccontextmanager
async def two_brokers(epochs: list[int]) -> AsyncIterator[Two]:
    two = Two()
    two.partition.epochs = epochs
    servers = []
    for node_id, broker in two.brokers.items():
        server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
        two.addresses[node_id] = HostPort("127.0.0.1", server.sockets[0].getsockname()[1])
        servers.append(server)
    try:
        yield two
    finally:
        if two.reading is not None:
            await two.reading.aclose()  # type: ignore[attr-defined]
        for server in servers:
            server.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_reader, "_PATIENCE_S", 1.0)
    monkeypatch.setattr(topic_reader, "_MAX_WAIT_MS", 10)
    monkeypatch.setattr(topic_leaders, "_NEXT_BROKER_S", 0.01)


def at(next_offset: int, leader_epoch: int, epoch_offset: int, topic: int = 1) -> Position:
    return Position(0, next_offset, leader_epoch, epoch_offset, bytes([topic]) * 16)


async def test_it_is_read_from_the_position_on_and_the_first_answer_comes_at_once() -> None:
    async with two_brokers([3, 3, 4]) as two:
        end = await (await two.reader()).end_of(0)
        assert end == at(3, 4, 3)
        read = await two.next(end)
        assert (read.start, read.batches, read.end_offset, read.is_reset) == (end, [], 3, False)
        two.partition.epochs.append(4)
        assert (await two.next_with_records()).position == at(4, 4, 3)


async def test_a_broker_that_hangs_is_not_waited_for() -> None:
    async with two_brokers([3]) as two:
        two.brokers[1].hangs = True
        two.partition.leader = 2
        async with asyncio.timeout(WAIT_SECONDS):
            assert await (await two.reader()).partition_count() == 1
        assert (await two.next(at(0, -1, 0))).position.next_offset == 1
        two.brokers[1].hangs, two.brokers[2].hangs = False, True
        two.partition.leader = 1
        two.partition.epochs.append(4)
        assert (await two.next_with_records()).position == at(2, 4, 1)


async def test_what_holds_up_several_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """And of how many it is over; not of one that is not read any more."""
    caplog.set_level("INFO", "shim.upstream.topic_reader")

    def told() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "shim.upstream.topic_reader"]

    async with two_brokers([3]) as two, AsyncExitStack() as readings:
        reader = await two.reader()
        reading = [await readings.enter_async_context(aclosing(reader.read(at(1, 3, 0)))) for _ in range(4)]
        *others, last = [asyncio.create_task(_nothing_more(each)) for each in reading]
        two.partition.refusing = ErrorCode.NOT_LEADER_OR_FOLLOWER
        async with asyncio.timeout(WAIT_SECONDS):
            await until(lambda: len(told()) == 2)
            last.cancel()
            await asyncio.wait([last])
            await reading[-1].aclose()
            two.partition.refusing = ErrorCode.NONE
            await until(lambda: len(told()) == 3)
            for each in others:
                each.cancel()
            await asyncio.wait(others)
    first, counted, over = told()
    refused = f"(nothing is served here from there on), trying again: {TOPIC}%s: NOT_LEADER_OR_FOLLOWER"
    assert first == f"the cluster's {TOPIC}-0 at offset 1 {refused % '-0'}"
    assert re.fullmatch(rf"the cluster's {TOPIC}, [234] partitions {re.escape(refused % '')}", counted)
    assert re.fullmatch(rf"the cluster's {TOPIC} is read again, all of [234] partitions", over)


async def _nothing_more(reading: AsyncIterator[Read]) -> None:
    async for read in reading:
        assert not read.batches


async def test_a_connection_is_no_more_patient_than_it_is_told() -> None:
    async with two_brokers([3]) as two:
        two.brokers[1].hangs = True
        connection = BrokerConnection(two.addresses[1], Settings(request_timeout_ms=3_600_000), 0.01)
        with pytest.raises(UpstreamError, match="timed out"):
            async with asyncio.timeout(WAIT_SECONDS):
                await connection.open()


@pytest.mark.parametrize(
    ("epochs", "position", "expected"),
    [
        ([1, 1, 2], at(3, 2, 2), None),
        ([1, 1, 1, 2], at(3, 1, 0), None),  # the next leader has taken over behind it
        ([1, 1, 3, 3, 3], at(4, 1, 0), at(2, 1, 0)),  # lost, and grown again
        ([1, 1, 3, 3, 3], at(4, 2, 3), at(2, 1, 2)),  # lost with the whole of an epoch
        ([1, 1, 1, 1, 3], at(4, 2, 2), at(2, 1, 2)),  # the former leader has something of its own
        ([1, 1, 1], at(4, 7, 2), at(2, -1, 2)),  # nobody knows of that epoch
        ([1, 1], at(2, 2, 2), None),  # of that epoch nothing was read
    ],
)
async def test_a_log_that_is_not_the_one_that_was_read(
    epochs: list[int], position: Position, expected: Position | None
) -> None:
    async with two_brokers(epochs) as two:
        read = await two.next(position)
        assert read.is_reset == (expected is not None)
        assert read.start == expected if expected is not None else read.start.next_offset == position.next_offset
        assert read.position.next_offset == len(epochs)


@pytest.mark.parametrize(
    ("epochs", "first", "position", "stands"),
    [
        ([1, 1, 2], 0, at(3, 2, 2), True),
        ([1, 1, 2, 2], 0, at(3, 2, 2), True),
        ([1, 1, 1, 2], 0, at(3, 1, 0), True),
        ([1, 1], 0, at(3, 1, 0), False),  # its end is lost
        ([1, 1, 3, 3, 3], 0, at(4, 1, 0), False),  # and has grown again
        ([1, 1, 1, 1, 3], 0, at(4, 2, 2), False),
        ([1, 1, 1], 0, at(4, 7, 2), False),
        ([1, 1, 2], 1, at(3, 2, 2), False),  # its beginning is gone
        ([1, 1, 2], 0, at(3, 2, 2, topic=2), False),
        ([1, 1, 2], 0, at(3, -1, 0), False),  # who is to know
    ],
)
async def test_whether_a_log_is_the_one_that_was_read(
    epochs: list[int], first: int, position: Position, stands: bool
) -> None:
    async with two_brokers(epochs) as two:
        two.partition.first = first
        assert await (await two.reader()).stands(position) is stands


async def test_how_far_it_goes_is_said_with_each_answer() -> None:
    async with two_brokers([3]) as two:
        assert (await two.next(at(0, -1, 0))).high_watermark == 1
        two.partition.epochs += [3, 3]
        read = await two.next_with_records()
        assert (read.end_offset, read.high_watermark) == (1, 3)


async def test_a_topic_made_anew_is_believed_once_its_leader_answers() -> None:
    async with two_brokers([0, 0, 0, 0]) as two:
        assert not (await two.next(at(4, 0, 0))).is_reset
        two.partition.topic_id = b"\2" * 16
        two.partition.refusing = ErrorCode.UNKNOWN_TOPIC_ID
        two.partition.epochs = [0]
        waiting = asyncio.create_task(two.next())
        await until(lambda: two.brokers[1].asked.count(metadata.API.key) > 3)
        assert not waiting.done()
        two.partition.refusing = ErrorCode.NONE
        read = await waiting
        assert (read.start, read.is_reset) == (Position(0, 0, topic_id=b"\2" * 16), True)
        assert read.position == at(1, 0, 0, topic=2)._replace(epoch_offset=0)


@pytest.mark.parametrize(
    ("topic", "epoch"),
    [
        (1, 3),
        (2, 3),
        (2, 9),  # epochs of two topics have no order
    ],
)
async def test_a_broker_that_is_cut_off_from_the_others_is_not_believed_alone(topic: int, epoch: int) -> None:
    """It takes itself for the leader, under an older epoch or of a former topic."""
    async with two_brokers([3, 4]) as two:
        two.partition.leader = 2
        alone = two.brokers[1].believes = Partition()
        alone.topic_id, alone.epochs = bytes([topic]) * 16, [epoch]
        two.brokers[1].asked.clear()
        waiting = asyncio.create_task(two.next(at(2, 4, 1)))
        await until(lambda: waiting.done() or two.brokers[1].asked.count(metadata.API.key) > 2)
        two.brokers[1].believes = None
        read = await waiting
        assert (read.start, read.is_reset) == (at(2, 4, 1), False)


async def test_a_newer_leader_than_the_first_one_that_is_named_is_not_believed_of_another_topic() -> None:
    """The brokers are cut off from each other, and neither of them is most."""
    async with two_brokers([3, 4]) as two:
        former = two.brokers[1].believes = Partition()
        former.epochs = [3]
        other = two.brokers[2].believes = Partition()
        other.topic_id, other.leader, other.epochs = b"\2" * 16, 2, [9]
        waiting = asyncio.create_task(two.next(at(2, 4, 1)))
        await until(lambda: waiting.done() or two.brokers[2].asked.count(metadata.API.key) > 2)
        two.brokers[1].believes = two.brokers[2].believes = None
        read = await waiting
        assert (read.start, read.is_reset) == (at(2, 4, 1), False)


async def test_who_leads_no_more_and_does_not_know_it_is_not_read_from_where_that_is_known() -> None:
    """It may have what others have deleted since."""
    async with two_brokers([3, 4]) as two:
        two.partition.leader = 2
        alone = two.brokers[1].believes = Partition()
        alone.epochs = [3]
        read = await two.first_raw(at(0, -1, 0), 4)
        assert (read.leader, read.position.next_offset) == (Leader(2, 4), 2)
        assert list_offsets.API.key not in two.brokers[1].asked
        assert await (await two.reader()).stands(at(1, 3, 0), 4)
        assert list_offsets.API.key not in two.brokers[1].asked


async def test_a_broker_that_names_a_leader_that_is_gone_is_not_asked_first_for_ever() -> None:
    """It is cut off from the controllers."""
    async with two_brokers([3, 4]) as two:
        two.partition.leader = 2
        alone = two.brokers[1].believes = Partition()
        alone.leader, alone.epochs = 3, [3]
        read = await two.next(at(0, -1, 0))
        assert (read.leader, read.position.next_offset) == (Leader(2, 4), 2)


Question = Callable[[TopicReader], Awaitable[Any]]

QUESTIONS: Final[dict[str, tuple[Question, Any]]] = {
    "partition_count": (lambda reader: reader.partition_count(), 1),
    "end_of": (lambda reader: reader.end_of(0), at(2, 4, 2)),
    "ends_of": (lambda reader: reader.ends_of(0), (0, 2)),
    "stands": (lambda reader: reader.stands(at(2, 4, 1)), True),
    "batch_at": (lambda reader: _place_of(reader.batch_at(0, 1)), (b"\1" * 16, 1)),
}


async def _place_of(asked: Awaitable[tuple[bytes, BatchHeader | None]]) -> tuple[bytes, int]:
    topic_id, header = await asked
    assert header is not None
    return topic_id, header.base_offset


@pytest.fixture
def one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next broker is asked who leads where the one before has failed, and not before."""
    monkeypatch.setattr(topic_leaders, "_NEXT_BROKER_S", WAIT_SECONDS)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.usefixtures("one_after_the_other")
async def test_what_is_asked_once_is_asked_of_another_broker_first_after_some_times_in_vain(question: str) -> None:
    """And of that one from then on, as the other is still cut off, and names a leader, or a topic, that is gone."""
    ask, expected = QUESTIONS[question]
    async with two_brokers([3, 4]) as two, asyncio.timeout(WAIT_SECONDS):
        two.partition.leader = 2
        alone = two.brokers[1].believes = Partition()
        alone.leader, alone.epochs = 3, [3, 4]
        if question == "partition_count":
            alone.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        reader = await two.reader()
        for _ in range(IN_VAIN_TIMES):
            with pytest.raises(UpstreamError, match=r"has no leader|there is no topic"):
                await ask(reader)
        two.brokers[1].asked.clear()
        for _ in range(2 * IN_VAIN_TIMES):
            assert await ask(reader) == expected
        assert two.brokers[1].asked == []


@pytest.mark.usefixtures("one_after_the_other")
async def test_who_gives_up_waiting_has_asked_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_reader, "_PATIENCE_S", WAIT_SECONDS)
    async with two_brokers([3, 4]) as two:
        two.partition.leader = 2
        two.brokers[1].hangs = True
        reader = await two.reader()
        for times in range(1, IN_VAIN_TIMES + 1):
            asking = asyncio.create_task(reader.ends_of(0))
            await until(lambda times=times: len(two.brokers[1].asked) == times)  # type: ignore[misc]
            asking.cancel()
            await asyncio.wait([asking])
            assert asking.cancelled()
        async with asyncio.timeout(WAIT_SECONDS):
            assert await reader.ends_of(0) == (0, 2)


@pytest.mark.usefixtures("one_after_the_other")
async def test_what_is_in_vain_of_one_partition_is_not_of_another() -> None:
    async with two_brokers([3, 4]) as two, asyncio.timeout(WAIT_SECONDS):
        reader = await two.reader()
        for _ in range(IN_VAIN_TIMES):
            with pytest.raises(UpstreamError, match=f"{TOPIC}-1 is not there"):
                await reader.end_of(1)
        two.brokers[2].asked.clear()
        await reader.end_of(0)
        assert two.brokers[2].asked == []


@pytest.mark.usefixtures("one_after_the_other")
async def test_a_reading_that_goes_on_asks_the_broker_first_that_had_told_who_leads() -> None:
    """Once its leader has gone: nor does it need to find that out again."""
    async with two_brokers([3, 4]) as two:
        two.partition.leader = 2
        alone = two.brokers[1].believes = Partition()
        alone.leader, alone.epochs = 3, [3]
        await two.next(at(0, -1, 0))
        two.brokers[1].asked.clear()
        two.partition.refusing = ErrorCode.NOT_LEADER_OR_FOLLOWER
        waiting = asyncio.create_task(two.next())
        await until(lambda: two.brokers[2].asked.count(fetch.API.key) > 1)
        two.partition.refusing = ErrorCode.NONE
        await waiting
        assert two.brokers[1].asked == []


async def test_once_a_newer_leader_was_named_the_former_one_is_not_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Though the newer one cannot be read from: else each would be a line of its own, again and again."""
    async with two_brokers([3, 4]) as two:
        two.partition.leader, two.partition.refusing = 2, ErrorCode.NOT_LEADER_OR_FOLLOWER
        alone = two.brokers[1].believes = Partition()
        alone.leader, alone.epochs = 3, [3]
        waiting = asyncio.create_task(two.next(at(0, -1, 0)))
        await until(lambda: two.brokers[2].asked.count(fetch.API.key) > 8)  # as often as both were asked first
        two.partition.refusing = ErrorCode.NONE
        assert (await waiting).leader == Leader(2, 4)
        why = [each.getMessage().rpartition(": ")[2] for each in caplog.records if each.levelname == "WARNING"]
        assert why == [f"{TOPIC}-0 has no leader", "NOT_LEADER_OR_FOLLOWER"]


async def test_an_epoch_that_was_named_of_another_topic_says_nothing_of_this_one() -> None:
    """It was made anew before anything was read of it, and fewer brokers than most are there to say so."""
    async with two_brokers([3, 9]) as two:
        two.brokers[2].hangs = True
        two.partition.refusing = ErrorCode.NOT_LEADER_OR_FOLLOWER
        waiting = asyncio.create_task(two.next(Position(0, 0)))
        await until(lambda: two.brokers[1].asked.count(fetch.API.key) > 1)
        anew = two.brokers[1].believes = Partition()
        anew.topic_id, anew.epochs = b"\2" * 16, [4]
        read = await waiting
        assert (read.start.topic_id, read.leader, read.position.next_offset) == (b"\2" * 16, Leader(1, 4), 1)


async def test_that_there_is_no_topic_is_the_same_line_whoever_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with two_brokers([3]) as two:
        two.partition.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        waiting = asyncio.create_task(two.next(at(0, -1, 0)))
        await until(lambda: two.brokers[2].asked.count(metadata.API.key) > 2)
        two.partition.error = ErrorCode.NONE
        await waiting
        assert [each.getMessage().rpartition(": ")[2] for each in caplog.records if each.levelname == "WARNING"] == [
            f"there is no topic {TOPIC}"
        ]


async def test_under_which_epoch_its_leader_has_told_it() -> None:
    async with two_brokers([3, 4]) as two:
        assert (await two.next(at(0, -1, 0))).leader == Leader(1, 4)
        two.partition.refusing = ErrorCode.FENCED_LEADER_EPOCH
        two.partition.epochs.append(6)
        waiting = asyncio.create_task(two.next())
        await until(lambda: two.brokers[1].asked.count(fetch.API.key) > 1)
        two.partition.refusing = ErrorCode.NONE
        assert (await waiting).leader == Leader(1, 6)


async def test_an_epoch_that_no_broker_has_heard_of_yet_is_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with two_brokers([3, 4]) as two:
        waiting = asyncio.create_task(two.first_raw(at(0, -1, 0), 5))
        await until(lambda: "nobody names a leader of epoch 5 yet, and there was one" in caplog.text)
        two.partition.epochs.append(5)
        assert (await waiting).leader == Leader(1, 5)


async def test_a_partition_that_the_new_topic_does_not_have() -> None:
    async with two_brokers([0]) as two:
        two.partition.number, two.partition.topic_id = 1, b"\2" * 16
        read = await two.next(at(4, 0, 0))
        assert (read.start.next_offset, read.start.topic_id, read.end_offset, read.is_reset) == (0, b"\2" * 16, 0, True)


@pytest.mark.parametrize(("first", "offset", "start", "is_reset"), [(2, 1, 2, False), (0, 9, 3, True)])
async def test_an_offset_that_is_not_there(first: int, offset: int, start: int, is_reset: bool) -> None:
    """Of a log without leader epochs, as far as is known."""
    async with two_brokers([1, 1, 1]) as two:
        two.partition.first = first
        read = await two.next(at(offset, -1, 0))
        assert (read.start.next_offset, read.is_reset, read.position.next_offset) == (start, is_reset, 3)


def test_it_is_patient_for_ever_and_not_without_end() -> None:
    first, still, second, *_, last = [patience_after(failures) for failures in (0, 3, 4, 40, 10**6)]
    assert first == still < second < last < 600
