"""Clients had gone on at the brokers, and a shim begins again on its directory of before: what it has loaded is not
written over what the cluster has.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestPartition
from protocol.offsets_log import CommittedOffset
from protocol.own.state_log import Hands, Step
from protocol.partition import OFFSETS_TOPIC
from protocol.topic_partition import TopicPartition
from shim.coordinator import GroupCoordinator, Outcome
from shim.demo.parts import Broker
from shim.following import TransactionFollower
from shim.migration.own_offsets import own_offsets
from shim.offsets.cluster.describing import LiveGroup
from shim.offsets.cluster.groups import Committed
from shim.runtime import Runtime
from shim.upstream import TopicReader
from tests.admin.live.running import offset_shim
from tests.conftest import TopicFactory
from tests.migration.mirrored import SETTINGS, Mirrored, WatchedGroups, mirrored, transaction
from tests.migration.test_changing_hands import Administered, administered
from tests.migration.test_coming_back_on_topics import commit_some, committed_of_two
from tests.migration.test_first_contact import TIMEOUT_S, commit, committed, produce
from tests.runtime.test_hands import decided
from tests.waiting import until, wait_until

_SAYS: Final = "the cluster has other offsets than were loaded here, and keeps them: "


async def _in_cluster(at: Mirrored, group: str) -> dict[int, int]:
    return {its.partition: found[0] for its, found in (await at.in_cluster(group)).items()}


async def _left_there(broker: Broker, data_dir: Path, group: str, topic: str, *offsets: int) -> None:
    """By a shim that has ended."""
    async with mirrored(broker, data_dir) as at:
        await at.serve(group)
        await at.commit(group, topic, *(OffsetCommitRequestPartition(*each) for each in enumerate(offsets)))
        await at.reached(group)


async def _committed_there(broker: Broker, at: Mirrored, group: str, offsets: dict[TopicPartition, int]) -> None:
    refused = await at.cluster_groups.try_commit(
        group, {each: CommittedOffset(offset, -1, "", 0) for each, offset in offsets.items()}
    )
    assert refused == []


def _written_over(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [told for each in caplog.messages if (told := each.partition("with what is committed here: ")[2])]


async def test_all_that_differs_is_left_until_it_is_committed_here(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Further on there, set back there, and there alone; what is as it was is nobody's business."""
    caplog.set_level(logging.INFO)
    topic = make_topic(4)
    await _left_there(broker, tmp_path / "data", group, topic, 5, 5, 5)
    async with mirrored(broker, tmp_path / "of another") as other:
        later = {TopicPartition(topic, 0): 77, TopicPartition(topic, 1): 2, TopicPartition(topic, 3): 9}
        await _committed_there(broker, other, group, later)
    async with mirrored(broker, tmp_path / "data") as at:
        await until(lambda: at.mirror.alarm(group))
        assert at.mirror.alarmed == 1
        (raised,) = (each.message for each in caplog.records if each.levelno == logging.ERROR)
        assert at.mirror.alarm(group).startswith(
            f"{_SAYS}{topic}-0 (5 here, 77 there), {topic}-3 (none here, 9 there); only behind there (1): "
            f"{topic}-1 (5 here, 2 there); "
        )
        await at.commit(group, topic, OffsetCommitRequestPartition(2, 6))  # of what is not held
        await at.reached(group)
        assert await _in_cluster(at, group) == {0: 77, 1: 2, 2: 6, 3: 9}
        assert _written_over(caplog) == []
        await at.commit(group, topic, OffsetCommitRequestPartition(0, 5))  # as it was: that is a word, too
        await at.reached(group)
        assert _written_over(caplog) == [f"{topic}-0 (5 here, 77 there)"]
        assert await _in_cluster(at, group) == {0: 5, 1: 2, 2: 6, 3: 9}
        assert "-0 (" not in at.mirror.alarm(group)
        await at.commit(group, topic, *(OffsetCommitRequestPartition(number, 8) for number in (1, 3)))
        await at.reached(group)
        assert await _in_cluster(at, group) == {0: 5, 1: 8, 2: 6, 3: 8}
        assert at.mirror.alarm(group) == ""
        (over,) = (each for each in caplog.messages if "this is over" in each)
        assert "groups reset" in raised
        assert "groups reset" not in over
        assert _written_over(caplog)[1:] == [f"{topic}-1 (8 here, 2 there), {topic}-3 (8 here, 9 there)"]


async def test_what_is_there_alone_stays_there(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """A partition had its first record after the shim had ended: nothing that both have has moved."""
    topic = make_topic(2)
    await _left_there(broker, tmp_path / "data", group, topic, 5)
    async with mirrored(broker, tmp_path / "of another") as other:
        await _committed_there(broker, other, group, {TopicPartition(topic, 1): 9})
    async with mirrored(broker, tmp_path / "data") as at:
        await until(lambda: at.mirror.alarm(group))
        assert at.mirror.alarm(group).startswith(f"{_SAYS}{topic}-1 (none here, 9 there); ")
        await at.reached(group)
        assert await _in_cluster(at, group) == {0: 5, 1: 9}


async def test_what_is_deleted_here_stays_there(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """It may have expired, as nobody has committed here for so long."""
    topic = make_topic()
    await _left_there(broker, tmp_path / "data", group, topic, 5)
    commit(broker.bootstrap_servers, group, topic, 77)
    async with mirrored(broker, tmp_path / "data") as at:
        await until(lambda: at.mirror.alarm(group))
        await at.delete(group)
        await at.reached(group)
        assert await _in_cluster(at, group) == {0: 77}
        assert f"{topic}-0 (none here, 77 there)" in at.mirror.alarm(group)


async def test_it_is_said_where_there_may_be_more_to_compare(
    broker: Broker,
    tmp_path: Path,
    make_topic: TopicFactory,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    await _left_there(broker, tmp_path / "data", group, make_topic(), 5)
    caplog.clear()
    unavailable = Counter({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 3})
    monkeypatch.setattr(Runtime, "unavailable", unavailable)
    async with mirrored(broker, tmp_path / "data") as at:
        told = "compared with the cluster's own offsets: 1 group"
        await until(lambda: f"{told} so far, 3 partitions not loaded yet" in caplog.messages)
        assert told not in caplog.messages
        unavailable.clear()
        number = (at.runtime.partition_of(group) + 1) % at.runtime.num_partitions  # one of those, without a group
        at.mirror._served(number, at.runtime.coordinator(number))
        await until(lambda: told in caplog.messages)


def _to_upstream_dual(group: str, coordinator: GroupCoordinator, now: int, asker: Any) -> Outcome:
    return coordinator.take_in_hand(now, group, Hands.SERVED, "", asker, Step.UPSTREAM_DUAL, from_zookeeper=False)


async def test_where_each_commit_has_to_be_in_the_cluster(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Those are there that are acknowledged from now on; what nobody has committed here is kept as ever."""
    topic = make_topic(2)
    await _left_there(broker, tmp_path / "data", group, topic, 5, 5)
    async with mirrored(broker, tmp_path / "data") as at:
        assert (await decided(at.runtime, group, partial(_to_upstream_dual, group))).done
    async with mirrored(broker, tmp_path / "of another") as other:
        await _committed_there(broker, other, group, {TopicPartition(topic, number): 77 for number in range(2)})
    async with mirrored(broker, tmp_path / "data") as at:
        assert await at.mirror.kept(group, own_offsets(at.coordinator(group), group)) != ""
        await at.commit_offset(group, topic, 6)
        await at.mirror.fed(group)
        assert await _in_cluster(at, group) == {0: 6, 1: 77}
        assert at.mirror.alarm(group).startswith(f"{_SAYS}{topic}-1 (5 here, 77 there); ")
        assert _written_over(caplog) == [f"{topic}-0 (6 here, 77 there)"]


async def test_what_a_transaction_puts_in_force_meanwhile_is_no_strangers(
    broker: Broker,
    tmp_path: Path,
    make_topic: TopicFactory,
    group: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ends after what the log has was read, and before the cluster answers. What lags beside it is brought up."""
    caplog.set_level(logging.INFO)
    topic = make_topic(2)
    data_dir, asked = tmp_path / "data", WatchedGroups.offsets_of
    async with mirrored(broker, data_dir) as at:
        await at.serve(group)
        await at.commit(group, topic, *(OffsetCommitRequestPartition(number, 5) for number in range(2)))
        await at.reached(group)
        async with transaction(at, broker, group, topic, 0, 10) as (_, producer):
            at.mirror.close()
            await at.commit(group, topic, OffsetCommitRequestPartition(1, 6))

    async def ends_before(groups: WatchedGroups, names: Sequence[str], *, stable: bool = True) -> dict[str, Committed]:
        if group in names:
            monkeypatch.setattr(WatchedGroups, "offsets_of", asked)
            await asyncio.to_thread(producer.commit_transaction, 20)
            await at.comes_to(group, topic, 10)
        return await asked(groups, names, stable=stable)

    monkeypatch.setattr(WatchedGroups, "offsets_of", ends_before)
    async with mirrored(broker, data_dir) as at:
        following = TransactionFollower(at.runtime, TopicReader(at.cluster, SETTINGS, OFFSETS_TOPIC))
        await until(lambda: following.ready(group) is ErrorCode.NONE)
        compared = "compared with the cluster's own offsets: 1 group"
        await until(lambda: caplog.messages.count(compared) == 2)  # by the one before, too
        await until(lambda: own_offsets(at.coordinator(group), group)[TopicPartition(topic, 0)].offset == 10)
        at.tell()
        await at.reached(group)
        assert await _in_cluster(at, group) == {0: 10, 1: 6}
        assert at.mirror.alarm(group) == ""
        await following.stop()
    told = f"group {group}: offsets in the cluster are behind what was loaded here, and are brought up: "
    assert f"{told}{topic}-1 (6 here, 5 there)" in caplog.messages
    assert not [each for each in caplog.records if each.levelno == logging.ERROR]


async def test_what_was_alike_is_changed_there_as_ever(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """After an orderly restart: set back, and deleted, without an alarm."""
    topic = make_topic(2)
    await _left_there(broker, tmp_path / "data", group, topic, 5, 5)
    async with mirrored(broker, tmp_path / "data") as at:
        await until(lambda: group in at.mirror.written)
        await at.commit_offset(group, topic, 3)
        await at.reached(group)
        await at.delete_offset(group, topic, 1)
        await at.reached(group)
        assert (await _in_cluster(at, group), at.mirror.alarm(group)) == ({0: 3}, "")


async def test_what_is_committed_before_the_first_look_was_not_loaded(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Set back a moment after a start: at upstream+dual it would be acknowledged and not be there."""
    topic = make_topic(2)
    await _left_there(broker, tmp_path / "data", group, topic, 5, 5)
    async with mirrored(broker, tmp_path / "data") as at:
        at.groups.is_cut_off = True
        for offset in (4, 3):
            await at.commit_offset(group, topic, offset)
        at.groups.is_cut_off = False
        await at.mirror.fed(group)
        assert (await _in_cluster(at, group), at.mirror.alarm(group)) == ({0: 3, 1: 5}, "")
        assert not [each for each in caplog.messages if "offsets in the cluster" in each]


async def test_what_others_have_committed_is_told_where_it_is_written_over_at_once(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """By commits here before the first look, of what was further on there, behind, and there alone. Of the others that
    decides on what was loaded, and a deletion is none of those."""
    topic = make_topic(5)
    await _left_there(broker, tmp_path / "data", group, topic, 5, 5, 5, 5)
    async with mirrored(broker, tmp_path / "of another") as other:
        later = {TopicPartition(topic, number): offset for number, offset in enumerate((77, 77, 2, 2, 77))}
        await _committed_there(broker, other, group, later)
    async with mirrored(broker, tmp_path / "data") as at:
        at.groups.is_cut_off = True
        await at.commit_offset(group, topic, 90)
        await at.delete_offset(group, topic, 1)
        await at.commit(group, topic, OffsetCommitRequestPartition(2, 3), OffsetCommitRequestPartition(4, 4))
        at.groups.is_cut_off = False
        await at.mirror.fed(group)
        assert await _in_cluster(at, group) == {0: 90, 1: 77, 2: 3, 3: 2, 4: 4}
        assert at.mirror.alarm(group).startswith(
            f"{_SAYS}{topic}-1 (none here, 77 there); only behind there (1): {topic}-3 (5 here, 2 there); "
        )
        (told,) = _written_over(caplog)
        assert told == f"{topic}-0 (90 here, 77 there), {topic}-2 (3 here, 2 there), {topic}-4 (4 here, 77 there)"


async def test_where_all_that_differs_is_written_over_at_once_there_is_no_alarm(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    await _left_there(broker, tmp_path / "data", group, topic, 5)
    commit(broker.bootstrap_servers, group, topic, 77)
    async with mirrored(broker, tmp_path / "data") as at:
        at.groups.is_cut_off = True
        await at.commit_offset(group, topic, 90)
        at.groups.is_cut_off = False
        await at.mirror.fed(group)
        assert await _in_cluster(at, group) == {0: 90}
        assert _written_over(caplog) == [f"{topic}-0 (90 here, 77 there)"]
        assert not [each for each in caplog.records if each.levelno == logging.ERROR]


@pytest.mark.parametrize("is_known_here", [True, False], ids=["known here", "not known here yet"])
async def test_what_a_transaction_puts_in_force_before_the_first_look_is_no_strangers(
    broker: Broker,
    tmp_path: Path,
    make_topic: TopicFactory,
    group: str,
    caplog: pytest.LogCaptureFixture,
    is_known_here: bool,
) -> None:
    """What had not been brought there is brought, and no alarm is raised."""
    topic = make_topic(2)
    await _left_there(broker, tmp_path / "data", group, topic, 5, 5)
    async with mirrored(broker, tmp_path / "data") as at:
        at.groups.is_cut_off = True
        await at.commit(group, topic, OffsetCommitRequestPartition(1, 6))
        await at.runtime.settled(at.runtime.partition_of(group))
    async with mirrored(broker, tmp_path / "data") as at:
        at.groups.is_cut_off = True
        await at.commit_offset(group, topic, 8)
        async with transaction(at, broker, group, topic, 0, 10) as (following, producer):
            if not is_known_here:
                await following.stop()
            await asyncio.to_thread(producer.commit_transaction, TIMEOUT_S)
            await at.comes_to(group, topic, 10)
            own = partial(own_offsets, at.coordinator(group), group)
            if is_known_here:
                await until(lambda: own()[TopicPartition(topic, 0)].offset == 10)
            at.groups.is_cut_off = False
            at.mirror.touched([group])
            await until(lambda: at.groups.committed and at.mirror.is_compared(group))
            await until(lambda: TopicPartition(topic, 1) in at.groups.committed[-1][1])
        assert not [each for each in caplog.records if each.levelno == logging.ERROR]
        assert at.mirror.alarm(group) == ""


async def test_it_is_kept_where_the_partition_was_at_another_shim_meanwhile(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(2)
    await _left_there(broker, tmp_path / "data", group, topic, 5)
    async with mirrored(broker, tmp_path / "of another") as other:
        await _committed_there(broker, other, group, {TopicPartition(topic, number): 77 for number in (0, 1)})
    async with mirrored(broker, tmp_path / "data") as at:
        await until(lambda: at.mirror.alarm(group))
        number = at.runtime.partition_of(group)
        at.runtime.own({0, 1, 2} - {number})
        await until(lambda: at.runtime.coordinator(number) is None and not at.mirror.alarm(group))
        at.runtime.own({0, 1, 2})
        await until(lambda: at.mirror.alarm(group))
        await at.reached(group)
        assert await _in_cluster(at, group) == {0: 77, 1: 77}


async def test_a_start_that_answers_the_alarm_by_itself_says_so(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Only what was behind was left in it, and that is as after any sudden end."""
    topic = make_topic(2)
    await _left_there(broker, tmp_path / "data", group, topic, 5, 5)
    async with mirrored(broker, tmp_path / "of another") as other:
        await _committed_there(broker, other, group, {TopicPartition(topic, 0): 77, TopicPartition(topic, 1): 2})
    async with mirrored(broker, tmp_path / "data") as at:
        await until(lambda: at.mirror.alarm(group))
        await at.commit_offset(group, topic, 80)
        await at.reached(group)
        assert f"{_SAYS}only behind there (1): {topic}-1 (5 here, 2 there); " in at.mirror.alarm(group)
    async with mirrored(broker, tmp_path / "data") as at:
        await until(lambda: at.groups.committed)
        await at.reached(group)
        assert await _in_cluster(at, group) == {0: 80, 1: 5}
        assert at.mirror.alarm(group) == ""
    told = f"group {group}: offsets in the cluster are behind what was loaded here, and are brought up: "
    assert [
        each.message for each in caplog.records if "brought up" in each.message and each.levelno == logging.WARNING
    ] == [f"{told}{topic}-1 (5 here, 2 there)"]


async def test_a_group_that_no_broker_lists_is_asked_for(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinator is away, or moves from a broker that is yet to be asked to one that was: none says that it has
    the group, which is not to say that there is none."""
    topic = make_topic()
    await _left_there(broker, tmp_path / "data", group, topic, 5)
    commit(broker.bootstrap_servers, group, topic, 77)

    async def nobody(_: WatchedGroups, within_seconds: float) -> dict[str, LiveGroup]:
        return {}

    monkeypatch.setattr(WatchedGroups, "groups", nobody)
    async with mirrored(broker, tmp_path / "data") as at:
        await until(lambda: group in at.mirror.written)
        await at.reached(group)
        assert await _in_cluster(at, group) == {0: 77}
        assert at.mirror.alarm(group).startswith(f"{_SAYS}{topic}-0 (5 here, 77 there); ")


async def test_what_the_shim_had_not_brought_there_is_brought(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    topic = make_topic(2)
    await _left_there(broker, tmp_path / "data", group, topic, 5)
    async with mirrored(broker, tmp_path / "data") as at:
        await at.reached(group)
        at.mirror.close()
        await at.commit(group, topic, *(OffsetCommitRequestPartition(number, 6) for number in (0, 1)))
    async with mirrored(broker, tmp_path / "data") as at:
        await until(lambda: len(at.groups.committed) == 1)
        await at.reached(group)
        assert await _in_cluster(at, group) == {0: 6, 1: 6}
        assert at.mirror.alarm(group) == ""


def _alarm(at: Administered, group: str) -> str:
    found: Any = at.status(group)["alarm"]
    return str(found)


def test_nothing_is_given_back_before_somebody_has_said_which_is_right(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """The way that docs/migration.md tells, to the cluster's offsets."""
    topic = make_topic(2)
    produce(broker.bootstrap_servers, topic, *(b"" for _ in range(200)))
    with administered(broker, tmp_path / "data") as at:
        commit(at.shim.bootstrap, group, topic, 5)
        wait_until(lambda: committed(broker.bootstrap_servers, group, topic) == 5, "it does not arrive")
    commit(broker.bootstrap_servers, group, topic, 17)
    with administered(broker, tmp_path / "data") as at:
        wait_until(lambda: _SAYS in _alarm(at, group), "it does not say so")
        assert committed(at.shim.bootstrap, group, topic) == 5
        refused = at.migrate("rollback", group)
        assert refused.status == 1
        assert f"{_SAYS}{topic}-0 (5 here, 17 there); " in refused.stdout
        taken = offset_shim("groups", "reset", group, "--from-upstream", "--json", "--admin", at.address)
        assert taken.status == 0, taken
        assert committed(at.shim.bootstrap, group, topic) == 17
        given_back = at.migrate("rollback", group)
        assert given_back.status == 0, given_back
        assert "this is over: the cluster has other offsets" in at.shim.log()
        assert committed(at.shim.bootstrap, group, topic) == committed(broker.bootstrap_servers, group, topic) == 17
        assert at.migrate("start", group).status == 0
        assert _alarm(at, group) == ""


def test_the_advice_takes_back_no_commit_that_was_acknowledged(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """The shim was killed, with a stranger's offset of one partition kept, before the mirror's next second."""
    topic = make_topic(2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for record in range(200):
        producer.produce(topic, b"", partition=record % 2)
    assert producer.flush(TIMEOUT_S) == 0
    with administered(broker, tmp_path / "data") as at:
        commit_some(at.shim.bootstrap, group, topic, {0: 5})
        wait_until(lambda: committed(broker.bootstrap_servers, group, topic) == 5, "it does not arrive")
    commit_some(broker.bootstrap_servers, group, topic, {1: 7})
    with administered(broker, tmp_path / "data", **{"offsets.mirror.upstream": "false"}) as at:
        commit_some(at.shim.bootstrap, group, topic, {0: 60})
        at.shim.kill()
    with administered(broker, tmp_path / "data") as at:
        wait_until(lambda: _SAYS in _alarm(at, group), "it does not say so")
        alarm = _alarm(at, group)
        assert f"{_SAYS}{topic}-1 (none here, 7 there); only behind there (1): {topic}-0 (60 here, 5 there); " in alarm
        shown = offset_shim(
            "groups", "reset", group, "--from-upstream", "--dry-run", "--json", "--admin", at.address
        ).json["offsets"]
        assert [(each["offset"], each["new_offset"]) for each in shown] == [(60, 5), (None, 7)]
        take, leave, _ = re.findall("`(groups reset .*?)`", alarm)
        assert take == f"groups reset {group} --from-upstream --topic {topic}:1"
        taken = offset_shim(*shlex.split(take), "--admin", at.address)
        assert taken.status == 0, taken
        assert f"{_SAYS}only behind there (1): " in _alarm(at, group), "it is as it was before"
        left = offset_shim(*shlex.split(leave), "--admin", at.address)
        assert left.status == 0, left
        assert _alarm(at, group) == "", "it stays"
        assert committed_of_two(at.shim.bootstrap, group, topic) == {0: 60, 1: 7}
        assert committed_of_two(broker.bootstrap_servers, group, topic) == {0: 60, 1: 7}


def test_what_was_set_back_just_before_the_end_is_given_back_by_nobody(
    broker: Broker, tmp_path: Path, make_topic: TopicFactory, group: str
) -> None:
    """The cluster's are those of before: nobody was there, which cannot be told. Without a mirror it is the shim's."""
    topic = make_topic()
    commit(broker.bootstrap_servers, group, topic, 17)
    with administered(broker, tmp_path / "data", **{"offsets.mirror.upstream": "false"}) as at:
        assert at.migrate("start", group).status == 0
        commit(at.shim.bootstrap, group, topic, 5)
    with administered(broker, tmp_path / "data") as at:
        wait_until(lambda: _SAYS in _alarm(at, group), "it does not say so")
        assert at.migrate("rollback", group).status == 1
        assert committed(at.shim.bootstrap, group, topic) == 5
        ours = offset_shim("groups", "reset", group, "--to-current", "--all-topics", "--admin", at.address)
        assert ours.status == 0, ours
        assert _alarm(at, group) == ""
        assert committed(broker.bootstrap_servers, group, topic) == 5
    with administered(broker, tmp_path / "data", **{"offsets.mirror.upstream": "false"}) as at:
        given_back = at.migrate("rollback", group)
        assert given_back.status == 0, given_back
        assert committed(broker.bootstrap_servers, group, topic) == 5
