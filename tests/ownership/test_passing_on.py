"""Groups that are passed through to the cluster, at shims that share a log: who was held up passes nothing on any more
once another one has the group, and who has got a group waits, before it takes the group over, for what another one may
have passed on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from protocol.errors import ErrorCode
from protocol.messages import find_coordinator, offset_commit, offset_fetch
from shim.config import HostPort
from shim.demo.parts import Cluster, free_port
from shim.upstream.kept_connection import KeptConnection
from tests.admin.live.running import offset_shim
from tests.admin.running import Result
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.ownership.registers import PATIENCE_S, connection
from tests.ownership.test_shims_together import shims_of, started
from tests.shim_process import Shim
from tests.waiting import until_told

_AGAIN: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
"""A cluster's first group is asked for."""
_WAITS_S: Final = 12
_SHORTER: Final = f"""
from shim.migration.hands import placements
placements.ARRIVES_WITHIN_SECONDS = {_WAITS_S}
"""


def commit_past_the_shims(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    until = time.monotonic() + PATIENCE_S
    try:
        while True:
            try:
                consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
                return
            except KafkaException as error:
                if error.args[0].code() not in _AGAIN or time.monotonic() > until:
                    raise
                time.sleep(0.1)  # librdkafka does not ask again
    finally:
        consumer.close()


def committed_in_the_cluster(cluster: Cluster, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
        return int(found.offset)
    finally:
        consumer.close()


async def coordinator(shim: Shim, group: str) -> HostPort:
    """Where this one leads clients of the group."""
    with closing(connection(HostPort("127.0.0.1", shim.port))) as asked:

        async def ask() -> HostPort | None:
            answer = await asked.ask(find_coordinator.API, find_coordinator.FindCoordinatorRequest(group), at_most=3)
            return None if answer.error_code else HostPort(answer.host, answer.port)

        return await until_told(ask, PATIENCE_S)


async def commit(at: KeptConnection, group: str, topic: str, offset: int) -> ErrorCode:
    partitions = (offset_commit.OffsetCommitRequestPartition(0, offset),)
    topics = (offset_commit.OffsetCommitRequestTopic(topic, partitions=partitions),)
    request = offset_commit.OffsetCommitRequest(group, topics=topics)
    answer = await at.ask(offset_commit.API, request, at_most=8, once=True)
    return ErrorCode.for_code(answer.topics[0].partitions[0].error_code)


async def commit_at_another(than: HostPort, shim: Shim, group: str, topic: str, offset: int) -> None:
    """As soon as this shim leads there, which is when the session of the former has timed out."""

    async def is_committed() -> bool:
        address = await coordinator(shim, group)
        if address == than:
            return False
        with closing(connection(address)) as at:
            return await commit(at, group, topic, offset) is ErrorCode.NONE

    await until_told(is_committed, PATIENCE_S)


async def fetched(at: KeptConnection, group: str, topic: str) -> int | ErrorCode:
    request = offset_fetch.OffsetFetchRequest(group, (offset_fetch.OffsetFetchRequestTopic(topic, (0,)),))
    answer = await at.ask(offset_fetch.API, request, at_most=7, once=True)
    error = ErrorCode.for_code(answer.error_code)
    return error or int(answer.topics[0].partitions[0].committed_offset)


async def told(shim: Shim, group: str, topic: str) -> int:
    """By the group's coordinator, as this shim leads there."""

    async def ask() -> int | None:
        with closing(connection(await coordinator(shim, group))) as at:
            found = await fetched(at, group, topic)
        return None if isinstance(found, ErrorCode) else found

    return await until_told(ask, PATIENCE_S)


async def migrate_start(admin: str, group: str) -> Result:
    return await asyncio.to_thread(offset_shim, "migrate", "start", group, "--json", "--admin", admin)


async def taken_over_by_none(admins: Iterable[str], group: str) -> bool:
    """Which of the shims has the group is not said."""
    return all([(await migrate_start(admin, group)).status for admin in admins])


def ports_of(shim: Shim) -> Collection[int]:
    return [shim.broker_port(node_id) for node_id in (1, 2, 3)]


async def test_who_was_held_up_passes_nothing_on(
    cluster: Cluster, make_topic: TopicFactory, group: str, tmp_path: Path
) -> None:
    topic = make_topic()
    shims = shims_of(cluster, topic, tmp_path)[:2]
    admins = {}
    for shim in shims:
        admins[shim] = f"127.0.0.1:{free_port()}"
        shim.args = ("--admin", admins[shim])
        shim.late_patch += _SHORTER
        shim.passes_groups = True
    await asyncio.to_thread(commit_past_the_shims, cluster, group, topic, 10)
    try:
        for shim in shims:
            await started(shim)
        address = await coordinator(shims[0], group)
        held_up, other = shims if address.port in ports_of(shims[0]) else shims[::-1]
        with closing(connection(address)) as at, closing(connection(address)) as reading:
            assert await commit(at, group, topic, 11) is ErrorCode.NONE
            assert await fetched(reading, group, topic) == 11
            assert await asyncio.to_thread(committed_in_the_cluster, cluster, group, topic) == 11

            with hung(held_up.pid):
                late = asyncio.ensure_future(commit(at, group, topic, 12))
                late_reading = asyncio.ensure_future(fetched(reading, group, topic))
                await commit_at_another(address, other, group, topic, 13)
                refused = await migrate_start(admins[other], group)
                assert refused.status != 0
                assert "may be done there yet: try again in" in refused.stdout
            assert await late is ErrorCode.NOT_COORDINATOR
            assert await late_reading is ErrorCode.NOT_COORDINATOR
        assert await asyncio.to_thread(committed_in_the_cluster, cluster, group, topic) == 13

        async def is_taken_over() -> bool:
            return not await taken_over_by_none(admins.values(), group)

        await until_told(is_taken_over, PATIENCE_S, again_seconds=1.0)  # it is a matter of time
        assert await told(other, group, topic) == 13
    finally:
        for shim in shims:
            if shim.running:
                shim.kill()
