"""A topic is deleted and made anew at a real broker: what the mirror writes of its offsets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock

import pytest

from protocol.messages import offset_commit
from protocol.wire import ZERO_UUID
from shim.demo.parts import Broker
from shim.migration.feeding import Feeding
from shim.migration.mirror import last_word
from shim.offsets.store import StoreUnavailable
from shim.runtime import OffsetsOfTopics
from tests.conftest import TopicFactory
from tests.migration.mirrored import SETTINGS, Mirrored, mirrored
from tests.runtime.test_hands import WAIT_SECONDS
from tests.serve.test_topics import delete
from tests.waiting import until, until_told

OLD, NEW, OTHER = 77, 3, 6
ANOTHER_ID: Final = b"another topic..."
MAY_BE: Final = "the topic may be another one by now:"


@asynccontextmanager
async def written(at: Mirrored, group: str, *topics: str) -> AsyncIterator[None]:
    """The cluster has an offset of each; and as :func:`known`."""
    await at.serve(group)
    for topic in topics:
        await at.commit_offset(group, topic, OLD)
    await at.reached(group)
    async with known(at, *topics):
        yield
    at.tell()


@asynccontextmanager
async def known(at: Mirrored, *topics: str) -> AsyncIterator[None]:
    """The shim knows which topics they are; at the end it looks by itself."""
    await at.topics.partitions_of(topics)
    assert await at.topics.uncertain(topics) == []
    yield
    looking = asyncio.create_task(at.topics.run(OffsetsOfTopics(at.runtime)))
    try:
        await until(lambda: not at.topics.any_in_doubt)
    finally:
        looking.cancel()
        await asyncio.wait([looking])


def make_anew(broker: Broker, make_topic: TopicFactory, topic: str) -> None:
    delete(broker, topic)
    make_topic(1, name=topic)


async def gone_there(at: Mirrored, group: str, topic: str) -> None:
    async def is_so() -> bool:
        return await at.offset_in_cluster(group, topic) is None

    await until_told(is_so)


async def test_while_it_may_be_another_one_nothing_of_it(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """As long as the brokers do not agree, that is; other topics are kept up."""
    topic, kept = make_topic(), make_topic()
    async with mirrored(broker, tmp_path) as at:
        async with written(at, group, topic, kept):
            await asyncio.to_thread(make_anew, broker, make_topic, topic)
            await gone_there(at, group, topic)
            await at.topics.look_at({topic: ANOTHER_ID})
            assert at.topics.blocked([topic]) == [topic]
            at.mirror.doubt(group)  # as the guard does, which sees that it is gone
            await at.commit_offset(group, kept, OTHER)
            await at.comes_to(group, kept, OTHER)
            await until(lambda: at.mirror.why(group) == f"{MAY_BE} {topic}")
            assert at.mirror.lag_seconds(group) is not None
            assert await at.offset_in_cluster(group, topic) is None
        await at.reached(group)
        await at.commit_offset(group, topic, NEW)
        await at.comes_to(group, topic, NEW)


async def test_nor_where_that_shows_when_it_is_about_to_be_sent(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while it is found out who coordinates the group."""
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        async with written(at, group, topic):
            newest, asked = at.brokers.newest, asyncio.Event()

            async def asked_of(node_id: int, api: Any, **versions: Any) -> int:
                found = await newest(node_id, api, **versions)
                if api is offset_commit.API and not asked.is_set():
                    asked.set()
                    at.topics.suspect({topic: ZERO_UUID})
                return found

            monkeypatch.setattr(at.brokers, "newest", asked_of)
            await at.commit_offset(group, topic, OTHER)
            await until(lambda: at.mirror.why(group) == f"{MAY_BE} {topic}")
            assert await at.offset_in_cluster(group, topic) == OLD
        await at.comes_to(group, topic, OTHER)


async def test_nor_where_that_shows_while_the_connection_is_waited_for(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind others' questions, or while it is opened anew."""
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        async with written(at, group, topic):
            (node_id,) = at.brokers.addresses
            kept = at.brokers._connection(node_id)
            ask, asked = kept.ask, asyncio.Event()

            async def waited_for(api: Any, *request: Any, **more: Any) -> Any:
                if api is offset_commit.API and not asked.is_set():
                    asked.set()
                    at.topics.suspect({topic: ZERO_UUID})
                return await ask(api, *request, **more)

            monkeypatch.setattr(kept, "ask", waited_for)
            await at.commit_offset(group, topic, OTHER)
            await until(lambda: at.mirror.why(group) == f"{MAY_BE} {topic}")
            assert asked.is_set()
            assert await at.offset_in_cluster(group, topic) == OLD
        await at.comes_to(group, topic, OTHER)


async def test_who_waits_for_the_cluster_is_told_that_it_is_behind(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """As clients at upstream+dual, also with the mirror off: it is brought when that is over, though nobody commits."""
    topic, kept = make_topic(), make_topic()
    async with mirrored(broker, tmp_path, replace(SETTINGS, offsets_mirror_upstream=False)) as at:
        at.mirror.watch(Mock(side_effect=AssertionError("nobody else has committed")))
        await at.serve(group)
        for each in (topic, kept):
            await at.commit_offset(group, each, OLD)
        await at.brought(group)
        async with known(at, topic, kept):
            at.topics.suspect({topic: ZERO_UUID})  # it is the same topic
            for each in (topic, kept):
                await at.commit_offset(group, each, OTHER)
            with pytest.raises(StoreUnavailable, match=f"^{MAY_BE} {topic}$"):
                await at.mirror.fed(group)
            assert await at.offset_in_cluster(group, kept) == OTHER
            assert await at.offset_in_cluster(group, topic) == OLD
            assert at.mirror.lag_seconds(group) is not None
        await at.comes_to(group, topic, OTHER)
        await at.reached(group)


async def test_the_last_word_names_it(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at, written(at, group, topic):
        at.topics.suspect({topic: ZERO_UUID})
        await at.commit_offset(group, topic, OTHER)
        await Feeding(at.runtime, at.mirror, None).drain(WAIT_SECONDS)
        (said,) = (each.getMessage() for each in caplog.records if each.name == last_word.__name__)
        assert said.endswith(f"may not be those of the log: 1 of 1 group: {group} ({MAY_BE} {topic})")


async def test_before_it_is_noticed_the_old_ones_offset_which_goes_when_it_is(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        async with written(at, group, topic):
            await asyncio.to_thread(make_anew, broker, make_topic, topic)
            await gone_there(at, group, topic)
            at.mirror.doubt(group)
            await at.comes_to(group, topic, OLD)
            await at.topics.look_at({topic: ANOTHER_ID})
        await gone_there(at, group, topic)
