"""Which broker is believed of a group, where one of them does not know that it has been deposed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import describe_groups, describe_producers, find_coordinator, list_groups, metadata, offset_fetch
from protocol.partition import OFFSETS_TOPIC, partition_for
from protocol.topic_partition import TopicPartition
from protocol.wire import ZERO_UUID
from shim.config import HostPort, Settings
from shim.offsets.cluster import leaders as room
from shim.offsets.cluster.brokers import BrokerRefused, Brokers
from shim.offsets.cluster.groups import ClusterGroups
from shim.offsets.cluster.kept_brokers import KeptBrokers
from shim.offsets.cluster.leaders import OffsetsLeaders
from shim.upstream import Cluster
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import UpstreamError
from shim.upstream.topic_leaders import Leader
from tests.waiting import until

PARTITIONS = 3
GROUP = "a group"
AT = partition_for(GROUP, PARTITIONS)
AWAY, HANGS = "away", "hangs"
LEADS = 3
ITS_ID = b"\1" * 16

Told = Leader | ErrorCode | str
"""Who leads all partitions, as a broker says; or why it does not."""


class FakeBrokers:
    """Each is asked for Metadata, FindCoordinator and OffsetFetch, and says what it takes for true. ``offsets``: what
    each of them has of every group."""

    def __init__(self, told: Mapping[int, Told], offsets: Mapping[int, int] | None = None, *, newest: int = 13) -> None:
        self.told = dict(told)
        self.offsets = dict(offsets or {})
        self.ids: dict[int, bytes] = {}
        """Of the topic, as a broker says; the same, of those that are not here."""
        self.states: dict[int, str] = {}
        """Of the group, as a broker lists it; those that are not here list none."""
        self.asked = Counter[tuple[str, int]]()
        self._newest = newest

    @property
    def addresses(self) -> Mapping[int, HostPort]:
        return {node_id: HostPort("127.0.0.1", node_id) for node_id in self.told}

    async def newest(self, node_id: int, api: Api[Any, Any], *, at_least: int, at_most: int) -> int:
        return min(at_most, self._newest) if api is metadata.API else at_most

    async def offers(self, node_id: int, api: Api[Any, Any]) -> bool:
        return True

    async def ask(self, node_id: int, api: Api[Any, Any], request: Any, *, version: int | None = None) -> Any:
        self.asked[api.name, node_id] += 1
        told = self.told[node_id]
        if told == AWAY:
            raise UpstreamError(f"broker {node_id} is away")
        if told == HANGS:
            await asyncio.Event().wait()
        if api is offset_fetch.API:
            partition = offset_fetch.OffsetFetchResponsePartitions(0, self.offsets[node_id])
            topics = (offset_fetch.OffsetFetchResponseTopics("t", partitions=(partition,)),)
            groups = tuple(offset_fetch.OffsetFetchResponseGroup(each.group_id, topics) for each in request.groups)
            return offset_fetch.OffsetFetchResponse(groups=groups)
        if api is list_groups.API:
            its = self.states.get(node_id)
            return list_groups.ListGroupsResponse(
                groups=() if its is None else (list_groups.ListedGroup(GROUP, "consumer", its),)
            )
        if api is describe_groups.API:
            state = "Stable" if node_id == LEADS else "Empty"
            described = (describe_groups.DescribedGroup(0, group_id=each, group_state=state) for each in request.groups)
            return describe_groups.DescribeGroupsResponse(groups=tuple(described))
        if api is describe_producers.API:
            begun = describe_producers.ProducerState(node_id, 0, 0, 0, 0, 5)
            partition_state = describe_producers.PartitionResponse(AT, 0, None, (begun,))
            return describe_producers.DescribeProducersResponse(
                0, (describe_producers.TopicResponse(OFFSETS_TOPIC, (partition_state,)),)
            )
        if api is find_coordinator.API:
            assert isinstance(told, Leader)
            keys = request.coordinator_keys
            return find_coordinator.FindCoordinatorResponse(
                coordinators=tuple(find_coordinator.Coordinator(key, told.node_id, "127.0.0.1", 1, 0) for key in keys)
            )
        assert api is metadata.API
        api.request_frame(version or 0, 1, "", request)  # it can be sent
        if isinstance(told, ErrorCode):
            return metadata.MetadataResponse(topics=(metadata.MetadataResponseTopic(told, OFFSETS_TOPIC),))
        assert isinstance(told, Leader)
        led = (metadata.MetadataResponsePartition(0, number, told.node_id, told.epoch) for number in range(PARTITIONS))
        topic_id = self.ids.get(node_id, ITS_ID if version and version >= 10 else ZERO_UUID)
        topic = metadata.MetadataResponseTopic(0, OFFSETS_TOPIC, topic_id, partitions=tuple(led))
        return metadata.MetadataResponse(topics=(topic,))


def leaders_of(brokers: FakeBrokers) -> OffsetsLeaders:
    return OffsetsLeaders(cast(Brokers, brokers))


async def believed(leaders: OffsetsLeaders, node_ids: Collection[int] = (1, 2, 3)) -> set[int]:
    return {node_id for node_id in node_ids if not await leaders.refused(node_id, [GROUP])}


async def test_the_newest_leader_is_believed_whoever_else_says_that_it_leads(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(room, "_BELIEVED_SECONDS", 0.0)
    brokers = FakeBrokers({1: Leader(3, 7), 2: Leader(2, 6), 3: Leader(3, 7)})
    leaders = leaders_of(brokers)
    refused = await leaders.refused(2, [GROUP])
    assert str(refused[GROUP]) == f"group {GROUP}: broker 3 leads {OFFSETS_TOPIC}-{AT} by now: NOT_COORDINATOR"
    assert await believed(leaders, [2, 3]) == {3}
    what = "what broker 2 tells of groups is not believed"
    assert caplog.messages == [f"{what} for now: {refused[GROUP]}"]
    brokers.told[2] = Leader(3, 7)
    assert await believed(leaders, [3]) == {3}
    assert caplog.messages[1:] == [f"this is over: {what}"]


async def test_one_alone_is_not_believed() -> None:
    """It may be the one that is cut off, together with the shim."""
    leaders = leaders_of(FakeBrokers({1: AWAY, 2: Leader(2, 6), 3: AWAY}))
    with pytest.raises(UpstreamError, match=r"1 of 3 brokers have answered, and most must; broker 1 is away; broker 3"):
        await leaders.refused(2, [GROUP])


async def test_the_only_broker_is_believed() -> None:
    assert await believed(leaders_of(FakeBrokers({1: Leader(1, 0)})), [1]) == {1}


async def test_most_of_them_are_enough_where_one_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_ANSWERED_WITHIN_SECONDS", 60.0)
    brokers = FakeBrokers({1: Leader(3, 7), 2: HANGS, 3: Leader(3, 7)})
    leaders = leaders_of(brokers)
    async with asyncio.timeout(30):
        assert await believed(leaders) == {3}
    brokers.told[2] = Leader(2, 8)  # it answers again, and is asked as the others are
    monkeypatch.setattr(room, "_BELIEVED_SECONDS", 0.0)
    monkeypatch.setattr(room, "_LATE_WITHIN_SECONDS", 60.0)
    assert await believed(leaders) == {2}


async def test_the_whole_look_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_ANSWERED_WITHIN_SECONDS", 0.05)
    leaders = leaders_of(FakeBrokers({1: HANGS, 2: Leader(2, 6), 3: HANGS}))
    with pytest.raises(UpstreamError, match=r"1 of 3 .* broker 1 at 127.0.0.1:1 has not; broker 3 at 127.0.0.1:3 has"):
        await leaders.refused(2, [GROUP])


async def test_who_coordinates_many_groups_is_asked_in_few_requests() -> None:
    brokers = FakeBrokers({1: Leader(1, 0)}, {1: 5})
    cluster_groups = ClusterGroups(cast(Brokers, brokers))
    names = [f"group {number}" for number in range(120)]
    assert (await cluster_groups.offsets_of(names)).keys() == set(names)
    assert brokers.asked["FindCoordinator", 1] == 3
    assert brokers.asked["OffsetFetch", 1] == 3
    await cluster_groups.offsets_of(names)
    assert brokers.asked["FindCoordinator", 1] == 3, "they are known"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({1: Leader(3), 2: Leader(2), 3: Leader(3)}, {3}),
        ({1: Leader(3), 2: Leader(2), 3: AWAY}, set()),
        ({1: Leader(3, 7), 2: Leader(2), 3: Leader(2)}, {2}),  # some have been upgraded
        ({1: Leader(3, 7), 2: Leader(3), 3: Leader(2)}, {3}),
        ({1: Leader(3), 2: Leader(2), 3: Leader(1)}, set()),
    ],
)
async def test_brokers_that_tell_no_epochs_are_believed_where_most_say_the_same(
    told: Mapping[int, Told], expected: set[int]
) -> None:
    """Before Kafka 2.1."""
    assert await believed(leaders_of(FakeBrokers(told, newest=3))) == expected


@pytest.mark.parametrize(("others", "expected"), [(Leader(3, 0), {3}), (AWAY, set())])
async def test_of_the_topic_that_was_made_anew_epochs_of_before_do_not_count(others: Told, expected: set[int]) -> None:
    """Whoever has not heard of it has the newest epoch, of what there is no more."""
    brokers = FakeBrokers({1: others, 2: Leader(2, 6), 3: Leader(3, 0)})
    brokers.ids[2] = b"\0" * 15 + b"\1"
    assert await believed(leaders_of(brokers)) == expected


async def test_a_connection_that_is_open_too_late_for_one_look_is_there_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where each look began it anew it would never be: nobody else may ask that broker anything."""
    monkeypatch.setattr(room, "_ANSWERED_WITHIN_SECONDS", 0.05)
    fake = FakeBrokers({1: Leader(3, 7), 2: Leader(2, 6), 3: Leader(3, 7)})
    opened, is_ready = Counter[int](), asyncio.Event()

    async def slow(its: BrokerConnection) -> None:
        opened[its.address.port] += 1
        await is_ready.wait()

    async def ask(its: BrokerConnection, api: Api[Any, Any], request: Any, **versions: int) -> Any:
        return await fake.ask(its.address.port, api, request, version=versions["at_most"])

    monkeypatch.setattr(BrokerConnection, "open", slow)
    monkeypatch.setattr(BrokerConnection, "versions", lambda _, api: api.versions)
    monkeypatch.setattr(BrokerConnection, "ask", ask)
    cluster = SimpleNamespace(brokers=fake.addresses, any_address=lambda: tuple(fake.addresses.values()))
    brokers = KeptBrokers(cast(Cluster, cluster), Settings())
    leaders = OffsetsLeaders(brokers)
    for _ in range(3):
        with pytest.raises(UpstreamError, match="0 of 3 brokers have answered"):
            await leaders.refused(3, [GROUP])
    is_ready.set()
    monkeypatch.setattr(room, "_ANSWERED_WITHIN_SECONDS", 60.0)
    assert await believed(leaders) == {3}
    assert opened == {1: 1, 2: 1, 3: 1}
    brokers.close()


async def test_one_that_leaves_the_cluster_during_a_look_is_named_by_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "_ANSWERED_WITHIN_SECONDS", 0.2)
    brokers = FakeBrokers({1: AWAY, 2: HANGS, 3: Leader(3, 7)})
    asked = asyncio.create_task(leaders_of(brokers).refused(3, [GROUP]))
    await until(lambda: brokers.asked["Metadata", 2] == 1)
    del brokers.told[2]
    with pytest.raises(UpstreamError, match=r"broker 2 at 127.0.0.1:2 has not"):
        await asked


async def test_whoever_has_patience_waits_until_most_brokers_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or until the cluster lists the one no more that does not."""
    monkeypatch.setattr(room, "_ANSWERED_WITHIN_SECONDS", 0.05)
    brokers = FakeBrokers({LEADS: Leader(LEADS, 7), 2: HANGS})
    asked = asyncio.create_task(ClusterGroups(cast(Brokers, brokers), 60.0).state_of(GROUP))
    await until(lambda: brokers.asked["Metadata", 2] == 2)
    del brokers.told[2]
    assert await asked == "Stable"


@pytest.mark.parametrize(
    ("look_seconds", "why"),
    [
        (0.05, r"1 of 2 brokers have answered, and most must; broker 2 at 127.0.0.1:2 has not"),
        (60.0, f"who leads {OFFSETS_TOPIC} is not known, as others have not answered in 0.5 s"),
    ],
)
async def test_who_has_answered_is_not_blamed_for_others(
    look_seconds: float, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_ANSWERED_WITHIN_SECONDS", look_seconds)
    brokers = FakeBrokers({LEADS: Leader(LEADS, 7), 2: HANGS})
    groups = ClusterGroups(cast(Brokers, brokers))
    found = (await groups.all_described([GROUP], 0.5))[GROUP]
    assert isinstance(found, UpstreamError)
    assert why in str(found)
    assert groups._coordinators._silent == set()


@pytest.mark.parametrize("one_and_the_other", [("Stable", "Empty"), ("Empty", "Stable")])
async def test_a_group_that_two_brokers_list_may_have_members_where_one_says_so(
    one_and_the_other: tuple[str, str],
) -> None:
    brokers = one_cut_off()
    brokers.states[2], brokers.states[3] = one_and_the_other
    listed = await ClusterGroups(cast(Brokers, brokers)).listed()
    assert listed.groups[GROUP].state == "Stable"


async def test_where_nothing_is_told_of_any_group_nobody_is_asked() -> None:
    brokers = FakeBrokers({1: AWAY, 2: Leader(2, 6), 3: AWAY})
    assert await leaders_of(brokers).refused(2, []) == {}
    assert not brokers.asked


async def test_nobody_leads(caplog: pytest.LogCaptureFixture) -> None:
    leaders = leaders_of(FakeBrokers({1: Leader(-1, 7), 2: Leader(2, 6), 3: Leader(-1, 7)}))
    assert await believed(leaders) == set()
    assert "nobody leads" in caplog.text


async def test_before_there_is_a_topic_nobody_is_believed() -> None:
    none = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    brokers = FakeBrokers({1: none, 2: none, 3: none})
    leaders = leaders_of(brokers)
    assert await believed(leaders) == set()
    with pytest.raises(BrokerRefused, match="UNKNOWN_TOPIC"):
        await leaders.partitions()
    brokers.told[3] = Leader(3, 0)
    assert await believed(leaders) == set(), "most have not heard of it yet"
    brokers.told[1] = Leader(3, 0)
    assert await believed(leaders) == {3}
    assert await leaders.partitions() == PARTITIONS


async def test_whoever_may_not_see_the_topic_believes_what_brokers_say(caplog: pytest.LogCaptureFixture) -> None:
    hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    brokers = FakeBrokers({1: hidden, 2: Leader(2, 6), 3: hidden})
    leaders = leaders_of(brokers)
    for _ in range(2):
        assert await believed(leaders) == {1, 2, 3}
    (told,) = caplog.messages
    assert f"{OFFSETS_TOPIC} may not be described" in told
    with pytest.raises(BrokerRefused, match="TOPIC_AUTHORIZATION_FAILED"):
        await leaders.partitions()


async def test_one_look_serves_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_BELIEVED_SECONDS", 60.0)
    brokers = FakeBrokers({1: Leader(3, 7), 2: Leader(3, 7), 3: Leader(3, 7)})
    leaders = leaders_of(brokers)
    asked = (leaders.refused(3, [GROUP]) for _ in range(100))
    assert not any(await asyncio.gather(*asked))
    assert brokers.asked == {("Metadata", node_id): 1 for node_id in (1, 2, 3)}
    for node_id in brokers.told:
        brokers.told[node_id] = Leader(1, 8)
    assert await leaders.refused(1, [GROUP]) == {}, "it was not looked again, for one that leads since the last look"
    assert brokers.asked == {("Metadata", node_id): 2 for node_id in (1, 2, 3)}


async def test_a_look_goes_on_for_as_long_as_anybody_waits_for_it() -> None:
    brokers = FakeBrokers({3: HANGS})
    leaders = leaders_of(brokers)
    waiting = [asyncio.create_task(leaders.refused(3, [GROUP])) for _ in range(2)]
    await until(lambda: brokers.asked["Metadata", 3] == 1)
    before = asyncio.all_tasks()
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    assert asyncio.all_tasks() == before - {waiting[0]}
    waiting[1].cancel()
    await asyncio.wait(waiting)
    brokers.told[3] = Leader(3, 7)
    assert await leaders.refused(3, [GROUP]) == {}, "whoever comes then is answered by a look that is begun anew"
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


@pytest.mark.parametrize("told", [Leader(3, 7), AWAY])
async def test_whoever_asks_at_the_moment_when_a_look_ends_is_answered(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_BELIEVED_SECONDS", 0.0)
    leaders = leaders_of(FakeBrokers({3: told}))

    async def after(turns: int) -> bool:
        for _ in range(turns):
            await asyncio.sleep(0)
        try:
            return not await leaders.refused(3, [GROUP])
        except UpstreamError:
            return False

    assert set(await asyncio.gather(*map(after, range(100)))) == {told != AWAY}


def one_cut_off() -> FakeBrokers:
    """It names itself."""
    return FakeBrokers({1: Leader(LEADS, 7), 2: Leader(2, 6), 3: Leader(LEADS, 7)}, {1: 11, 2: 12, LEADS: 17})


async def asked_in_turn(brokers: FakeBrokers, first: int) -> ClusterGroups:
    """Of these the one after so many others is asked first who coordinates a group."""
    groups = ClusterGroups(cast(Brokers, brokers))
    for number in range(first):
        await groups.state_of(f"{GROUP}, {number}")
    return groups


@pytest.mark.parametrize("first", [0, 1])
async def test_what_a_broker_tells_that_names_itself_and_leads_no_more_is_not_believed(first: int) -> None:
    brokers = one_cut_off()
    found = (await (await asked_in_turn(brokers, first)).offsets_of([GROUP]))[GROUP]
    assert {at: its.offset for at, its in found.items()} == {TopicPartition("t", 0): 17}
    assert await (await asked_in_turn(brokers, first)).state_of(GROUP) == "Stable"
    groups = await asked_in_turn(brokers, first)
    described = (await groups.all_described([GROUP], 60.0))[GROUP]
    assert not isinstance(described, UpstreamError)
    assert described.group_state == "Stable"
    # Of its transactions those that are known by the producers' ids are passed over.
    await (await asked_in_turn(brokers, first)).transactions_ended(GROUP, [LEADS])
    for name in ("OffsetFetch", "DescribeGroups", "DescribeProducers"):
        assert (brokers.asked[name, 2] > 0) == (first == 1), "the one that is cut off was never asked"
