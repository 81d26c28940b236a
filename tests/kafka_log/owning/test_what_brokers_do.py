"""What brokers do with idempotent batches: docs/decisions/0018 relies on it, and rejects what would rely on more."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from struct import Struct

from protocol.errors import ErrorCode
from protocol.records.batches import Record
from shim.demo.parts import Broker
from shim.demo.parts.tools import dump_offsets_log, java_tool
from tests.conftest import TopicFactory
from tests.java_tools import CONSOLE_CONSUMER
from tests.kafka_log.owning.owner import Owner, commits

NONE, FENCED = ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH
LARGEST_EPOCH = 32_767
KEY_TYPE = Struct(">h")
OF_OUR_OWN = 20_001
HANDOVERS = 20


async def test_the_first_batch_of_an_epoch_fences_those_before_it(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic()
    async with Owner(broker, topic, topic) as former, Owner(broker, topic, topic) as next_one:
        await former.begin()
        assert await former.write(commits(1)) == (NONE, 0)
        await next_one.begin()
        assert (next_one.producer_id, next_one.epoch) == (former.producer_id, former.epoch + 1)
        assert await former.write(commits(2)) == (NONE, 3), "InitProducerId alone fences nobody here"
        assert await next_one.write(commits(3)) == (NONE, 6)
        assert (await former.write(commits(4)))[0] is FENCED
        assert await next_one.write(commits(5)) == (NONE, 9)


async def test_what_was_acknowledged_lies_below_the_fence(broker: Broker, make_topic: TopicFactory) -> None:
    """The former owner writes as fast as it can all the while."""
    topic = make_topic()

    async def write_until_fenced(owner: Owner, wrote: asyncio.Event) -> list[int]:
        acknowledged: list[int] = []
        while True:
            error, offset = await owner.write(commits(len(acknowledged)))
            if error is not NONE:
                assert error is FENCED
                return acknowledged
            acknowledged.append(offset)
            wrote.set()

    async with AsyncExitStack() as open_ones:
        former = await open_ones.enter_async_context(Owner(broker, topic, topic))
        await former.begin()
        fence = 0
        for _ in range(HANDOVERS):
            wrote = asyncio.Event()
            writing = asyncio.create_task(write_until_fenced(former, wrote))
            await wrote.wait()
            next_one = await open_ones.enter_async_context(Owner(broker, topic, topic))
            await next_one.begin()
            error, next_fence = await next_one.write(commits(0, count=1))
            assert error is NONE
            offsets = await writing
            assert fence <= offsets[0]
            assert offsets[-1] < next_fence
            former, fence = next_one, next_fence


async def test_a_fence_outlives_the_brokers_death(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic()
    async with Owner(broker, topic, topic) as former, Owner(broker, topic, topic) as next_one:
        await former.begin()
        assert (await former.write(commits(1)))[0] is NONE
        await next_one.begin()
        assert (await next_one.write(commits(2)))[0] is NONE
        broker.kill()
        broker.start()
        await former.reconnect()
        await next_one.reconnect()
        assert (await former.write(commits(3)))[0] is FENCED
        assert (await next_one.write(commits(4)))[0] is NONE


async def test_a_batch_that_is_sent_again_is_written_once(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic()
    async with Owner(broker, topic, topic) as owner:
        await owner.begin()
        batch = owner.batch(commits(1))
        assert [await owner.send([batch]) for _ in range(3)] == [[(NONE, 0)]] * 3
        assert await owner.write(commits(2)) == (NONE, 3)


async def test_behind_a_fence_nobody_is_told_of_what_was_written_before(
    broker: Broker, make_topic: TopicFactory
) -> None:
    """So what was sent again and is refused may be in the log."""
    topic = make_topic()
    async with Owner(broker, topic, topic) as former, Owner(broker, topic, topic) as next_one:
        await former.begin()
        batch = former.batch(commits(1))
        assert await former.send([batch]) == [(NONE, 0)]
        await next_one.begin()
        assert await next_one.write(commits(2)) == (NONE, 3)
        assert (await former.send([batch]))[0][0] is FENCED


async def test_a_lost_batch_is_noticed_by_the_next(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic()
    async with Owner(broker, topic, topic) as owner:
        await owner.begin()
        assert (await owner.write(commits(1)))[0] is NONE
        owner.batch(commits(2))
        assert (await owner.write(commits(3)))[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_one_request_has_batches_of_several_producers(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(2)
    async with Owner(broker, f"{topic}-0", topic) as one, Owner(broker, f"{topic}-1", topic) as other:
        await one.begin()
        await other.begin()
        assert one.producer_id != other.producer_id
        for offset in (0, 3):
            assert await one.send([one.batch(commits(1)), other.batch(commits(1))]) == [(NONE, offset)] * 2


async def test_a_former_producer_id_is_fenced_by_its_largest_epoch(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic()
    async with Owner(broker, f"{topic}-a", topic) as former, Owner(broker, f"{topic}-b", topic) as next_one:
        await former.begin()
        assert (await former.write(commits(1)))[0] is NONE
        await next_one.begin()
        assert next_one.producer_id != former.producer_id
        assert (await next_one.write(commits(2)))[0] is NONE
        assert (await former.write(commits(3)))[0] is NONE, "another id fences nobody"
        async with Owner(broker, topic, topic) as fencing:
            fencing.producer_id, fencing.epoch = former.producer_id, LARGEST_EPOCH
            assert (await fencing.write(commits(4)))[0] is NONE
        assert (await former.write(commits(5)))[0] is FENCED


async def test_of_two_with_the_same_epoch_the_second_hears_of_nothing(broker: Broker, make_topic: TopicFactory) -> None:
    """So an epoch has to be given by somebody, and cannot be the last one in the log and one more."""
    topic = make_topic()
    async with Owner(broker, topic, topic) as one, Owner(broker, topic, topic) as other:
        await one.begin()
        other.producer_id, other.epoch = one.producer_id, one.epoch
        assert await one.write(commits(1)) == (NONE, 0)
        assert await other.write(commits(2)) == (NONE, 0), "for the broker it is the first one's, sent again"
        assert await one.write(commits(3)) == (NONE, 3), "the other one's was not written"


async def test_kafkas_tools_pass_over_key_types_of_our_own(broker: Broker, make_topic: TopicFactory) -> None:
    topic = make_topic(config={"cleanup.policy": "compact"})
    first, second = commits(1, group="before", count=1), commits(2, group="behind", count=1)
    now = first[0].timestamp
    own = [
        Record(KEY_TYPE.pack(OF_OUR_OWN) + b"key", b"\0\0value", (("offset-shim.position", b"there"),), now, 1),
        Record(KEY_TYPE.pack(OF_OUR_OWN + 1) + b"key", None, (), now, 2),
    ]
    async with Owner(broker, topic, topic) as owner:
        await owner.begin()
        assert (await owner.write([*first, *own, second[0]._replace(offset=3)]))[0] is NONE
    formatter = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
    arguments = ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic, "--from-beginning"]
    shown = java_tool(CONSOLE_CONSUMER, *arguments, "--formatter", formatter, "--max-messages", "4").stdout
    lines = shown.replace("}{", "}\n{").splitlines()
    told = [(each["key"]["data"]["group"], each["value"]["data"]["offset"]) for each in map(json.loads, lines)]
    assert told == [("before", 1), ("behind", 2)]
    dumped = dump_offsets_log(*broker.segments(topic))
    assert f"Unknown record type {OF_OUR_OWN} at offset 1, skipping" in dumped
    assert dumped.count('"group":"be') == 2
