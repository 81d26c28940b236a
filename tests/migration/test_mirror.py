"""What the shim has of the groups that it serves, a real broker has too, soon after."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestPartition
from protocol.offsets_log import CommittedOffset
from protocol.own.state_log import Hands
from protocol.topic_partition import TopicPartition
from shim.demo.parts import Broker
from shim.migration.mirror.guard import Guard
from shim.migration.mirror.last_written import Written
from shim.migration.mirror.mirror import Mirror
from shim.offsets.store import GroupInUse, StoreError, StoreUnavailable
from tests.conftest import TopicFactory
from tests.migration.changing_topics import grow
from tests.migration.mirrored import SETTINGS, Mirrored, mirrored, transaction
from tests.migration.test_changing_hands import Member
from tests.migration.test_first_contact import TIMEOUT_S, commit, produce
from tests.runtime.test_hands import decided
from tests.waiting import until


async def test_the_last_of_many_commits_arrives(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        async with at.mirror.alone(group):  # as when one write takes as long as all of these
            for offset in range(50):
                await at.commit(group, topic, OffsetCommitRequestPartition(0, offset))
            await at.commit(group, topic, OffsetCommitRequestPartition(1, 7, 3, committed_metadata="müde"))
        await at.reached(group)
        assert await at.in_cluster(group) == {
            TopicPartition(topic, 0): (49, -1, ""),
            TopicPartition(topic, 1): (7, 3, "müde"),
        }
        written = len(at.groups.committed)
        assert written <= 2
        await at.commit_offset(group, topic, 49)
        await at.reached(group)
        assert len(at.groups.committed) == written


async def test_what_is_deleted_is_deleted_there(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(3)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit(group, topic, *(OffsetCommitRequestPartition(number, 5) for number in range(3)))
        await at.reached(group)
        await at.delete_offset(group, topic, 1)
        await at.reached(group)
        assert set(await at.in_cluster(group)) == {TopicPartition(topic, 0), TopicPartition(topic, 2)}
        await at.delete(group)
        await at.reached(group)
        assert await at.in_cluster(group) == {}


async def test_who_waits_is_told_when_it_is_there(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing else is mirrored."""
    rounds, give_turns = 0, Mirror._give_turns

    def counted(mirror: Mirror) -> None:
        nonlocal rounds
        rounds += 1
        give_turns(mirror)

    monkeypatch.setattr(Mirror, "_give_turns", counted)
    topic = make_topic()
    async with mirrored(broker, tmp_path, replace(SETTINGS, offsets_mirror_upstream=False)) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 1)
        await at.mirror.fed(group)
        assert await at.offset_in_cluster(group, topic) == 1
        await at.commit_offset(group, topic, 2)
        assert at.mirror.lag_seconds(group) is None
        before = rounds
        await until(lambda: rounds > before + 2)
        await at.mirror.drained()  # otherwise it would be written by now
        assert await at.offset_in_cluster(group, topic) == 1
        await at.mirror.fed(group)
        assert await at.offset_in_cluster(group, topic) == 2


async def test_a_restart_writes_what_differs_and_nothing_else(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(2)
    groups = [f"{group}-{number}" for number in range(20)]
    async with mirrored(broker, tmp_path) as at:
        for each in groups:
            await at.serve(each)
            await at.commit(each, topic, OffsetCommitRequestPartition(0, 5, 2, committed_metadata="m"))
        await at.reached(*groups)
        at.mirror.close()
        await at.commit(groups[3], topic, OffsetCommitRequestPartition(0, 6))
        await at.delete(groups[4])
    commit(broker.bootstrap_servers, groups[5], topic, 4)
    async with mirrored(broker, tmp_path) as at:
        await until(lambda: len(at.groups.committed) == 2)
        await until(lambda: all(each in at.mirror.written for each in groups))
        await at.reached(*groups)
        assert {each for each, _ in at.groups.committed} == {groups[3], groups[5]}
        assert at.groups.deleted == []
        assert [await at.offset_in_cluster(each, topic) for each in groups[3:7]] == [6, 5, 5, 5]
        assert [each for each in groups if at.mirror.alarm(each)] == [groups[4]], "it might have been committed there"


async def test_nothing_is_written_before_the_log_has_caught_up_with_the_clusters(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """What it has by then of transactions that ended while it was away nobody knows."""
    topic = make_topic(2)

    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        async with transaction(at, broker, group, topic, 0, 5) as (_, producer):
            pass
    await asyncio.to_thread(producer.commit_transaction, TIMEOUT_S)
    async with mirrored(broker, tmp_path) as at:
        with pytest.raises(StoreUnavailable, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await at.mirror.fed(group)
        assert group not in at.mirror.written
        await at.comes_to(group, topic, 5)
        assert (at.groups.committed, at.groups.deleted) == ([], [])


async def test_what_was_not_written_while_the_broker_was_away_is_written_then(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 1)
        await at.reached(group)
        await asyncio.to_thread(broker.stop)
        await at.commit_offset(group, topic, 2)
        await until(lambda: at.mirror.why(group))
        with pytest.raises(StoreUnavailable):
            await at.mirror.fed(group)
        lag = at.mirror.lag_seconds(group)
        assert lag is not None
        await until(lambda: (at.mirror.lag_seconds(group) or 0) > lag)
        assert at.mirror.lagging == 1
        await asyncio.to_thread(broker.start)
        await at.reached(group)
        assert await at.offset_in_cluster(group, topic) == 2
        assert at.mirror.why(group) == ""
    assert any("the cluster's own offsets cannot be kept up for now" in line for line in caplog.messages)


async def test_members_in_the_cluster_are_in_the_way(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        member = await asyncio.to_thread(Member, broker.bootstrap_servers, group, topic)
        try:
            await until(lambda: member.assigned)
            await at.commit_offset(group, topic, 3)
            with pytest.raises(GroupInUse, match="UNKNOWN_MEMBER_ID"):
                await at.mirror.fed(group)
            assert at.mirror.contested == {group}
        finally:
            await asyncio.to_thread(member.stop)
        await at.reached(group)
        assert (await at.offset_in_cluster(group, topic), at.mirror.contested) == (3, set())


async def test_what_members_in_the_cluster_have_committed_is_not_written_over_without_a_word(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The guard does not look at offsets of a group that waits to be written."""
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        guard = Guard(at.runtime, at.cluster_groups, at.mirror, quiet_seconds=0.0)
        await at.serve(group)
        await asyncio.to_thread(produce, broker.bootstrap_servers, topic, *(b"x" for _ in range(9)))
        member = await asyncio.to_thread(Member, broker.bootstrap_servers, group, topic)
        try:
            await until(lambda: member.assigned)
            await at.commit_offset(group, topic, 3)
            with pytest.raises(GroupInUse):
                await at.mirror.fed(group)
            await until(lambda: member.acknowledged == {0: 9})
        finally:
            await asyncio.to_thread(member.stop)
        await at.reached(group)
        assert await at.offset_in_cluster(group, topic) == 3
        assert guard.alarmed == {"members": 0.0, "commits": 1.0}
        assert guard.alarm(group) == (
            f"somebody commits past the shim: {topic}-0 was 9 in the cluster, the shim wrote 3"
        )
        await guard.look()
        assert guard.alarm(group) == ""
    (told,) = (each for each in caplog.messages if "are written over" in each)
    assert f"group {group}: " in told
    assert f"{topic}-0 (3 here, 9 there)" in told


async def test_what_members_have_committed_is_told_whatever_a_turn_fails_of_in_between(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A write that is done and not answered is written over already when the cluster is asked again."""
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await asyncio.to_thread(produce, broker.bootstrap_servers, topic, *(b"x" for _ in range(9)))
        member = await asyncio.to_thread(Member, broker.bootstrap_servers, group, topic)
        try:
            await until(lambda: member.assigned)
            await at.commit_offset(group, topic, 3)
            with pytest.raises(GroupInUse):
                await at.mirror.fed(group)
            await until(lambda: member.acknowledged == {0: 9})
            at.groups.is_done_unanswered = True
        finally:
            await asyncio.to_thread(member.stop)
        await at.reached(group)
        assert await at.offset_in_cluster(group, topic) == 3
        assert at.groups.unanswered == 1
    (told,) = (each for each in caplog.messages if "are written over" in each)
    assert f"{topic}-0 (3 here, 9 there)" in told


async def test_what_was_committed_there_while_the_shim_was_cut_off_is_not_written_over_without_a_word(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, untouched = make_topic(), f"{group}-untouched"
    async with mirrored(broker, tmp_path) as at:
        guard = Guard(at.runtime, at.cluster_groups, at.mirror, quiet_seconds=0.0)
        for each in (group, untouched):
            await at.serve(each)
            await at.commit_offset(each, topic, 1)
        await at.reached(group, untouched)
        at.groups.is_cut_off = True
        for each in (group, untouched):
            await at.commit_offset(each, topic, 3)
        await until(lambda: at.mirror.why(group) and at.mirror.why(untouched))
        assert at.mirror.contested == set(), "as far as is known nobody is in it there"
        await asyncio.to_thread(commit, broker.bootstrap_servers, group, topic, 9)
        await guard.look()
        assert guard.alarms == {}
        at.groups.is_cut_off = False
        await at.reached(group, untouched)
        assert [await at.offset_in_cluster(each, topic) for each in (group, untouched)] == [3, 3]
        assert guard.alarmed == {"members": 0.0, "commits": 1.0}
        assert guard.alarms == {
            group: f"somebody commits past the shim: {topic}-0 was 9 in the cluster, the shim wrote 3"
        }
        await guard.look()
        assert guard.alarms == {}
    (told,) = (each for each in caplog.messages if "are written over" in each)
    assert f"group {group}: " in told
    assert f"{topic}-0 (3 here, 9 there)" in told


async def test_what_the_shim_itself_had_sent_before_it_was_cut_off_is_nobody_elses(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        guard = Guard(at.runtime, at.cluster_groups, at.mirror)
        await at.serve(group)
        await at.commit_offset(group, topic, 1)
        await at.reached(group)
        at.groups.is_done_unanswered = True
        await at.commit_offset(group, topic, 9)
        with pytest.raises(StoreUnavailable):
            await at.mirror.fed(group)
        at.groups.is_cut_off, at.groups.is_done_unanswered = True, False
        await at.commit_offset(group, topic, 3)  # a rewind, before it is known that the 9 is there
        with pytest.raises(StoreUnavailable):
            await at.mirror.fed(group)
        at.groups.is_cut_off = False
        await at.reached(group)
        assert (await at.offset_in_cluster(group, topic), guard.alarms) == (3, {})
    assert not [each for each in caplog.messages if "are written over" in each]


async def test_a_group_that_is_passed_through_is_not_written(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 1)
        await at.reached(group)
        # It is given back while a write of it is due.
        async with at.mirror.alone(group):
            await at.commit_offset(group, topic, 2)
            await at.serve(group, Hands.PASSED_THROUGH)
        await at.reached(group)
        at.mirror.touched([group])
        await at.mirror.fed(group)
        assert await at.offset_in_cluster(group, topic) == 1
        assert group not in at.mirror.written


async def test_a_group_that_is_given_away_on_the_way_is_not_written(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path, replace(SETTINGS, offsets_mirror_upstream=False)) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 2)
        at.groups.meanwhile = partial(at.serve, group, Hands.PASSED_THROUGH)
        await at.mirror.fed(group)
        assert at.coordinator(group).hands_of(group) is Hands.PASSED_THROUGH
        assert await at.offset_in_cluster(group, topic) is None


async def test_while_a_transaction_is_open_nothing_is_believed(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """What it has comes into force in the cluster or not, depending on what was written there last."""
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 12)
        await at.mirror.fed(group)
        async with transaction(at, broker, group, topic, 1, 5) as (_, producer):
            try:
                await asyncio.to_thread(commit, broker.bootstrap_servers, group, topic, 17)
                await at.mirror.fed(group)
                assert await at.offset_in_cluster(group, topic) == 12
                assert group not in at.mirror.written
            finally:  # groups of the same partition wait for its end
                await asyncio.to_thread(producer.abort_transaction, TIMEOUT_S)


async def test_a_topic_that_is_gone_is_no_failure(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 1)
        await at.reached(group)  # a broker that was just begun has no coordinators for a moment
        await at.commit_offset(group, f"{topic}-gone", 1)
        await at.commit_offset(group, topic, 2)
        await at.mirror.fed(group)
        assert await at.in_cluster(group) == {TopicPartition(topic, 0): (2, -1, "")}


async def test_a_partition_that_the_cluster_has_later_is_brought_then(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit(group, topic, OffsetCommitRequestPartition(0, 1), OffsetCommitRequestPartition(1, 2))
        await at.reached(group)
        assert at.mirror.nowhere(group) == {TopicPartition(topic, 1)}
        at.groups.committed.clear()  # before: it may be brought while the cluster makes it
        await asyncio.to_thread(grow, broker.bootstrap_servers, topic, 2)
        await at.comes_to(group, topic, 2, 1)
        await at.reached(group)
        assert not at.mirror.nowhere(group)
        assert {each for _, offsets in at.groups.committed for each in offsets} == {TopicPartition(topic, 1)}


async def test_what_is_forgotten_is_not_written(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await asyncio.to_thread(broker.stop)
        await at.commit_offset(group, topic, 2)
        with pytest.raises(StoreError):
            await at.mirror.fed(group)
        at.mirror.forget(group)
        assert at.mirror.lag_seconds(group) is None
        await asyncio.to_thread(broker.start)
        await at.mirror.fed(f"{group}-another")
        assert await at.offset_in_cluster(group, topic) is None


def test_what_is_known_has_a_bound() -> None:
    written = Written(10)
    offsets = {TopicPartition("t", number): CommittedOffset(number, -1, "", 0) for number in range(4)}
    for group in ("a", "b"):
        written.update(group, offsets, ())
    stamp = written.stamp("a")
    written.update("a", {}, ())
    assert written.stamp("a") == stamp
    written.update("c", offsets, ())
    assert list(written) == ["a", "c"]
    assert (written.get("a"), written.get("b"), written.stamp("b")) == (offsets, None, None)
    written.update("c", {TopicPartition("t", 3): CommittedOffset(30, -1, "", 0)}, [TopicPartition("t", 0)])
    assert (written.count("c"), written.stamp("c") != stamp) == (3, True)
    assert (written.get("c") or {})[TopicPartition("t", 3)].offset == 30
    written.update("d", {TopicPartition("t", number): CommittedOffset(1, -1, "", 0) for number in range(20)}, ())
    assert list(written) == []


async def test_what_a_transaction_has_put_in_force_there_while_the_mirror_was_cut_off_is_nobody_elses(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        guard = Guard(at.runtime, at.cluster_groups, at.mirror)
        await at.serve(group)
        await at.commit_offset(group, topic, 1)
        await at.reached(group)
        at.groups.is_cut_off = True
        await at.commit_offset(group, topic, 2)
        await until(lambda: at.mirror.why(group))
        async with transaction(at, broker, group, topic, 0, 9) as (_, producer):
            await asyncio.to_thread(producer.commit_transaction)
            await until(lambda: not at.coordinator(group).has_pending(group))
            await at.comes_to(group, topic, 9)
        with pytest.raises(StoreUnavailable):
            await at.mirror.fed(group)  # turns come ever more seldom by themselves
        await at.commit_offset(group, topic, 3)  # a rewind
        at.groups.is_cut_off = False
        await at.reached(group)
        assert (await at.offset_in_cluster(group, topic), dict(guard.alarms)) == (3, {})
    assert not [each for each in caplog.messages if "are written over" in each]


@pytest.mark.parametrize("before", [5, None], ids=["over one", "the first"])
async def test_what_a_transaction_has_put_in_force_there_is_not_undone(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, before: int | None
) -> None:
    """The cluster's log has told nothing of its end yet when the group has a turn for another partition."""
    topic = make_topic(2)
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit(group, topic, OffsetCommitRequestPartition(1, 2))
        if before is not None:
            await at.commit_offset(group, topic, before)
        await at.reached(group)
        async with transaction(at, broker, group, topic, 0, 9) as (following, producer):
            await following.stop()
            await asyncio.to_thread(producer.commit_transaction, TIMEOUT_S)
            await at.comes_to(group, topic, 9)
            at.groups.committed.clear()
            await at.commit(group, topic, OffsetCommitRequestPartition(1, 3))
            await at.mirror.fed(group)
            assert await at.offset_in_cluster(group, topic) == 9
            number = TopicPartition(topic, 1)
            assert [list(offsets) for _, offsets in at.groups.committed] == [[number]]
            assert at.groups.deleted == []
            # Whoever says here that it is another one has it written.
            await at.commit_offset(group, topic, 4)
            await at.mirror.fed(group)
            assert await at.offset_in_cluster(group, topic) == 4


@pytest.mark.parametrize("is_on", [True, False], ids=["the mirror is on", "off"])
async def test_what_only_seemed_to_be_in_force_by_a_transaction_is_put_right_when_that_is_known(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, is_on: bool
) -> None:
    """Somebody else has committed the very offset past the shim, and it is aborted: nobody commits here any more."""
    topic = make_topic(2)
    async with mirrored(broker, tmp_path, replace(SETTINGS, offsets_mirror_upstream=is_on)) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 5)
        await at.brought(group)
        async with transaction(at, broker, group, topic, 0, 9) as (_, producer):
            assert (
                await at.cluster_groups.commit(group, {TopicPartition(topic, 0): CommittedOffset(9, -1, "", 0)}) == []
            )
            await at.commit(group, topic, OffsetCommitRequestPartition(1, 3))
            await at.mirror.fed(group)
            assert await at.offset_in_cluster(group, topic, 1) == 3
            assert at.mirror.lag_seconds(group) is not None, "it does not have 5"
            await asyncio.to_thread(producer.abort_transaction, TIMEOUT_S)
            await at.comes_to(group, topic, 5)
            await at.reached(group)


@pytest.mark.parametrize("is_deleted", [False, True], ids=["committed", "deleted"])
async def test_what_comes_back_behind_a_transaction_is_written_once_more(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, is_deleted: bool
) -> None:
    """No turn comes between, as nothing else is mirrored."""
    topic = make_topic()
    before = None if is_deleted else 9

    async def written(at: Mirrored) -> None:
        if is_deleted:
            await at.delete_offset(group, topic, 0)
        else:
            await at.commit_offset(group, topic, 9)
        await at.mirror.fed(group)
        assert await at.offset_in_cluster(group, topic) == before

    async with mirrored(broker, tmp_path, replace(SETTINGS, offsets_mirror_upstream=False)) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 5)
        await at.mirror.fed(group)
        await written(at)
        async with transaction(at, broker, group, topic, 0, 70) as (_, producer):
            await _commit_as_is_known(at, producer, group)
            await at.comes_to(group, topic, 70)
            await written(at)


async def test_so_is_what_comes_back_behind_one_that_began_and_ended_within_a_turn(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic()
    async with (
        mirrored(broker, tmp_path, replace(SETTINGS, offsets_mirror_upstream=False)) as at,
        AsyncExitStack() as ends,
    ):

        async def in_a_transaction() -> None:
            _, producer = await ends.enter_async_context(transaction(at, broker, group, topic, 0, 70))
            await _commit_as_is_known(at, producer, group)

        await at.serve(group)
        await at.commit_offset(group, topic, 9)
        await at.mirror.fed(group)
        at.mirror.written.forget(group)
        at.groups.meanwhile = in_a_transaction
        await at.mirror.fed(group)
        await at.comes_to(group, topic, 70)
        await at.commit_offset(group, topic, 9)
        await at.mirror.fed(group)
        assert await at.offset_in_cluster(group, topic) == 9


async def test_and_so_it_is_where_the_partition_is_read_back_before_the_mirror_hears_of_it(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("a bug")

    topic = make_topic()
    async with mirrored(broker, tmp_path) as at:
        await at.serve(group)
        await at.commit_offset(group, topic, 9)
        await at.reached(group)
        monkeypatch.setattr(at, "tell", lambda: None)
        async with transaction(at, broker, group, topic, 0, 70) as (_, producer):
            await _commit_as_is_known(at, producer, group)
            await at.comes_to(group, topic, 70)
            await at.commit_offset(group, topic, 9)
            assert await decided(at.runtime, group, fails) is ErrorCode.UNKNOWN_SERVER_ERROR
            await at.comes_to(group, topic, 9)


async def _commit_as_is_known(at: Mirrored, producer: Producer, group: str) -> None:
    """Here, too."""
    await asyncio.to_thread(producer.commit_transaction, TIMEOUT_S)
    await until(lambda: not at.coordinator(group).has_pending(group))
