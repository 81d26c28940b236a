"""What a transaction has pending, and what is deleted or committed here since: in the cluster, too, that is what
counts, however the transaction ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, Producer
from confluent_kafka import TopicPartition as Offset

from protocol.errors import ErrorCode
from protocol.messages import offset_delete
from protocol.messages.offset_commit import OffsetCommitRequestPartition
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.partition import OFFSETS_TOPIC
from shim.demo.parts import Broker
from shim.following import TransactionFollower
from shim.migration.mirror.guard import Guard
from shim.offsets.store import StoreUnavailable
from shim.runtime import snapshots
from shim.upstream import TopicReader
from tests.conftest import TopicFactory
from tests.migration.mirrored import SETTINGS, Mirrored, mirrored, transaction
from tests.migration.test_changing_hands import Administered, administered
from tests.migration.test_first_contact import TIMEOUT_S, commit
from tests.migration.test_transactions import begun, offsets_at
from tests.waiting import until, wait_until
from tests.wire import WireClient

COMMITTED, PENDING, BESIDE = 4, 9, 2

_Done = Callable[[Mirrored, str, str], Awaitable[None]]


async def _delete(at: Mirrored, group: str, topic: str) -> None:
    await at.delete_offset(group, topic, 0)


async def _delete_group(at: Mirrored, group: str, _: str) -> None:
    await at.delete(group)


async def _commit_the_same(at: Mirrored, group: str, topic: str) -> None:
    await at.commit_offset(group, topic, COMMITTED)


def _add_beside(bootstrap: str, producer: Producer, group: str, topic: str) -> None:
    """An offset of partition 1, which comes into force together with that of partition 0, where that does."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([Offset(topic, 1, BESIDE)], metadata, TIMEOUT_S)
    finally:
        consumer.close()


async def _ends(at: Mirrored, broker: Broker, producer: Producer, group: str, topic: str) -> None:
    """The transaction is committed, and in force in the cluster."""
    await asyncio.to_thread(_add_beside, broker.bootstrap_servers, producer, group, topic)
    await asyncio.to_thread(producer.commit_transaction, TIMEOUT_S)
    await at.comes_to(group, topic, BESIDE, 1)


CASES: Final = [
    pytest.param(None, _delete, None, id="deleted, pending alone"),
    pytest.param(None, _delete_group, None, id="its group deleted, pending alone"),
    pytest.param(COMMITTED, _delete, None, id="deleted"),
    pytest.param(COMMITTED, _commit_the_same, COMMITTED, id="the same committed once more"),
]


@pytest.mark.parametrize(("before", "done", "left"), CASES)
async def test_it_does_not_come_into_force_in_the_cluster_either(
    before: int | None,
    done: _Done,
    left: int | None,
    broker: Broker,
    tmp_path: Path,
    make_topic: TopicFactory,
    group: str,
) -> None:
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit(group, topic, OffsetCommitRequestPartition(1, 1))
        if before is not None:
            await at.commit_offset(group, topic, before)
        await at.reached(group)
        async with transaction(at, broker, group, topic, 0, PENDING) as (_, producer):
            await done(at, group, topic)
            await at.reached(group)
            await _ends(at, broker, producer, group, topic)
            assert await at.offset_in_cluster(group, topic) == left
        assert at.coordinator(group).overruled(group) == {}, "that is done"


async def test_what_is_beyond_the_bound_is_told(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit(group, topic, OffsetCommitRequestPartition(1, 1))
        await at.reached(group)
        at.coordinator(group)._state.offsets.overruled._most = 0
        async with transaction(at, broker, group, topic, 0, PENDING) as (_, producer):
            await at.delete_offset(group, topic, 0)
            await at.reached(group)
            await asyncio.to_thread(producer.abort_transaction, TIMEOUT_S)
    (line,) = [each for each in caplog.messages if "has overruled" in each]
    assert f"1 offset, of group {group}" in line


async def test_where_it_has_come_into_force_there_before_that_was_known_nobody_has_committed_past_the_shim(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        guard = Guard(at.runtime, at.cluster_groups, at.mirror)
        await at.serve(group)
        await at.commit_offset(group, topic, COMMITTED)
        await at.reached(group)
        async with transaction(at, broker, group, topic, 0, PENDING) as (_, producer):
            at.groups.is_cut_off = True
            await at.delete_offset(group, topic, 0)
            with pytest.raises(StoreUnavailable):
                await at.mirror.fed(group)
            await _ends(at, broker, producer, group, topic)
            await until(lambda: not at.coordinator(group).has_pending(group))
            at.groups.is_cut_off = False
            await guard.look()
            at.tell()
            await at.reached(group)
            await guard.look()
            assert (await at.offset_in_cluster(group, topic), dict(guard.alarms)) == (None, {})
    assert not [each for each in caplog.messages if "are written over" in each]


async def test_before_the_mirror_hears_of_the_deletion_the_guard_says_nothing(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        guard = Guard(at.runtime, at.cluster_groups, at.mirror)
        await at.serve(group)
        await at.commit_offset(group, topic, COMMITTED)
        await at.reached(group)
        with monkeypatch.context() as patched:
            patched.setattr(at, "tell", lambda: None)
            async with transaction(at, broker, group, topic, 0, PENDING) as (_, producer):
                await at.delete_offset(group, topic, 0)
                await _ends(at, broker, producer, group, topic)
                await until(lambda: not at.coordinator(group).has_pending(group))
            assert await at.offset_in_cluster(group, topic) == PENDING
            await guard.look()
            assert dict(guard.alarms) == {}
        at.tell()
        await at.reached(group)
        assert await at.offset_in_cluster(group, topic) is None


async def test_a_shim_that_ends_before_the_cluster_was_told_tells_it_when_it_is_back(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit(group, topic, OffsetCommitRequestPartition(1, 1))
        await at.reached(group)
        async with transaction(at, broker, group, topic, 0, PENDING) as (_, producer):
            at.groups.is_cut_off = True
            await at.delete_offset(group, topic, 0)
    async with mirrored(broker, tmp_path) as at:
        following = TransactionFollower(at.runtime, TopicReader(at.cluster, SETTINGS, OFFSETS_TOPIC))
        await until(lambda: following.ready(group) is ErrorCode.NONE)
        await until(lambda: not at.coordinator(group).overruled(group))
        await _ends(at, broker, producer, group, topic)
        assert await at.offset_in_cluster(group, topic) is None
        await following.stop()


@pytest.mark.parametrize(("before", "done", "left"), [CASES[0], CASES[1], CASES[3]])
async def test_it_is_in_a_snapshot_that_was_taken_before_the_cluster_was_told(
    before: int | None,
    done: _Done,
    left: int | None,
    broker: Broker,
    tmp_path: Path,
    make_topic: TopicFactory,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "LEAST_RECORDS_AT_STOP", 0)
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit(group, topic, OffsetCommitRequestPartition(1, 1))
        if before is not None:
            await at.commit_offset(group, topic, before)
        await at.reached(group)
        async with transaction(at, broker, group, topic, 0, PENDING) as (_, producer):
            at.groups.is_cut_off = True
            await done(at, group, topic)
    async with mirrored(broker, tmp_path) as at:
        following = TransactionFollower(at.runtime, TopicReader(at.cluster, SETTINGS, OFFSETS_TOPIC))
        await until(lambda: following.ready(group) is ErrorCode.NONE)
        await until(lambda: not at.coordinator(group).overruled(group))
        await _ends(at, broker, producer, group, topic)
        assert await at.offset_in_cluster(group, topic) == left
        await following.stop()


@pytest.mark.parametrize("ends", [True, False])
async def test_to_tell_the_cluster_twice_changes_nothing_in_the_end(
    ends: bool, broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """As a start does that knows no better. What is pending by then is overruled there, too, by the second time; what
    it comes to here is brought there."""
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, COMMITTED)
        await at.reached(group)
        async with transaction(at, broker, group, topic, 0, PENDING) as (_, first):
            await at.commit_offset(group, topic, COMMITTED)
            told = at.coordinator(group).overruled(group)
            await at.reached(group)
            later = await asyncio.to_thread(
                begun, broker.bootstrap_servers, group, topic, 0, PENDING + 1, f"later-{group}"
            )
            pending = (topic, 0, PENDING + 1)
            await until(lambda: pending in at.coordinator(group).pending_offsets(group))
            for (name, number), each in told.items():
                at.coordinator(group)._state.offsets.overruled.note(group, (name, number), each.offsets)
            await at.mirror.fed(group)
            await asyncio.to_thread(first.commit_transaction if ends else first.abort_transaction, TIMEOUT_S)
            await asyncio.to_thread(later.commit_transaction if ends else later.abort_transaction, TIMEOUT_S)
            await until(lambda: not at.coordinator(group).has_pending(group))
            at.tell()
            await at.reached(group)
            assert await at.offset_in_cluster(group, topic) == (PENDING + 1 if ends else COMMITTED)


def _delete_offset(at: Administered, group: str, topic: str) -> None:
    with WireClient(at.shim.port) as client:
        named = OffsetDeleteRequestTopic(topic, (OffsetDeleteRequestPartition(0),))
        answer = client.ask(offset_delete.API, 0, OffsetDeleteRequest(group, (named,)))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("mirrors", ["true", "false"])
def test_a_group_that_is_given_back_does_not_have_it(
    mirrors: str, broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(2)
    with administered(broker, tmp_path / "data", **{"offsets.mirror.upstream": mirrors}) as at:
        producer = begun(at.shim.bootstrap, group, topic, 0, PENDING)
        _delete_offset(at, group, topic)
        assert at.migrate("rollback", group).status == 0
        _add_beside(at.shim.bootstrap, producer, group, topic)
        producer.commit_transaction(TIMEOUT_S)
        wait_until(lambda: offsets_at(broker.bootstrap_servers, group, topic) == [OFFSET_INVALID, BESIDE])


@pytest.mark.parametrize("offsets_log", ["local", "kafka"])
def test_who_has_the_partition_after_one_that_was_killed_tells_the_cluster(
    offsets_log: str, broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(2)
    settings: dict[str, str | int] = {"offsets.log": offsets_log}
    if offsets_log == "kafka":
        settings |= {"offsets.log.topics.prefix": f"__{topic}", "offsets.topic.replication.factor": 1}
    with ExitStack() as in_the_end:
        with administered(broker, tmp_path / "data", **{**settings, "offsets.mirror.upstream": "false"}) as at:
            commit(at.shim.bootstrap, group, topic, COMMITTED)  # it has read the cluster's log then
            begun(at.shim.bootstrap, group, topic, 0, PENDING)
            in_the_end.callback(_abort_what_is_open, broker.bootstrap_servers, group)
            _delete_offset(at, group, topic)
            at.shim.kill()
            at.shim.restart()  # it ends in its log what is left open of the transaction
        with administered(broker, tmp_path / "data", **settings):
            # Brokers say so once nothing of it is pending there; before that they are asked again.
            assert offsets_at(broker.bootstrap_servers, group, topic) == [OFFSET_INVALID, OFFSET_INVALID]


def _abort_what_is_open(bootstrap: str, group: str) -> None:
    """Groups of other tests may be in the same partition of the cluster's log, and would wait for it."""
    Producer({"bootstrap.servers": bootstrap, "transactional.id": f"of-{group}"}).init_transactions(TIMEOUT_S)
