"""What a shim makes of what the group agrees on: what it says of itself, what it has, and what clients are told."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from typing import cast

import pytest

import shim.kafka_log.backend as backend_module
import shim.ownership.sharing as sharing_module
from protocol.errors import ErrorCode
from protocol.own.shim_group import (
    ListenerAddress,
    ShimMember,
    decode_assignment,
    decode_member,
    encode_assignment,
    encode_member,
)
from shim.config import HostPort, Settings
from shim.kafka_log.backend import KafkaBackend
from shim.kafka_log.topics.ready import LogTopics
from shim.ownership.assignment import Shares, assign
from shim.ownership.member import GroupMember
from shim.ownership.shared_ports import SharedPorts
from shim.ownership.sharing import Sharing
from shim.runtime import Clock, Runtime
from shim.upstream import Cluster, PortMap, UpstreamError
from shim.upstream.coordinators import Coordinators, KeyType
from shim.upstream.topic_leaders import LedTopic, Place, TopicLeaders

BROKERS = {1: HostPort("kafka-1", 9092), 2: HostPort("kafka-2", 9092)}
LISTENER = "PLAINTEXT"
PARTITIONS = 4


class Owning:
    """Stands for the runtime: what it was told to own."""

    num_partitions = PARTITIONS

    def __init__(self) -> None:
        self.owned: list[frozenset[int]] = []
        self.followed: list[frozenset[int]] = []

    def own(self, numbers: Collection[int], followed: Collection[int] = ()) -> None:
        self.owned.append(frozenset(numbers))
        self.followed.append(frozenset(followed))


class Leaders:
    def __init__(self, *nodes: int) -> None:
        self.nodes = nodes

    async def look_up(self, patience: float) -> LedTopic:
        if not self.nodes:
            raise UpstreamError("nobody says so")
        return LedTopic(bytes(16), {number: Place(BROKERS.get(node), 0) for number, node in enumerate(self.nodes)})


class Client:
    def __init__(self) -> None:
        self.coordinators: dict[int, HostPort] = {}


def address(host: str) -> tuple[ListenerAddress, ...]:
    return (ListenerAddress(LISTENER, host, 19092),)


def member(name: str, generation: int = -1, *node_ids: int) -> ShimMember:
    return ShimMember(name, address(name), generation, node_ids, ())


async def sharing(
    name: str = "a", leaders: Leaders | None = None, settings: Settings | None = None
) -> tuple[Sharing, Owning]:
    settings, cluster = settings or Settings(), Cluster((), Settings())
    await cluster.take(BROKERS)
    owning = Owning()
    made = Sharing(cluster, settings, cast(Runtime, owning), name, address(name))
    made._leaders = cast(TopicLeaders, leaders or Leaders(1, 2, 1, 2))
    return made, owning


def told(members: dict[str, ShimMember], leaders: dict[int, int]) -> bytes:
    return encode_assignment(assign(members, leaders, BROKERS.keys(), PARTITIONS))


async def test_what_it_says_of_itself_changes_with_each_generation_that_it_knows() -> None:
    """Or brokers would not see that it wants everything shared out anew."""
    its, owning = await sharing()
    assert decode_member(its._metadata()) == member("a")
    its._assigned("i", 3, told({"i": member("a"), "j": member("b")}, {0: 1, 1: 2, 2: 1, 3: 2}))
    assert decode_member(its._metadata()) == member("a", 3, 1)._replace(follows=(2,))
    assert owning.owned == [{0, 2}]
    assert owning.followed == [{1, 3}]


async def test_without_standbys_it_follows_nobody_and_says_so() -> None:
    its, owning = await sharing(settings=Settings(standby_replicas=0))
    assert decode_member(its._metadata()).follows is None
    its._assigned("i", 3, told({"i": member("a"), "j": member("b")}, {0: 1, 1: 2, 2: 1, 3: 2}))
    assert decode_member(its._metadata()) == member("a", 3, 1)._replace(follows=None)
    assert owning.owned == [{0, 2}]
    assert owning.followed == [set()]


async def test_it_shares_out_by_who_leads() -> None:
    its, _ = await sharing()
    members = {"i": encode_member(member("a")), "j": encode_member(member("b")), "k": b"of another release"}
    assignment = decode_assignment(await its._assign(members))
    assert assignment.partitions == (1, 2, 1, 2)
    assert [shim.name for shim in assignment.shims] == ["a", "b"]
    with pytest.raises(UpstreamError, match="nobody to share"):
        await its._assign({"k": b"of another release"})


async def test_with_another_number_of_partitions_one_has_all() -> None:
    its, _ = await sharing(leaders=Leaders(1, 2, 1))
    members = {"i": member("a"), "j": member("b", 4, 1, 2), "k": member("c", 7)}
    assignment = decode_assignment(await its._assign({name: encode_member(each) for name, each in members.items()}))
    assert Shares(assignment, 8, "j").owned == {0, 1, 2, 3}
    assert Shares(assignment, 8, "j").node_ids == (1, 2)
    assert [shim.name for shim in assignment.shims] == ["a", "b", "c"], "those that stand by are told of, too"
    idle = Shares(assignment, 8, "k")
    assert (idle.owned, idle.node_ids, idle.followed) == (frozenset(), (), frozenset())
    its._assigned("k", 8, encode_assignment(assignment))
    assert [its.named_owner(number) for number in range(PARTITIONS)] == ["b"] * PARTITIONS
    assert its.other_owners() == ["b"]


async def test_that_one_has_all_is_over_where_the_leader_counts_as_many_or_several_have_some(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    lines = ["one shim has all groups for now: ", "this is over: one shim has all groups"]
    three, as_many = Leaders(1, 2, 1), Leaders(1, 2, 1, 2)
    for again_with in (as_many, three):
        caplog.clear()
        its, _ = await sharing(leaders=three)
        both = {"i": member("a"), "j": member("b")}
        for _ in range(2):
            data = await its._assign({name: encode_member(each) for name, each in both.items()})
            its._assigned("i", 1, data)
        its._leaders = cast(TopicLeaders, again_with)
        if again_with is as_many:
            await its._leaders_now()
        else:  # another one leads, and has counted
            its._assigned("i", 2, told(both, {0: 1, 1: 2, 2: 1, 3: 2}))
        found = [each for each in caplog.messages if "one shim has all groups" in each]
        assert [line[: len(lines[number])] for number, line in enumerate(found)] == lines


async def test_who_leads_is_asked_by_whoever_leads_the_group_and_it_is_not_over_for_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, sharing_module.__name__)
    its, _ = await sharing(leaders=Leaders(), settings=Settings(topology_refresh_interval_ms=1))
    its._assigned("i", 1, told({"i": member("a")}, {0: 1, 1: 2, 2: 1, 3: 2}))
    caplog.clear()
    looked = asyncio.Event()

    class Leading:
        """Of every second look, as others lead between."""

        looks = 0

        @property
        def is_leader(self) -> bool:
            self.looks += 1
            if self.looks > 3:
                looked.set()
            return self.looks % 2 == 1

    following = asyncio.ensure_future(its._follow_leaders(cast(GroupMember, Leading())))
    async with asyncio.timeout(10):
        await looked.wait()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    line = "who leads partitions of the cluster's offsets is not known for now: nobody says so"
    assert caplog.messages == [line] * 2


async def test_what_was_shared_out_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Brokers by their ids, and shims in the order of their names, so that two lines can be compared."""
    caplog.set_level(logging.INFO, "shim.ownership.sharing")
    its, _ = await sharing()
    its._assigned("i", 3, told({"i": member("b"), "j": member("a")}, {0: 1, 1: 2, 2: 1, 3: 2}))
    its._assigned("i", 4, told({"i": member("b")}, {0: 1, 1: 2, 2: 1, 3: 2}))
    assert [each.getMessage() for each in caplog.records] == [
        "generation 3: 2 partitions of 4, with broker ids 1; standby of 2; shims: a, b",
        "generation 4: 4 partitions of 4, with broker ids 1, 2; standby of 0; shims: b",
    ]


async def test_what_cannot_be_read_changes_nothing() -> None:
    its, owning = await sharing()
    other = assign({"i": member("a")}, {}, BROKERS.keys(), PARTITIONS + 1)
    for wrong in (b"", b"of another release", encode_assignment(other)):
        its._assigned("i", 3, wrong)
    assert (its.shares, owning.owned) == (None, [])


async def test_it_is_wrong_where_a_leader_has_moved_or_a_broker_is_new() -> None:
    its, _ = await sharing()
    shares = Shares(assign({"i": member("a")}, {0: 1, 1: 2, 2: 1, 3: 2}, (1, 2), PARTITIONS), 1, "i")
    assert its._wrong(shares, {0: 1, 1: 2}) == set()
    assert its._wrong(shares, None) == set()
    assert its._wrong(shares, {0: 2, 1: 2}) == {(0, 2)}
    await its._cluster.take({**BROKERS, 3: HostPort("kafka-3", 9092)})
    assert its._wrong(shares, {0: 1}) == {(None, 3)}


async def test_the_group_is_looked_for_when_the_topics_of_the_log_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or in a new cluster that makes `__consumer_offsets` of fewer brokers than are waited for."""
    happened: list[str] = []
    looked_for = asyncio.Event()

    async def make_ready(*_: object) -> LogTopics:
        for _turn in range(100):  # whoever does not wait for it comes first
            await asyncio.sleep(0)
        happened.append("topics ready")
        return LogTopics("offsets", "history", bytes(16), PARTITIONS, 1 << 20, 1 << 20, 3_600_000, 60.0)

    async def of(_: Coordinators, key: str, key_type: KeyType) -> tuple[ErrorCode, HostPort | None]:
        happened.append(f"{key_type.name} {key}")
        looked_for.set()
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, None

    monkeypatch.setattr(backend_module, "make_ready", make_ready)
    monkeypatch.setattr(Coordinators, "of", of)
    settings, cluster, claimed = (
        Settings(offsets_topic_num_partitions=PARTITIONS),
        Cluster((), Settings()),
        asyncio.Event(),
    )
    claimed.set()
    runtime = Runtime(KafkaBackend(cluster, settings, Clock(), claimed), settings, Clock())
    its = Sharing(cluster, settings, runtime, "a", address("a"))
    tasks = [asyncio.create_task(its.run(lambda: "i")), asyncio.create_task(runtime.load())]
    try:
        async with asyncio.timeout(10):
            await looked_for.wait()
    finally:
        runtime.stop()
        tasks[0].cancel()
        await asyncio.wait(tasks)
        await runtime.close(10.0, its.leave)
    assert happened[:2] == ["topics ready", "GROUP __offset_shim"]


async def test_one_whose_brokers_lead_nothing_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    its, _ = await sharing()
    both = {"i": member("a"), "j": member("b")}
    for generation in (1, 2):
        its._assigned("j", generation, told(both, dict.fromkeys(range(PARTITIONS), 1)))
    assert its.shares is not None
    assert (its.shares.node_ids, its.shares.owned) == ((2,), frozenset())
    warned = "this shim has no groups for now: of the brokers at it (2) none leads a partition of __consumer_offsets"
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [warned]
    its._assigned("j", 3, told(both, {0: 1, 1: 1, 2: 1, 3: 2}))
    its._assigned("j", 4, told(both, dict.fromkeys(range(PARTITIONS), 1)))
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [warned] * 2


async def test_one_that_stands_by_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """There are more shims than brokers."""
    its, _ = await sharing()
    three = {"i": member("a", 1, 1), "j": member("b", 1, 2), "k": member("c")}
    its._assigned("k", 2, told(three, {0: 1, 1: 2, 2: 1, 3: 2}))
    assert its.shares is not None
    assert (its.shares.node_ids, its.shares.owned) == ((), frozenset())
    assert not [each for each in caplog.records if each.levelname == "WARNING"]


# --- what clients are told


async def test_where_clients_find_brokers_and_coordinators() -> None:
    its, _ = await sharing()
    ports = SharedPorts(PortMap("a", 19092), LISTENER, its)
    client = Client()
    assert ports.of(2) == HostPort("a", 19095), "all is here, as long as it knows of no others"
    assert ports.coordinator_of(1, 2, client) == HostPort("a", 19095)
    assert (ports.home_of(0, [1, 2]), ports.home_of(1, [1, 2])) == (1, 2)
    both = {"i": member("a", 1, 1), "j": member("b", 1, 2)}
    its._assigned("i", 2, told(both, {0: 1, 1: 2, 2: 2, 3: 2}))
    assert (ports.of(1), ports.of(2)) == (HostPort("a", 19094), HostPort("b", 19095))
    assert ports.of(3) == HostPort("a", 19096), "of one that is new nobody knows where it stands"
    assert (ports.home_of(0, [1, 2]), ports.home_of(2, [1, 2]), ports.home_of(2, [1])) == (1, 2, 1)
    assert ports.coordinator_of(1, 2, client) == HostPort("b", 19095)
    assert ports.coordinator_of(1, 1, client) == HostPort("b", 19094), "the owner, for whichever broker leads now"


async def test_a_client_has_to_unlearn_a_coordinator_that_has_moved() -> None:
    its, _ = await sharing()
    ports = SharedPorts(PortMap("a", 19092), LISTENER, its)
    both = {"i": member("a", 1, 1), "j": member("b", 1, 2)}
    leaders = {0: 1, 1: 2, 2: 1, 3: 2}
    its._assigned("i", 2, told(both, leaders))
    old = Client()
    assert ports.coordinator_of(1, 2, old) == HostPort("b", 19095)
    its._assigned("i", 3, told({"i": both["i"]}, leaders))
    assert ports.coordinator_of(1, 2, old) is None
    assert ports.coordinator_of(1, 2, old) == HostPort("a", 19095)
    new = Client()
    assert ports.coordinator_of(1, 2, new) is None, "it may have been told on a connection that was lost"
    assert ports.coordinator_of(1, 2, new) == HostPort("a", 19095)
    assert ports.coordinator_of(0, 1, Client()) == HostPort("a", 19094), "this one was here all the time"
    its._moved_at.clear()  # it is long ago
    assert ports.coordinator_of(1, 2, Client()) == HostPort("a", 19095)


async def test_clients_are_led_away_from_brokers_that_stand_elsewhere_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing_module, "_AGAIN_SECONDS", 0.0)
    its, _ = await sharing()
    led: asyncio.Queue[set[int]] = asyncio.Queue()
    its.lead_away = lambda node_ids: led.put_nowait(set(node_ids))
    leading = asyncio.create_task(its._lead_clients_away())
    leaders = {0: 1, 1: 2, 2: 1, 3: 2}
    both = {"i": member("a", 1, 1), "j": member("b", 1, 2)}
    try:
        its._assigned("i", 1, told({"i": member("a")}, leaders))
        its._assigned("i", 2, told(both, leaders))
        async with asyncio.timeout(10):
            assert [await led.get() for _ in range(3)] == [{2}, {2}, {2}], "again and again"
        its._assigned("i", 3, told({"i": both["i"]}, leaders))
        assert its._still_gone() == set(), "it is back"
        its._assigned("i", 4, told(both, leaders))
        assert its._still_gone() == {2}
        its._gone = dict.fromkeys(its._gone, time.monotonic() - 11)
        assert its._still_gone() == set(), "it is long ago"
    finally:
        leading.cancel()
        await asyncio.wait([leading])
