"""The handler of translated versions: what goes over the connection, in which order, and what is done in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import pytest

from compat import fetch as fetch_compat
from compat import produce as produce_compat
from compat.table import TRANSLATIONS
from compat.translation import MOST_FETCH_BYTES, Context, Exchange, Translation
from protocol.api import Api
from protocol.errors import DecodeError, ErrorCode
from protocol.messages import describe_configs, fetch, list_offsets, produce
from protocol.records.batches import Compression, Record, decode_records, encode_records
from protocol.records.message_sets import decode_message_set, encode_message_set
from shim.api import fetched_bytes, translated
from tests.api import driving
from tests.api.driving import answer, call, services
from tests.waiting import until

NOW = 1_767_225_600_123
IN_THE_LOOP = "MainThread"
IN_A_THREAD = "compat"


def message_set(size: int) -> bytes:
    return encode_message_set([Record(None, bytes(size), (), NOW, 0)], 1)


def produced(message_set: bytes, acks: int = 1) -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(3, message_set)
    return produce.ProduceRequest(None, acks, 1000, (produce.TopicProduceData("t", partition_data=(partition,)),))


def appended(frame: bytes) -> bytes:
    header, request = produce.API.parse_request(3, frame, 4)
    (topic,) = request.topic_data
    responses = tuple(produce.PartitionProduceResponse(each.index, 0, 50, -1) for each in topic.partition_data)
    response = produce.ProduceResponse((produce.TopicProduceResponse(topic.name, partition_responses=responses),), 5)
    return produce.API.response_frame(3, header.correlation_id, response)


FETCH = fetch.FetchRequest(
    topics=(fetch.FetchTopic("t", partitions=(fetch.FetchPartition(3, fetch_offset=7, partition_max_bytes=1 << 20),)),)
)


def fetched(records: bytes) -> Callable[[bytes], bytes]:
    data = fetch.PartitionData(3, 0, 99, records=records)
    response = fetch.FetchResponse(responses=(fetch.FetchableTopicResponse("t", partitions=(data,)),))
    return lambda frame: fetch.API.response_frame(10, int.from_bytes(frame[8:12], "big"), response)


class Client(driving.Client):
    """Whose broker has all that is translated to."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.context.lacking = frozenset()


class Steps:
    """Where each step of an exchange was done: the names of the threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[str] = []
        advance = translated._advance

        def noted(exchange: Exchange, responses: list[Any] | None) -> Any:
            self.threads.append(threading.current_thread().name.split("_")[0])
            return advance(exchange, responses)

        monkeypatch.setattr(translated, "_advance", noted)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


# --- Produce ---------------------------------------------------------------------------------------------------------


async def test_a_request_is_asked_in_the_version_that_the_broker_has() -> None:
    client = Client(broker=appended)
    told = await answer(produce.API, 2, produced(message_set(9)), await services(), client)
    (partition,) = told.responses[0].partition_responses
    assert (partition.index, partition.error_code, partition.base_offset, told.throttle_time_ms) == (3, 0, 50, 5)
    (frame,) = client.asked
    header, request = produce.API.parse_request(3, frame, 4)
    assert (header.api_version, header.correlation_id, header.client_id) == (3, 7, "me")
    (record,) = decode_records(request.topic_data[0].partition_data[0].records or b"")
    assert record == Record(None, bytes(9), (), NOW, 0)
    assert client.told == []


@pytest.mark.parametrize("size", [9, 100_000])
async def test_who_wants_no_answer_gets_no_bytes(size: int) -> None:
    client = Client()
    frames: list[bytes] = []
    frame = produce.API.request_frame(0, 7, "me", produced(message_set(size), acks=0))
    served, made = call(produce.API, 0, frame, client, frames.append)
    pending = served.handle(await services(), made)
    assert pending is not None
    was_paused = client.paused
    await pending
    assert (was_paused, client.paused) == (True, False), "from the call on"
    assert (frames, client.asked, client.given_up) == ([b""], [], [])
    (told,) = client.told
    header, request = produce.API.parse_request(3, told, 4)
    assert (header.api_version, request.acks) == (3, 0)
    assert len(decode_records(request.topic_data[0].partition_data[0].records or b"")) == 1


@pytest.mark.parametrize("size", [9, 100_000])
async def test_bad_bytes_without_an_answer_end_the_connection(size: int) -> None:
    client = Client()
    frames: list[bytes] = []
    frame = produce.API.request_frame(0, 7, "me", produced(message_set(size)[:-1] + b"?", acks=0))
    served, made = call(produce.API, 0, frame, client, frames.append)
    pending = served.handle(await services(), made)
    assert pending is not None
    await pending
    assert client.refused == ["produce with acks=0: CRC mismatch (at byte 0)"]
    assert (frames, client.asked, client.told, client.paused) == ([b""], [], [], False)


async def test_what_is_sound_is_produced_before_the_connection_ends() -> None:
    good = produced(message_set(9), acks=0)
    bad = produced(message_set(9)[:-1] + b"?", acks=0).topic_data[0]._replace(name="u")
    client = Client()
    frames: list[bytes] = []
    both = good._replace(topic_data=(*good.topic_data, bad))
    frame = produce.API.request_frame(0, 7, "me", both)
    served, made = call(produce.API, 0, frame, client, frames.append)
    pending = served.handle(await services(), made)
    assert pending is not None
    await pending
    assert (len(client.told), len(client.refused), frames) == (1, 1, [b""])


async def test_what_is_refused_already_is_not_asked() -> None:
    told = await answer(produce.API, 2, produced(message_set(9)[:-1] + b"?"), await services(), Client())
    (partition,) = told.responses[0].partition_responses
    assert (partition.error_code, partition.base_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)


# --- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "where"),
    [(9, IN_THE_LOOP), (translated.AT_ONCE - 34, IN_THE_LOOP), (translated.AT_ONCE - 33, IN_A_THREAD)],
)
async def test_a_large_request_is_converted_in_a_thread(size: int, where: str, steps: Steps) -> None:
    assert len(message_set(0)) == 34
    await answer(produce.API, 2, produced(message_set(size)), await services(), Client(broker=appended))
    assert steps.threads == [where, IN_THE_LOOP]


@pytest.mark.parametrize(
    ("size", "codec", "where"),
    [
        (9, Compression.NONE, IN_THE_LOOP),
        (100_000, Compression.NONE, IN_THE_LOOP),
        (100_000, Compression.LZ4, IN_A_THREAD),
    ],
)
async def test_what_takes_long_of_a_response_is_converted_in_a_thread(
    size: int, codec: Compression, where: str, steps: Steps
) -> None:
    batch = encode_records([Record(b"k", bytes(size), (), NOW, 7)], compression=codec)
    told = await answer(fetch.API, 1, FETCH, await services(), Client(broker=fetched(batch)))
    (partition,) = told.responses[0].partitions
    assert decode_message_set(partition.records).records == [Record(b"k", bytes(size), (), -1, 7)]
    assert steps.threads == [IN_THE_LOOP, where]


async def test_others_go_on_and_requests_are_paused_while_a_thread_converts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further requests wait; the loop does not."""
    begun, go_on = threading.Event(), threading.Event()

    def slowly(version: int, request: Any, context: Context) -> Exchange:
        begun.set()
        assert go_on.wait(10)
        return (yield from produce_compat.exchange(version, request, context))

    slow = produce_compat.TRANSLATION._replace(exchange=slowly)
    client = Client(broker=appended)
    frames: list[bytes] = []
    frame = produce.API.request_frame(2, 7, "me", produced(message_set(100_000)))
    _, made = call(produce.API, 2, frame, client, frames.append)
    task = asyncio.ensure_future(translated.handler(slow)(await services(), made))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(100):
        await asyncio.sleep(0)
    assert (client.paused, client.asked, frames, task.done()) == (True, [], [], False)
    go_on.set()
    await task
    assert (client.paused, len(client.asked), len(frames)) == (False, 1, 1)


async def test_what_is_compressed_is_converted_in_a_thread_however_little_it_is(steps: Steps) -> None:
    record = Record(None, bytes(1 << 20), (), NOW, 7)
    old = encode_message_set([record], 1, compression=Compression.GZIP)
    assert len(old) < 2000
    await answer(produce.API, 2, produced(old), await services(), Client(broker=appended))
    batch = encode_records([record], compression=Compression.ZSTD)
    await answer(fetch.API, 2, FETCH, await services(), Client(broker=fetched(batch)))
    assert steps.threads == [IN_A_THREAD, IN_THE_LOOP, IN_THE_LOOP, IN_A_THREAD]


# --- several requests, several answers -------------------------------------------------------------------------------


class Waiting(Client):
    """The broker answers when the test says so, or goes away."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[asyncio.Future[bytes]] = []
        self.prompt: list[bool] = []

    def ask(self, frame: bytes, *, prompt: bool = True) -> Awaitable[bytes]:
        self.asked.append(frame)
        self.prompt.append(prompt)
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]


OFFSETS = list_offsets.ListOffsetsRequest(
    -1,
    topics=(
        list_offsets.ListOffsetsTopic("t", (list_offsets.ListOffsetsPartition(3, timestamp=-1, max_num_offsets=2),)),
    ),
)


def offset_of(offset: int) -> bytes:
    partition = list_offsets.ListOffsetsPartitionResponse(3, 0, offset=offset)
    response = list_offsets.ListOffsetsResponse(topics=(list_offsets.ListOffsetsTopicResponse("t", (partition,)),))
    return list_offsets.API.response_frame(1, 7, response)


async def begun(
    api: Api[Any, Any], version: int, request: Any, client: Client
) -> tuple[asyncio.Task[None], list[bytes]]:
    frames: list[bytes] = []
    served, made = call(api, version, api.request_frame(version, 7, "me", request), client, frames.append)
    pending = served.handle(await services(), made)
    assert pending is not None
    task = asyncio.get_running_loop().create_task(pending)
    await asyncio.sleep(0)
    return task, frames


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
async def test_all_is_asked_before_the_first_answer(order: tuple[int, ...]) -> None:
    client = Waiting()
    task, frames = await begun(list_offsets.API, 0, OFFSETS, client)
    asked = [list_offsets.API.parse_request(1, frame, 4)[1] for frame in client.asked]
    assert [request.topics[0].partitions[0].timestamp for request in asked] == [-1, -2, -1]
    assert client.prompt == [False] * 3, "a broker may take its time for a Fetch"
    for which in order:
        assert frames == []
        assert client.paused
        client.answers[which].set_result(offset_of((90, 10, 90)[which]))
        await asyncio.sleep(0)
    await task
    _, told = list_offsets.API.parse_response(0, frames[0], 4)
    assert told.topics[0].partitions[0].old_style_offsets == (90, 10)
    assert not client.paused


@pytest.mark.parametrize("which", [0, 1])
async def test_a_broker_that_goes_away(which: int) -> None:
    """The connection's own task ends with that: it is closed then."""
    client = Waiting()
    task, frames = await begun(list_offsets.API, 0, OFFSETS, client)
    client.answers[1 - which].set_result(offset_of(1))
    client.answers[which].set_exception(ConnectionError("the broker is gone"))
    with pytest.raises(ConnectionError, match="the broker is gone"):
        await task
    assert (frames, client.paused, client.given_up) == ([], False, [])


async def test_a_client_that_goes_away() -> None:
    client = Waiting()
    task, frames = await begun(fetch.API, 2, FETCH, client)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (frames, client.paused) == ([], False)


async def test_an_answer_that_is_none() -> None:
    client = Waiting()
    task, frames = await begun(fetch.API, 2, FETCH, client)
    client.answers[0].set_result(b"\0\0\0\5\0\0\0\7?")
    with pytest.raises(DecodeError):
        await task
    assert (frames, client.paused) == ([], False)


async def test_an_answer_that_the_old_version_cannot_tell() -> None:
    """It ends the connection, which says why."""

    def untold(_: int, request: Any, __: Context) -> Exchange:
        (response,) = yield (request,)
        return response._replace(results=(1,))

    api = describe_configs.API
    translation = Translation(api, 0, 0, 1, untold)
    response = describe_configs.DescribeConfigsResponse(0, ())
    client = Client(broker=lambda _: api.response_frame(1, 7, response))
    frames: list[bytes] = []
    frame = api.request_frame(0, 7, "me", describe_configs.DescribeConfigsRequest(()))
    _, made = call(api, 0, frame, client, frames.append)
    await translated.handler(translation)(await services(), made)
    assert (frames, client.paused) == ([], False)
    assert client.given_up[0].startswith("a response of DescribeConfigs cannot be encoded")


async def test_so_many_fetches_share_what_may_be_fetched_at_once() -> None:
    clients = [Waiting() for _ in range(100)]
    begun_ones = [await begun(fetch.API, 2, FETCH, client) for client in clients]
    limits = [fetch.API.parse_request(10, client.asked[0], 4)[1].max_bytes for client in clients]
    assert limits[:4] == [MOST_FETCH_BYTES] * 4
    assert limits[4:] == [fetched_bytes.LEAST_FETCH_BYTES] * 96, "those have all of it"
    for client, (task, _) in zip(clients, begun_ones, strict=True):
        client.answers[0].set_exception(ConnectionError("gone"))
        with pytest.raises(ConnectionError):
            await task
    client = Waiting()
    task, _ = await begun(fetch.API, 2, FETCH, client)
    assert fetch.API.parse_request(10, client.asked[0], 4)[1].max_bytes == MOST_FETCH_BYTES
    task.cancel()


def test_those_that_fetch_again_and_again_come_to_have_the_same() -> None:
    fetched = fetched_bytes.FetchedBytes()
    fetching = [ExitStack() for _ in range(16)]
    limits = [each.enter_context(fetched.share()) for each in fetching]
    for _ in range(3):
        for number, each in enumerate(fetching):
            each.close()
            limits[number] = each.enter_context(fetched.share())
            assert sum(limits) <= fetched_bytes.FETCH_BYTES + len(limits) * fetched_bytes.LEAST_FETCH_BYTES
    assert set(limits) == {fetched_bytes.FETCH_BYTES // len(limits)}


async def test_what_a_client_does_not_read_counts_until_it_does() -> None:
    clients = [Client(broker=fetched(message_set(9))) for _ in range(5)]
    for client in clients:
        client.reads.clear()
    begun_ones = [await begun(fetch.API, 2, FETCH, client) for client in clients]
    await until(lambda: all(frames for _, frames in begun_ones))
    assert all(client.paused for client in clients)
    last = Waiting()
    task, _ = await begun(fetch.API, 2, FETCH, last)
    assert fetch.API.parse_request(10, last.asked[0], 4)[1].max_bytes == fetched_bytes.LEAST_FETCH_BYTES
    task.cancel()
    for client, (each, _) in zip(clients, begun_ones, strict=True):
        client.reads.set()
        await each
        assert not client.paused
    last = Waiting()
    task, _ = await begun(fetch.API, 2, FETCH, last)
    assert fetch.API.parse_request(10, last.asked[0], 4)[1].max_bytes == MOST_FETCH_BYTES
    task.cancel()


async def test_who_leaves_has_its_thread_until_the_conversion_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next one would stand in the executor's queue, and its request with it when that client leaves."""
    goes_on = threading.Event()
    begun_ones: list[int] = []

    def advance(number: Any, _: Any) -> Any:
        begun_ones.append(number)
        assert goes_on.wait(30)

    monkeypatch.setattr(translated, "_advance", advance)
    size = translated.AT_ONCE + 1
    tasks = [asyncio.ensure_future(translated._advanced(number, None, size)) for number in range(5)]  # type: ignore[arg-type]
    try:
        await until(lambda: len(begun_ones) == translated.THREADS)
        for task in tasks[:-1]:
            task.cancel()
        await asyncio.wait(tasks[:-1])
        assert translated._threads._work_queue.qsize() == 0
        assert sorted(begun_ones) == [0, 1]
    finally:
        goes_on.set()
    await tasks[-1]
    assert sorted(begun_ones) == [0, 1, 4]


def test_every_translated_version_has_this_handler() -> None:
    assert fetch_compat.TRANSLATION in TRANSLATIONS.values()
    with pytest.raises(AssertionError, match="a translated request fails"):
        translated.failure(None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # type: ignore[arg-type]
