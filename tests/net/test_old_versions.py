"""Requests of versions that brokers dropped, over a session and a link: what the handlers' own tests do not have."""

from __future__ import annotations

import pytest

from protocol.messages import fetch, produce
from protocol.records.batches import Record, encode_records
from protocol.records.message_sets import decode_message_set, encode_message_set
from shim.config import Settings
from shim.net.overdue import LOOKS, Overdue
from shim.net.responses import Expected
from tests.net.bench import Bench, bench
from tests.waiting import until


def produce_frame(correlation_id: int) -> bytes:
    data = encode_message_set([Record(b"k", b"%d" % correlation_id, (), -1, 0)], 0)
    topic = produce.TopicProduceData("t", partition_data=(produce.PartitionProduceData(0, data),))
    return produce.API.request_frame(0, correlation_id, "old", produce.ProduceRequest(None, 0, 1000, (topic,)))


def has_all(shim: Bench) -> None:
    """The broker need not be asked what it has."""
    shim.made[-1].context.lacking = frozenset()


async def test_what_has_no_response_opens_the_link() -> None:
    async with bench() as shim:
        client = await shim.client()
        await until(lambda: bool(shim.made))
        has_all(shim)
        client.writer.write(produce_frame(1))
        (request,) = await shim.broker.requests(1)
        assert (request[4:6], request[6:8]) == (b"\0\0", b"\0\3")


async def test_a_fetch_may_take_longer_than_what_the_shim_waits_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str | None] = []
    look = Overdue.look

    def looked(self: Overdue, now: float, due: Expected | None, *, heard: bool) -> str | None:
        looks.append(look(self, now, due, heard=heard))
        return looks[-1]

    monkeypatch.setattr(Overdue, "look", looked)
    async with bench() as shim:
        shim.settings = Settings(request_timeout_ms=80)
        shim.broker.answers = False
        client = await shim.client()
        await until(lambda: bool(shim.made))
        has_all(shim)
        partition = fetch.FetchPartition(0, partition_max_bytes=1000)
        asked = fetch.FetchRequest(max_wait_ms=500, topics=(fetch.FetchTopic("t", partitions=(partition,)),))
        client.writer.write(fetch.API.request_frame(2, 7, "old", asked))
        (request,) = await shim.broker.requests(1)
        await until(lambda: len(looks) > 3 * LOOKS)  # so many are in the limit
        assert not any(looks)
        records = encode_records([Record(b"k", b"v", (), 5, 0)])
        found = fetch.PartitionData(0, 0, 1, records=records)
        answer = fetch.FetchResponse(responses=(fetch.FetchableTopicResponse("t", partitions=(found,)),))
        correlation_id = int.from_bytes(request[8:12], "big", signed=True)
        shim.broker.connections[-1].transport.write(fetch.API.response_frame(10, correlation_id, answer))
        size = int.from_bytes(await client.reader.readexactly(4), "big")
        told, response = fetch.API.parse_response(2, await client.reader.readexactly(size))
        assert told == 7
        given = decode_message_set(response.responses[0].partitions[0].records or b"")
        assert [record.value for record in given.records] == [b"v"]
