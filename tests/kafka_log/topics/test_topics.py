"""The two topics of the log: made, made by two at once, looked at, refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from protocol.errors import ErrorCode
from protocol.messages import create_topics, metadata
from shim.config import HostPort, Settings
from shim.demo.parts import Broker
from shim.demo.parts import Cluster as Parts
from shim.demo.parts.ports import free_port
from shim.demo.parts.server import Server
from shim.kafka_log.topics import brokers
from shim.kafka_log.topics import ready as making
from shim.kafka_log.topics.ready import LogTopics, make_ready
from shim.kafka_log.topics.wanted import (
    BrokersMissing,
    Found,
    NotYet,
    TopicsUnfit,
    TopicsWanted,
    complaints,
    owner_again_seconds,
    replicas_for,
)
from shim.upstream import Cluster, UpstreamError
from shim.upstream.connection import BrokerConnection
from shim.upstream.errors import AuthenticationFailed
from shim.upstream.kept_connection import KeptConnection
from tests.authorization.guarded import Guarded, Rule, guarded_broker
from tests.conftest import TopicFactory
from tests.hung import hung
from tests.legacy.parts import KAFKA_2, KAFKA_3, LegacyBroker
from tests.waiting import until_told

TIMEOUT_S = 60.0
SHORT_S = 0.3
NO_ID = bytes(16)
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
FIT = {
    "cleanup.policy": "compact",
    "unclean.leader.election.enable": "false",
    "min.insync.replicas": "2",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": "1048637",
    "delete.retention.ms": "3600000",
    "min.compaction.lag.ms": "60000",
}
FIT_HISTORY = FIT | {"cleanup.policy": "delete"}
MADE_WITH = {
    "compression.type": "producer",
    "segment.bytes": "2000000",
    "unclean.leader.election.enable": "false",
    "delete.retention.ms": str(7 * 24 * HOUR_MS),
    "min.compaction.lag.ms": "60000",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(16 * 1024 * 1024),
}


def wanted(prefix: str, partitions: int = 1, factor: int = 1) -> TopicsWanted:
    return TopicsWanted(prefix, partitions, factor, segment_bytes=2_000_000, history_retention_minutes=90)


async def ready(
    asked: Sequence[Broker | LegacyBroker], them: TopicsWanted, patience_seconds: float = TIMEOUT_S
) -> LogTopics:
    cluster = Cluster([HostPort(broker.host, broker.port) for broker in asked], Settings())
    return await make_ready(cluster, Settings(), them, patience_seconds)


async def described(broker: Broker | LegacyBroker, *names: str) -> dict[str, metadata.MetadataResponseTopic]:
    connection = BrokerConnection(HostPort(broker.host, broker.port), Settings())
    await connection.open()
    request = metadata.MetadataRequest(
        tuple(metadata.MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=False
    )
    answer = await connection.ask(metadata.API, request)
    connection.close()
    return {topic.name or "": topic for topic in answer.topics if not topic.error_code}


async def nodes(broker: Broker) -> set[int]:
    """Those of the cluster, as it knows them."""
    connection = BrokerConnection(HostPort(broker.host, broker.port), Settings())
    await connection.open()
    answer = await connection.ask(metadata.API, metadata.MetadataRequest((), allow_auto_topic_creation=False))
    connection.close()
    return {each.node_id for each in answer.brokers}


async def replicas(broker: Broker, name: str) -> tuple[tuple[int, ...], ...]:
    partitions = (await described(broker, name))[name].partitions
    return tuple(each.replica_nodes for each in sorted(partitions, key=lambda each: each.partition_index))


def configs(broker: Broker, name: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    told = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {entry.name: entry.value for entry in told.values()}


def make(asked: Broker | Parts, new: NewTopic) -> None:
    """For what :class:`TopicFactory` does not make."""
    admin = AdminClient({"bootstrap.servers": asked.bootstrap_servers})
    admin.create_topics([new])[new.topic].result(TIMEOUT_S)


def found(settings: Mapping[str, str], partitions: int = 1, factor: int = 3) -> Found:
    return Found(NO_ID, (tuple(range(factor)),) * partitions, (), settings)


# What is decided


def test_replicas_are_spread_evenly() -> None:
    racks: dict[int, str | None] = dict.fromkeys((11, 12, 13, 14))
    made = replicas_for(wanted("t", 24, 3), {}, racks)
    assert Counter(each[0] for each in made) == dict.fromkeys(racks, 6)
    assert Counter(node for each in made for node in each) == dict.fromkeys(racks, 18)
    assert all(len(set(each)) == 3 for each in made)
    assert {each[1] for each in made if each[0] == 11} == {12, 13, 14}, "who leads when it dies"


def test_replicas_are_spread_over_racks() -> None:
    racks = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "c"}
    made = replicas_for(wanted("t", 60, 3), {}, racks)
    assert all({racks[node] for node in each} == {"a", "b", "c"} for each in made)
    assert Counter(each[0] for each in made) == dict.fromkeys(racks, 10)
    more = replicas_for(wanted("t", 60, 4), {}, racks)
    assert all(len({racks[node] for node in each[:3]}) == 3 and len(set(each)) == 4 for each in more)


@pytest.mark.parametrize(("brokers", "told"), [(1, "there is 1 broker"), (2, "there are 2 brokers")])
def test_no_fewer_replicas_than_wanted(brokers: int, told: str) -> None:
    with pytest.raises(BrokersMissing, match=f"INVALID_REPLICATION_FACTOR: .*factor is 3, and {told}$"):
        replicas_for(wanted("t", 1, 3), {}, dict.fromkeys(range(brokers)))


def test_what_is_fit() -> None:
    them = wanted("t", 2)
    for settings in (
        FIT_HISTORY | {"delete.retention.ms": "0", "min.compaction.lag.ms": "0"},
        FIT_HISTORY | {"cleanup.policy": ""},
    ):
        there = {them.offsets: found(FIT, 2), them.history: found(settings, 2)}
        assert not list(complaints(them, there))
    lone = FIT | {"min.insync.replicas": "1"}
    assert not list(complaints(them, {them.offsets: found(lone, 2, factor=1)}))


@pytest.mark.parametrize(
    ("of", "setting", "value", "needed"),
    [
        ("offsets", "cleanup.policy", "delete", "compact"),
        ("offsets", "cleanup.policy", "compact,delete", "compact"),
        ("offsets", "delete.retention.ms", "3599999", "at least 3600000"),
        ("offsets", "min.compaction.lag.ms", "59999", "at least 60000"),
        ("history", "cleanup.policy", "compact", "delete"),
        ("history", "cleanup.policy", "compact,delete", "delete"),
        *(
            (each, setting, value, needed)
            for each in ("offsets", "history")
            for setting, value, needed in (
                ("unclean.leader.election.enable", "true", "false"),
                ("message.timestamp.type", "CreateTime", "LogAppendTime"),
                ("max.message.bytes", "1048636", "at least 1048637"),
                ("min.insync.replicas", "1", "at least 2"),
            )
        ),
    ],
)
def test_what_is_not_fit(of: str, setting: str, value: str, needed: str) -> None:
    them = wanted("t")
    settings = {"offsets": dict(FIT), "history": dict(FIT_HISTORY)}
    settings[of][setting] = value
    there = {them.offsets: found(settings["offsets"]), them.history: found(settings["history"])}
    assert list(complaints(them, there)) == [f"topic t_{of}: {setting} is {value}, needed is {needed}"]


@pytest.mark.parametrize("of", ["offsets", "history"])
def test_another_number_of_partitions(of: str) -> None:
    them = wanted("t", 2)
    there = {them.offsets: found(FIT, 2), them.history: found(FIT_HISTORY, 2)}
    there[f"t_{of}"] = there[f"t_{of}"]._replace(replicas=((1, 2),) * 3)
    assert list(complaints(them, there)) == [f"topic t_{of}: partitions are 3, needed are 2"]


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ({}, 3600),
        ({1: {"producer.id.expiration.ms": 24 * HOUR_MS}}, 3600),
        ({1: {"producer.id.expiration.ms": 4 * HOUR_MS}}, 3600),
        ({1: {"producer.id.expiration.ms": 4 * HOUR_MS - 1000}}, 3599.75),
        ({1: {"producer.id.expiration.ms": MINUTE_MS}}, 15),
        ({1: {}, 2: {"producer.id.expiration.ms": HOUR_MS}, 3: {"producer.id.expiration.ms": 2 * HOUR_MS}}, 900),
        # Before 3.4.
        ({1: {"transactional.id.expiration.ms": HOUR_MS}}, 900),
        ({1: {"producer.id.expiration.ms": 2 * HOUR_MS, "transactional.id.expiration.ms": HOUR_MS}}, 1800),
    ],
)
def test_how_often_an_owner_writes_again(told: Mapping[int, Mapping[str, int]], seconds: float) -> None:
    settings = {node: {name: str(value) for name, value in its.items()} for node, its in told.items()}
    assert owner_again_seconds(settings) == seconds


def test_brokers_that_forget_a_fence_at_once() -> None:
    told = {1: {"producer.id.expiration.ms": "86400000"}, 2: {"producer.id.expiration.ms": "59999"}}
    with pytest.raises(
        TopicsUnfit, match=r"^broker 2: producer\.id\.expiration\.ms is 59999, needed is at least 60000$"
    ):
        owner_again_seconds(told)


_PASSES, _FEW, _STAYS = ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(
    ("codes", "worst", "told"),
    [
        ((_PASSES, ErrorCode.NONE), NotYet, (0,)),
        ((_PASSES, _FEW), BrokersMissing, (1,)),
        ((_FEW, _PASSES, ErrorCode.NONE, _FEW), BrokersMissing, (0, 3)),
        ((_FEW, _STAYS), TopicsUnfit, (1,)),
        ((_STAYS, _PASSES), TopicsUnfit, (0,)),
        ((_PASSES, _FEW, _STAYS), TopicsUnfit, (2,)),
    ],
)
def test_of_what_is_refused_the_worst_is_told(
    codes: Sequence[ErrorCode], worst: type[Exception], told: Sequence[int]
) -> None:
    """Brokers that are missing may be missing for good, and the topics are not fit then; what passes never is."""
    with pytest.raises(worst) as refused:
        brokers._raise_for(create_topics.API, [brokers._Told(f"topic {at}", code) for at, code in enumerate(codes)])
    lines = "; ".join(f"CreateTopics: topic {at}: {codes[at].name}" for at in told)
    assert (type(refused.value), str(refused.value)) == (worst, lines)


# What brokers do


async def test_made(broker: Broker, fresh_name: Callable[[], str]) -> None:
    them = wanted(fresh_name(), 3)
    made = await ready([broker], them)
    there = await described(broker, *them.names)
    assert made == LogTopics(
        *them.names,
        there[them.offsets].topic_id,
        partitions=3,
        max_message_bytes=16 * 1024 * 1024,
        history_max_message_bytes=16 * 1024 * 1024,
        delete_retention_ms=7 * 24 * HOUR_MS,
        owner_again_seconds=3600,
    )
    assert made.offsets_id != NO_ID
    own = {"cleanup.policy": "compact"}, {"cleanup.policy": "delete", "retention.ms": str(90 * MINUTE_MS)}
    for name, configured in zip(them.names, own, strict=True):
        expected = MADE_WITH | {"min.insync.replicas": "1"} | configured
        told = configs(broker, name)
        assert {setting: told[setting] for setting in expected} == expected
        assert len(there[name].partitions) == 3
    assert await ready([broker], them) == made, "once more, nothing is made"


async def test_made_by_two_at_once(cluster: Parts, fresh_name: Callable[[], str]) -> None:
    """Each at other brokers. With both topics a partition has the same replicas, in the same order."""
    them = wanted(fresh_name(), 6, 3)
    one, *others = cluster.brokers
    made, also = await asyncio.gather(ready([one], them), ready(others, them))
    assert made == also
    offsets, history = [await replicas(one, name) for name in them.names]
    assert offsets == history == ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2), (2, 1, 3), (3, 2, 1))
    leaders = [each.leader_id for name in them.names for each in (await described(one, name))[name].partitions]
    assert Counter(leaders) == {1: 4, 2: 4, 3: 4}
    assert configs(one, them.offsets)["min.insync.replicas"] == "2"


@pytest.mark.parametrize("missing", ["offsets", "history"])
async def test_one_without_the_other(cluster: Parts, fresh_name: Callable[[], str], missing: str) -> None:
    them = wanted(fresh_name(), 3, 3)
    odd = ((3, 1), (2, 3), (3, 2))
    there = them.history if missing == "offsets" else them.offsets
    policy = "delete" if missing == "offsets" else "compact"
    new = NewTopic(there, 3, replica_assignment=[list(each) for each in odd], config=FIT | {"cleanup.policy": policy})
    make(cluster, new)
    made = await ready(cluster.brokers, them)
    assert [await replicas(cluster.brokers[0], name) for name in them.names] == [odd, odd]
    defaults = 1_048_637, 16 * 1024 * 1024
    told = made.max_message_bytes, made.history_max_message_bytes
    assert told == (defaults if missing == "history" else defaults[::-1])
    assert made.delete_retention_ms == (HOUR_MS if missing == "history" else 7 * 24 * HOUR_MS)


async def test_one_that_the_broker_has_not_heard_of(
    broker: Broker, make_topic: TopicFactory, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker can be made to be late, so what it says is changed, once. The controller is not late."""
    them = wanted(topic)
    make_topic(name=them.history, config=FIT_HISTORY)
    view, make, late, made = brokers.Brokers._view, brokers.Brokers._make, [True], []

    async def late_view(
        self: brokers.Brokers, asked: KeptConnection, names: Collection[str]
    ) -> metadata.MetadataResponse:
        told = await view(self, asked, names)
        if names and late:
            late.clear()
            told = told._replace(topics=tuple(each._replace(error_code=3, partitions=()) for each in told.topics))
        return told

    async def noted(
        self: brokers.Brokers,
        asked: KeptConnection,
        told: metadata.MetadataResponse,
        them: Sequence[create_topics.CreatableTopic],
    ) -> None:
        await make(self, asked, told, them)
        known = await described(broker, *(each.name for each in them))
        made.append(({each.name for each in them}, set(known)))

    monkeypatch.setattr(brokers.Brokers, "_view", late_view)
    monkeypatch.setattr(brokers.Brokers, "_make", noted)
    await ready([broker], them)
    assert made[0] == ({*them.names}, {them.history}), "the other one is not made before it is known what this one is"
    assert made[1][0] == {them.offsets}


async def test_where_one_is_refused_none_is_made(broker: Broker, topic: str) -> None:
    make(broker, NewTopic(f"{topic}.x_history", 1, 1))
    them = wanted(f"{topic}_x")
    with pytest.raises(TopicsUnfit, match=r"^CreateTopics: topic \S+_x_history: INVALID_TOPIC_EXCEPTION: .+ collides "):
        await ready([broker], them)
    assert not await described(broker, *them.names)


async def test_the_missing_one_is_made_for_as_few_replicas(
    broker: Broker, make_topic: TopicFactory, topic: str
) -> None:
    """One with which nothing could be written would be of no use."""
    them = wanted(topic, factor=3)
    make_topic(name=them.offsets, config=FIT)
    await ready([broker], them)
    assert configs(broker, them.history)["min.insync.replicas"] == "1"


@pytest.mark.parametrize(
    ("of", "setting", "value", "needed"),
    [
        ("offsets", "cleanup.policy", "delete", "compact"),
        ("offsets", "unclean.leader.election.enable", "true", "false"),
        ("offsets", "message.timestamp.type", "CreateTime", "LogAppendTime"),
        ("offsets", "max.message.bytes", "1000", "at least 1048637"),
        ("offsets", "delete.retention.ms", "1000", "at least 3600000"),
        ("offsets", "min.compaction.lag.ms", "0", "at least 60000"),
        ("history", "cleanup.policy", "compact", "delete"),
    ],
)
async def test_what_is_there_is_refused(
    broker: Broker, make_topic: TopicFactory, topic: str, of: str, setting: str, value: str, needed: str
) -> None:
    them = wanted(topic)
    make_topic(name=f"{topic}_{of}", config=(FIT if of == "offsets" else FIT_HISTORY) | {setting: value})
    with pytest.raises(TopicsUnfit) as refused:
        await ready([broker], them)
    assert str(refused.value) == f"topic {topic}_{of}: {setting} is {value}, needed is {needed}"
    assert len(await described(broker, *them.names)) == 1, "beside it, nothing is made"


async def test_too_few_in_sync_replicas(cluster: Parts, make_topic: TopicFactory, topic: str) -> None:
    them = wanted(topic, factor=3)
    make_topic(name=them.offsets, replication_factor=2, config=FIT | {"min.insync.replicas": "1"})
    with pytest.raises(TopicsUnfit, match=r"^topic \S+_offsets: min\.insync\.replicas is 1, needed is at least 2$"):
        await ready(cluster.brokers, them)


async def test_other_partitions(broker: Broker, make_topic: TopicFactory, topic: str) -> None:
    """All that is wrong is told in one line."""
    them = wanted(topic, 2)
    make_topic(3, name=them.history, config=FIT_HISTORY | {"cleanup.policy": "compact"})
    with pytest.raises(TopicsUnfit) as refused:
        await ready([broker], them)
    assert str(refused.value) == (
        f"topic {them.history}: partitions are 3, needed are 2; "
        f"topic {them.history}: cleanup.policy is compact, needed is delete"
    )


def short_of_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock of who waits, a few looks take ``SHORT_S``, however long a busy broker takes to answer."""
    monkeypatch.setattr(making, "time", SimpleNamespace(monotonic=count(0.0, SHORT_S / 3).__next__))


async def test_fewer_brokers_than_replicas(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They are waited for, which is said once."""
    short_of_looks(monkeypatch)
    caplog.set_level("INFO", "shim.kafka_log.topics.ready")
    them = wanted(topic, factor=3)
    refusal = "INVALID_REPLICATION_FACTOR: offsets.topic.replication.factor is 3, and there is 1 broker"
    with pytest.raises(TopicsUnfit) as refused:
        await ready([broker], them, SHORT_S)
    assert str(refused.value) == refusal
    assert [each.getMessage() for each in caplog.records] == [
        f"waiting for more brokers, for {SHORT_S} seconds at most: {refusal}"
    ]
    assert not await described(broker, *them.names)


@pytest.mark.parametrize("come", [True, False])
async def test_a_broker_that_sees_too_few_others(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, come: bool
) -> None:
    """No controller can be made to know fewer than it tells of, so what it says is changed, once or for good."""
    them = wanted(topic)
    ask, late = KeptConnection.ask, [True]

    async def late_ask(self: KeptConnection, api: Any, request: Any, **more: Any) -> Any:
        answer = await ask(self, api, request, **more)
        if api is create_topics.API and late:
            if come:
                late.clear()
            answer = answer._replace(
                topics=tuple(
                    each._replace(error_code=ErrorCode.INVALID_REPLICATION_FACTOR, error_message="too few brokers")
                    for each in answer.topics
                )
            )
        return answer

    monkeypatch.setattr(KeptConnection, "ask", late_ask)
    if come:
        assert (await ready([broker], them)).partitions == 1
        return
    with pytest.raises(
        TopicsUnfit, match=r"^CreateTopics: topic \S+_history: INVALID_REPLICATION_FACTOR: too few brokers;"
    ):
        await ready([broker], them, SHORT_S)


async def test_brokers_that_come_are_waited_for(cluster: Parts, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As while a cluster comes up: the third one is there when the first two have been asked."""
    said: asyncio.Queue[str] = asyncio.Queue()
    monkeypatch.setattr(making.log, "info", lambda line, *more: said.put_nowait(line % more))
    one, _, last = cluster.brokers

    async def are_two() -> bool:
        return len(await nodes(one)) == 2

    with hung(last.pid):
        await until_told(are_two)
        async with asyncio.timeout(TIMEOUT_S):
            waiting = asyncio.create_task(ready([one], wanted(topic, 2, 3)))
            assert (await said.get()).endswith("factor is 3, and there are 2 brokers")
    assert (await waiting).partitions == 2


async def test_a_controller_that_takes_no_connections_yet_is_waited_for(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker is named as the controller from when it is registered, which may be before its port is open."""
    port, view_of, asked = free_port(), brokers.Brokers._view, 0

    async def coming_up(*args: Any) -> metadata.MetadataResponse:
        nonlocal asked
        asked += 1
        view = await view_of(*args)
        if asked > 3:
            return view
        coming = metadata.MetadataResponseBroker(99, "127.0.0.1", port)
        return view._replace(brokers=(*view.brokers, coming), controller_id=99)

    monkeypatch.setattr(brokers.Brokers, "_view", coming_up)
    assert (await ready([broker], wanted(topic))).partitions == 1
    assert asked > 3
    asked = -1_000_000
    short_of_looks(monkeypatch)
    monkeypatch.setattr(making, "_TOLD_OF_BEHIND_S", SHORT_S / 2)
    caplog.set_level("INFO", making.__name__)
    caplog.clear()
    with pytest.raises(UpstreamError, match=f"^who makes topics takes no connections: 127.0.0.1:{port}: ") as in_vain:
        await ready([broker], wanted(f"{topic}-2"), SHORT_S)
    assert caplog.messages == [f"waiting for the topics of the log, for {SHORT_S} seconds at most: {in_vain.value}"]


async def test_a_controller_that_refuses_the_shim_is_not_waited_for(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, asked = KeptConnection.ask, 0

    async def refused(connection: KeptConnection, api: Any, *args: Any, **more: Any) -> Any:
        nonlocal asked
        if api is not create_topics.API:
            return await ask(connection, api, *args, **more)
        asked += 1
        raise AuthenticationFailed(f"{connection.address}: wrong password")

    monkeypatch.setattr(KeptConnection, "ask", refused)
    with pytest.raises(AuthenticationFailed, match=r"wrong password$"):
        await ready([broker], wanted(topic))
    assert asked == 1


async def test_what_any_broker_tells_counts_where_a_topic_is_looked_at(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is cut off from the controllers tells what was."""
    them = wanted(topic)
    await ready([broker], them)
    told_by = brokers.Brokers._told_by
    here, cut_off, gone = HostPort(broker.host, broker.port), HostPort("localhost", broker.port), HostPort("gone", 1)

    async def told(its: brokers.Brokers, asked: KeptConnection, names: Collection[str]) -> Any:
        if asked.address == gone:
            raise UpstreamError("gone")
        view, found = await told_by(its, asked, names)
        if asked.address == cut_off:
            was = {"delete.retention.ms": str(HOUR_MS), "cleanup.policy": "delete"}
            found[them.offsets] = found[them.offsets]._replace(configs={**found[them.offsets].configs, **was})
            found.pop(them.history, None)
        return view, found

    monkeypatch.setattr(brokers.Brokers, "_told_by", told)
    cluster = Cluster([gone, here, cut_off], Settings())
    looked = await making.look(cluster, Settings(), them)
    assert looked.delete_retention_ms == HOUR_MS
    assert looked.complaints == (f"topic {them.offsets}: cleanup.policy is delete, needed is compact",)
    assert await making.look_up_retention(cluster, Settings(), them) == HOUR_MS
    with pytest.raises(UpstreamError, match=r"^gone$"):
        await making.look(Cluster([gone], Settings()), Settings(), them)


async def test_what_cannot_be_a_topic(broker: Broker, topic: str) -> None:
    with pytest.raises(TopicsUnfit, match=r"^Metadata: topic no topic_history: INVALID_TOPIC_EXCEPTION; \S+"):
        await ready([broker], wanted("no topic"))
    await ready([broker], wanted(f"{topic}_x"))
    with pytest.raises(
        TopicsUnfit, match=r"^CreateTopics: topic \S+\.x_history: INVALID_TOPIC_EXCEPTION: .+ collides "
    ):
        await ready([broker], wanted(f"{topic}.x"))


async def test_another_cluster_at_the_address(broker: Broker, topic: str) -> None:
    them = wanted(topic)
    cluster = Cluster([HostPort(broker.host, broker.port)], Settings())
    cluster.looked_up, cluster.cluster_id = True, "another"
    with pytest.raises(UpstreamError, match="is of another cluster"):
        await make_ready(cluster, Settings(), them)
    assert not await described(broker, *them.names)


async def test_leaders_are_waited_for(cluster: Parts, topic: str) -> None:
    one, _, last = cluster.brokers
    them = wanted(topic, 2)
    new = NewTopic(them.offsets, 2, replica_assignment=[[1], [3]], config=FIT)
    make(one, new)
    await ready([one], them)
    elsewhere = await ready([one], wanted(f"{topic}-1"))

    async def has_no_leader() -> bool:
        """The controller waits for its heartbeats."""
        there = (await described(one, them.offsets))[them.offsets]
        return any(each.leader_id < 0 for each in there.partitions)

    with hung(last.pid):
        assert await ready([one], wanted(f"{topic}-1")) == elsewhere, "nobody waits for a broker that is not needed"
        await until_told(has_no_leader)
        with pytest.raises(UpstreamError, match=r"_offsets: no broker leads partition 1$"):
            await ready([one], them, SHORT_S)
        waiting = asyncio.create_task(ready([one], them))
    assert (await waiting).partitions == 2


async def test_when_brokers_forget_producers(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def forget_after(milliseconds: int | None) -> None:
        change = AlterConfigOpType.DELETE if milliseconds is None else AlterConfigOpType.SET
        entry = ConfigEntry("producer.id.expiration.ms", str(milliseconds or 0), incremental_operation=change)
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    async def told(expected: str) -> None:
        """What is answered as soon as the broker has heard of it."""

        async def is_so() -> bool:
            try:
                return str((await ready([broker], wanted(topic))).owner_again_seconds) == expected
            except TopicsUnfit as unfit:
                return str(unfit) == expected

        await until_told(is_so)

    try:
        forget_after(1000)
        await told("broker 1: producer.id.expiration.ms is 1000, needed is at least 60000")
        forget_after(2 * HOUR_MS)
        await told("1800.0")
    finally:
        forget_after(None)
    await told("3600.0")


async def test_what_a_broker_has_by_default_counts(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    them = wanted(f"{topic}-theirs")
    settings = {name: value for name, value in FIT.items() if name != "unclean.leader.election.enable"}
    make(broker, NewTopic(them.offsets, 1, 1, config=settings))

    def by_default(operation: AlterConfigOpType) -> None:
        entry = ConfigEntry("unclean.leader.election.enable", "true", incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker.node_id), incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    async def why_not() -> str:
        try:
            await ready([broker], them)
        except TopicsUnfit as unfit:
            return str(unfit)
        return ""

    async def is_refused() -> bool:
        return (await why_not()).startswith(f"topic {them.offsets}: unclean.leader.election.enable is true, ")

    async def is_fit() -> bool:
        return not await why_not()

    assert await is_fit()
    by_default(AlterConfigOpType.SET)
    try:
        await until_told(is_refused)  # as soon as the broker has heard of it
        await ready([broker], wanted(f"{topic}-ours"))
    finally:
        by_default(AlterConfigOpType.DELETE)
    await until_told(is_fit)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as running:
        yield running


async def test_the_right_that_is_missing_is_named(guarded: Guarded) -> None:
    them = wanted("rights")
    rules = {
        "DescribeConfigs on the cluster": Rule(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS),
        "Describe": Rule(ResourceType.TOPIC, "rights", AclOperation.DESCRIBE),
        "Create": Rule(ResourceType.TOPIC, "rights", AclOperation.CREATE),
        "DescribeConfigs": Rule(ResourceType.TOPIC, "rights", AclOperation.DESCRIBE_CONFIGS),
    }
    for right, rule in rules.items():
        with pytest.raises(TopicsUnfit) as refused:
            await ready([guarded.broker], them)
        needed = [f"{right} on topic {name}" for name in sorted(them.names)] if " " not in right else [right]
        assert str(refused.value) == "; ".join(f"the shim's principal needs {each}" for each in needed)
        guarded.give(rule)
    assert (await ready([guarded.broker], them)).partitions == 1


@pytest.mark.soak
async def test_brokers_that_know_transactional_ids_alone(tmp_path: Path) -> None:
    """2.8.2, with ZooKeeper."""
    with LegacyBroker(tmp_path, KAFKA_2, properties={"transactional.id.expiration.ms": HOUR_MS}) as broker:
        made = await ready([broker], wanted("log", 3))
        assert await ready([broker], wanted("log", 3)) == made
        assert (made.partitions, made.owner_again_seconds) == (3, 900)
        assert made.offsets_id != NO_ID


class Beside(LegacyBroker):
    """Another broker of the same cluster."""

    def __init__(self, folder: Path, other: LegacyBroker) -> None:
        super().__init__(folder, other.release, node_id=2)
        self.zookeeper = other.zookeeper

    def _wait_forgotten(self) -> None:
        """The other one is registered there."""

    def stop(self) -> None:
        Server.stop(self)

    def kill(self) -> None:
        Server.kill(self)


@pytest.mark.soak
async def test_the_controller_makes_them(tmp_path: Path) -> None:
    """With ZooKeeper others refuse to."""
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
    with LegacyBroker(tmp_path / "one", KAFKA_3) as one, Beside(tmp_path / "other", one) as other:
        assert await ready([one], wanted("a", 2, 2))
        assert await ready([other], wanted("b", 2, 2))
