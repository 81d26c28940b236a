"""Clients of a group that the shim serves, at a real broker directly: somebody is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from protocol.errors import ErrorCode
from protocol.group_kinds import OTHER_KINDS, Kind, kind_of
from protocol.messages.offset_commit import OffsetCommitRequestPartition
from protocol.offsets_log import GroupMetadataValue, MemberMetadata
from protocol.own.state_log import Hands
from protocol.partition import OFFSETS_TOPIC
from protocol.topic_partition import TopicPartition
from shim.demo.parts import Broker
from shim.following import TransactionFollower
from shim.migration.mirror.guard import Guard
from shim.offsets.cluster.describing import Listed, LiveGroup
from shim.offsets.cluster.groups import ClusterGroups, Committed
from shim.upstream import TopicReader
from tests.conftest import TopicFactory
from tests.migration.mirrored import SETTINGS, Mirrored, mirrored, transaction
from tests.migration.other_members import member_of
from tests.migration.test_changing_hands import Member
from tests.migration.test_first_contact import TIMEOUT_S, commit
from tests.migration.test_transactions import begun
from tests.runtime.test_hands import decided
from tests.waiting import until, wait_until

OFTEN_SECONDS = 0.05


@asynccontextmanager
async def guarded(at: Mirrored, quiet_seconds: float = 3600.0) -> AsyncIterator[Guard]:
    guard = Guard(at.runtime, at.cluster_groups, at.mirror, OFTEN_SECONDS, quiet_seconds)
    looking = asyncio.create_task(guard.run())
    try:
        yield guard
        assert not looking.done()
    finally:
        looking.cancel()
        await asyncio.wait([looking])


def of_guard(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [
        each.message for each in caplog.records if each.name == "shim.migration.mirror.alarms" and each.levelno == level
    ]


async def test_a_member_at_the_broker_is_seen_until_it_leaves(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    topic, passed_through = make_topic(), f"{group}-passed-through"
    async with mirrored(broker, tmp_path) as at, guarded(at) as guard:
        await at.serve(group)
        await at.serve(passed_through, Hands.PASSED_THROUGH)
        members = [
            await asyncio.to_thread(Member, broker.bootstrap_servers, each, topic, **{"client.id": "past-the-shim"})
            for each in (passed_through, group)
        ]
        try:
            await until(lambda: guard.alarms)
            (line,) = guard.alarms.values()
            they = "it has 1 member in the cluster, past the shim: past-the-shim at /127.0.0.1"
            assert line == f"{they}; stop them there, or have them come through the shim"
            await until(lambda: members[0].assigned)
            await guard.look()
            assert list(guard.alarms) == [group]
        finally:
            for member in members:
                await asyncio.to_thread(member.stop)
        await until(lambda: not guard.alarms)
        assert of_guard(caplog, logging.ERROR) == [f"group {group}: {line}"]
        assert of_guard(caplog, logging.INFO) == [f"group {group}: this is over: {they}"]


@pytest.mark.parametrize("kind", [kind for kind in OTHER_KINDS if not kind.stays], ids=lambda kind: kind.name)
async def test_that_a_group_is_one_of_another_protocol_there_is_said(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture, kind: Kind
) -> None:
    """While somebody is in it: one that nobody is in has one coordinator, and a client may have made it before the shim
    had the group."""
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 12)
        await at.reached(group)
        guard = Guard(at.runtime, at.cluster_groups, at.mirror)
        with member_of(kind, broker.port, group, topic, "past-the-shim"):
            await guard.look()
            assert guard.alarms == {
                group: f"it has 1 member in the cluster, past the shim, where it is a group of {kind.protocol}: "
                "past-the-shim at /127.0.0.1; stop them there, or have them come through the shim with "
                "group.protocol=classic"
            }
            assert guard.alarmed == {"members": 1.0, "commits": 0.0}
            assert of_guard(caplog, logging.ERROR) == [f"group {group}: {guard.alarm(group)}"]
        await guard.look()
        assert (guard.alarms, kind_of(await at.cluster_groups.described(group))) == ({}, kind)
        await at.commit_offset(group, topic, 13)
        await at.reached(group)
        assert (await at.cluster_groups.offsets_of([group]))[group][TopicPartition(topic, 0)].offset == 13
        await at.cluster_groups.delete_group(group)  # other tests plan for all groups, and it is in the way


class OldGroups(ClusterGroups):
    """As of brokers before 2.6."""

    async def listed(self, within_seconds: float | None = None) -> Listed:
        found = await super().listed(within_seconds)
        return found._replace(groups={group: LiveGroup(group, "", "", "consumer") for group in found.groups})


async def test_brokers_that_do_not_list_states_are_asked_for_groups_that_the_mirror_knows(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 12)
        await at.reached(group)
        guard = Guard(at.runtime, OldGroups(at.brokers), at.mirror)
        await guard.look()
        assert guard.alarms == {}
        member = await asyncio.to_thread(Member, broker.bootstrap_servers, group, topic)
        try:
            await until(lambda: member.assigned)
            await guard.look()
            assert list(guard.alarms) == [group]
        finally:
            await asyncio.to_thread(member.stop)


async def test_members_that_were_taken_over_may_still_be_there(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group, Hands.PASSED_THROUGH)
        member = await asyncio.to_thread(Member, broker.bootstrap_servers, group, topic)
        try:
            await until(lambda: member.assigned)
            (there,) = (await at.cluster_groups.described(group)).members
            known = MemberMetadata(there.member_id, None, there.client_id, there.client_host, 60_000, 60_000, b"", b"")
            taken = GroupMetadataValue("consumer", 1, "range", there.member_id, members=(known,))
            adopted = await decided(at.runtime, group, lambda its, now, asker: its.adopt(now, group, [], taken, asker))
            assert adopted.done
            await at.serve(group)
            guard = Guard(at.runtime, at.cluster_groups, at.mirror)
            await guard.look()
            assert guard.alarms == {}
            another = await asyncio.to_thread(Member, broker.bootstrap_servers, group, topic)
            try:
                await until(lambda: another.assigned)
                await guard.look()
                assert list(guard.alarms) == [group]
            finally:
                await asyncio.to_thread(another.stop)
        finally:
            await asyncio.to_thread(member.stop)


async def test_a_commit_at_the_broker_is_seen_and_put_right(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 12)
        await at.reached(group)
        async with guarded(at, quiet_seconds=1.0) as guard:
            await guard.look()
            assert guard.alarms == {}
            await asyncio.to_thread(commit, broker.bootstrap_servers, group, topic, 17)
            await until(lambda: guard.alarms)
            line = f"somebody commits past the shim: {topic}-0 is 17 in the cluster, the shim wrote 12"
            assert guard.alarms == {group: line}
            await until(lambda: group in at.mirror.written)
            await at.reached(group)
            assert await at.offset_in_cluster(group, topic) == 12
            await until(lambda: not guard.alarms)
            assert of_guard(caplog, logging.ERROR) == [f"group {group}: {line}"]


async def test_an_offset_that_is_gone_there_is_written_again(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """As one that has expired: in the cluster nobody seems to use it."""
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit(group, topic, *(OffsetCommitRequestPartition(number, 5) for number in range(2)))
        await at.reached(group)
        assert await at.cluster_groups.delete(group, [TopicPartition(topic, 0)]) == []
        guard = Guard(at.runtime, at.cluster_groups, at.mirror)
        await guard.look()
        await at.mirror.fed(group)
        assert await at.offset_in_cluster(group, topic) == 5
        assert guard.alarms == {}


async def test_what_the_shim_itself_writes_is_none(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at, guarded(at) as guard:
        await at.serve(group)
        for offset in range(100):
            await at.commit_offset(group, topic, offset)
            await guard.look()
            assert guard.alarms == {}


async def test_what_changes_while_the_cluster_is_asked_is_none(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 12)
        await at.mirror.fed(group)

        class Busy(ClusterGroups):
            async def offsets_of(self, groups: Sequence[str], *, stable: bool = True) -> dict[str, Committed]:
                await at.commit_offset(group, topic, 13)
                await at.mirror.fed(group)
                found = await super().offsets_of(groups, stable=stable)
                await at.commit_offset(group, topic, 14)
                await at.mirror.fed(group)
                return found

        guard = Guard(at.runtime, Busy(at.brokers), at.mirror)
        await guard.look()
        assert await at.offset_in_cluster(group, topic) == 14
        assert guard.alarms == {}


async def test_a_transaction_whose_end_is_not_read_yet_is_none(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 1)
        await at.mirror.fed(group)
        async with transaction(at, broker, group, topic, 0, 5) as (_, producer):
            pass
        await asyncio.to_thread(producer.commit_transaction, TIMEOUT_S)
        await at.comes_to(group, topic, 5)
        guard = Guard(at.runtime, at.cluster_groups, at.mirror)
        await guard.look()
        assert group in at.mirror.written
        assert guard.alarms == {}


async def test_a_transaction_whose_offsets_the_mirror_has_not_heard_of_is_none(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 1)
        await at.mirror.fed(group)
        async with transaction(at, broker, group, topic, 0, 5) as (_, producer):
            await asyncio.to_thread(producer.commit_transaction, TIMEOUT_S)
            await until(lambda: not at.coordinator(group).has_pending(group))
            guard = Guard(at.runtime, at.cluster_groups, at.mirror)
            await guard.look()
            assert group in at.mirror.written
            assert (await at.offset_in_cluster(group, topic), guard.alarms) == (5, {})


async def test_one_behind_which_a_client_has_gone_back_is_none(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """Before the group's turn the cluster has what neither the mirror has written nor the log has."""
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 1)
        await at.mirror.fed(group)
        async with transaction(at, broker, group, topic, 0, 5) as (_, producer):
            await asyncio.to_thread(producer.commit_transaction, TIMEOUT_S)
            await until(lambda: not at.coordinator(group).has_pending(group))
            guard = Guard(at.runtime, at.cluster_groups, at.mirror)
            await at.commit(group, topic, OffsetCommitRequestPartition(0, 3), tells=False)
            await guard.look()
            assert (await at.offset_in_cluster(group, topic), guard.alarms) == (5, {})
            at.tell()
            await at.reached(group)
            assert await at.offset_in_cluster(group, topic) == 3


async def test_transactions_are_none(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Their offsets come into force in the cluster by themselves, and here when that is read there."""
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        following = TransactionFollower(at.runtime, TopicReader(at.cluster, SETTINGS, OFFSETS_TOPIC))
        await at.serve(group)
        await at.commit_offset(group, topic, 1)
        await at.mirror.fed(group)
        await until(lambda: following.ready(group) is ErrorCode.NONE)
        coordinator = at.runtime.coordinator_of(group)
        assert coordinator is not None
        async with guarded(at) as guard:
            for offset in range(10, 13):
                producer = await asyncio.to_thread(begun, broker.bootstrap_servers, group, topic, 1, offset)
                await until(lambda: coordinator.has_pending(group))
                # Nothing waits for its end that has nothing to do with it.
                await at.commit_offset(group, topic, offset)
                await at.mirror.fed(group)
                assert await at.offset_in_cluster(group, topic) == offset
                await guard.look()
                await asyncio.to_thread(producer.commit_transaction, TIMEOUT_S)
                await guard.look()
                await until(lambda: not coordinator.has_pending(group))
                await guard.look()
                at.tell()
                await at.reached(group)
                await guard.look()
                assert (await at.in_cluster(group))[TopicPartition(topic, 1)][0] == offset
            assert guard.alarms == {}
        assert of_guard(caplog, logging.ERROR) == []
        assert group in at.mirror.written
        await following.stop()


_NOT_YET = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
"""As a broker answers that has just been started."""


def is_committed(bootstrap: str, group: str, topic: str, offset: int) -> bool:
    """Not while the broker loads its groups."""
    try:
        commit(bootstrap, group, topic, offset)
    except KafkaException as error:
        if error.args[0].code() not in _NOT_YET:
            raise
        return False
    return True


async def test_the_cluster_is_away(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 12)
        await at.reached(group)
        await asyncio.to_thread(broker.stop)
        guard = Guard(at.runtime, at.cluster_groups, at.mirror)
        for _ in range(3):
            await guard.look()
        assert guard.alarms == {}
        for what in ("who is in groups", "what is committed"):
            assert len([line for line in caplog.messages if line.startswith(what)]) == 1
        await asyncio.to_thread(broker.start)
        await asyncio.to_thread(wait_until, lambda: is_committed(broker.bootstrap_servers, group, topic, 17))
        await guard.look()
        assert list(guard.alarms) == [group]


async def test_before_a_broker_is_known_nothing_is_amiss(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first look is at the start."""

    class NoneKnown(ClusterGroups):
        async def listed(self, within_seconds: float | None = None) -> Listed:
            return Listed({}, (), 0)

    async with mirrored(broker, tmp_path) as at:
        caplog.clear()
        await Guard(at.runtime, NoneKnown(at.brokers), at.mirror).look()
        assert [each.message for each in caplog.records if each.levelno >= logging.WARNING] == []
