"""The two topics that the log is kept on: made where they are not there, looked at where they are.

What is wanted, what is not fit, and who gets which replicas is decided by functions of what the brokers told. Below
them is who asks the brokers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import create_topics, describe_configs, metadata
from protocol.records.batch_layout import HEADER_SIZE
from shim.config import HostPort, Settings
from shim.log.batching import MAX_BATCH_BYTES
from shim.upstream import Cluster, UpstreamError
from shim.upstream.kept_connection import KeptConnection, KeptConnections

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 30.0
_RETRY_S: Final = 0.1

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""What the topics are made with."""

LEAST_MESSAGE_BYTES: Final = MAX_BATCH_BYTES + HEADER_SIZE
"""What a batch may have that several record sets share; a little more than brokers have by default."""

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS

_FORGETTING: Final = ("producer.id.expiration.ms", "transactional.id.expiration.ms")
"""When brokers forget a producer, and so a fence: the first of these that they have. The second did so before 3.4
(KIP-854)."""

_TOPIC, _BROKER = 2, 4  # kinds of resources in DescribeConfigs
_BY_ASSIGNMENTS: Final = -1  # how many partitions or replicas CreateTopics is told of, beside assignments
_MAKING_MS: Final = 5_000  # how long the controller waits for leaders, before it answers REQUEST_TIMED_OUT

# An older Metadata request makes the topics that it asks for, where brokers do so.
_WITHOUT_MAKING: Final = 4

# From this version on CreateTopics can be asked what it would say.
_WITHOUT_DOING: Final = 1

_NOT_THERE: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_RIGHTS: Final = {
    metadata.API.key: "Describe",
    create_topics.API.key: "Create",
    describe_configs.API.key: "DescribeConfigs",
}
"""What a principal needs for a request (Kafka 4.3)."""

_NO_RIGHT: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})

_STAYS: Final = frozenset(
    {
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""All others may pass: another controller, a quota, a replica on a broker that comes or goes."""

Replicas = tuple[tuple[int, ...], ...]
"""Of each partition, who would lead it first."""

Answer = TypeVar("Answer")


class TopicsUnfit(Exception):
    """The log cannot be kept on these topics, or on this cluster, until somebody changes something there: one line."""


class _NotYet(UpstreamError):
    """It may be otherwise in a moment."""


class _BrokersMissing(_NotYet):
    """Likewise, while a cluster comes up; where no more brokers come, the topics are not fit."""


class TopicsWanted(NamedTuple):
    """``partitions`` the topics have to have; all below is for those that are made.

    As in `offsets.topic.num.partitions`, `offsets.topic.replication.factor`, `offsets.topic.segment.bytes` and
    `offsets.history.retention.minutes`.
    """

    prefix: str = "__offset_shim"
    partitions: int = 50
    replication_factor: int = 3
    segment_bytes: int = 104_857_600
    history_retention_minutes: int = 10_080

    @property
    def offsets(self) -> str:
        return f"{self.prefix}_offsets"

    @property
    def history(self) -> str:
        return f"{self.prefix}_history"

    @property
    def names(self) -> tuple[str, str]:
        return self.offsets, self.history


class LogTopics(NamedTuple):
    """The topics as they are. Ids are zero where the brokers are too old to tell (before 2.8)."""

    offsets: str
    history: str
    offsets_id: bytes
    history_id: bytes
    partitions: int
    max_message_bytes: int
    """Of the offsets: no batch may be larger."""
    history_max_message_bytes: int
    """Likewise, of the history."""
    delete_retention_ms: int
    """Of the offsets: how long a tombstone stays at least."""
    owner_again_seconds: float
    """An owner that has had nothing acknowledged for so long writes its `Owner` record again."""


class Found(NamedTuple):
    """A topic, as a broker tells of it."""

    topic_id: bytes
    replicas: Replicas
    leaderless: tuple[int, ...]
    configs: Mapping[str, str]
    """Those that are in force, wherever they are set."""


class _Told(NamedTuple):
    """What a broker says of one of the things that it was asked for."""

    resource: str
    code: int
    message: str | None = None


class _Need(NamedTuple):
    setting: str
    needed: str
    holds: Callable[[str], bool]


def _is(value: str) -> tuple[str, Callable[[str], bool]]:
    return value, lambda found: found == value


def _at_least(least: int) -> tuple[str, Callable[[str], bool]]:
    return f"at least {least}", lambda found: found.isdecimal() and int(found) >= least


_OF_BOTH: Final = (
    _Need("unclean.leader.election.enable", *_is("false")),
    _Need("message.timestamp.type", *_is("LogAppendTime")),
    _Need("max.message.bytes", *_at_least(LEAST_MESSAGE_BYTES)),
)
_OF_REPLICATED: Final = (_Need("min.insync.replicas", *_at_least(2)),)
_OF_OFFSETS: Final = (
    _Need("cleanup.policy", *_is("compact")),
    _Need("delete.retention.ms", *_at_least(_HOUR_MS)),
    # All owners of the last minute are looked at for the longest lease.
    _Need("min.compaction.lag.ms", *_at_least(_MINUTE_MS)),
)
# Its keys come again and again. How long it is kept is the user's business, for ever (no policy: KIP-1161) included.
_OF_HISTORY: Final = (_Need("cleanup.policy", "delete", lambda found: "compact" not in found),)

_SETTINGS: Final = tuple(sorted({need.setting for need in (*_OF_BOTH, *_OF_REPLICATED, *_OF_OFFSETS, *_OF_HISTORY)}))


def configuration(wanted: TopicsWanted, name: str, replicas: Replicas) -> dict[str, str]:
    """What a topic is made with."""
    either = (
        {"cleanup.policy": "compact"}
        if name == wanted.offsets
        else {"cleanup.policy": "delete", "retention.ms": str(wanted.history_retention_minutes * _MINUTE_MS)}
    )
    return either | {
        "compression.type": "producer",
        "segment.bytes": str(wanted.segment_bytes),
        "min.insync.replicas": str(min(2, *map(len, replicas))),
        "unclean.leader.election.enable": "false",
        "delete.retention.ms": str(7 * _DAY_MS),
        "min.compaction.lag.ms": str(_MINUTE_MS),
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
    }


def complaints(wanted: TopicsWanted, found: Mapping[str, Found]) -> Iterator[str]:
    """What keeps the log from being kept on the topics that are there."""
    for name, topic in found.items():
        if len(topic.replicas) != wanted.partitions:
            yield f"topic {name}: partitions are {len(topic.replicas)}, needed are {wanted.partitions}"
        replicated = any(len(replicas) > 1 for replicas in topic.replicas)
        own = _OF_OFFSETS if name == wanted.offsets else _OF_HISTORY
        for need in (*own, *_OF_BOTH, *(_OF_REPLICATED if replicated else ())):
            value = topic.configs.get(need.setting, "")
            if not need.holds(value):
                yield f"topic {name}: {need.setting} is {value}, needed is {need.needed}"


def owner_again_seconds(told: Mapping[int, Mapping[str, str]]) -> float:
    """An hour, or less where a broker forgets soon. ``told``: settings, by node id. Raises :class:`TopicsUnfit`."""
    shortest = _DAY_MS
    for node_id, settings in told.items():
        for setting in _FORGETTING:
            if setting in settings:
                milliseconds = int(settings[setting])
                if milliseconds < _MINUTE_MS:
                    raise TopicsUnfit(f"broker {node_id}: {setting} is {milliseconds}, needed is at least {_MINUTE_MS}")
                shortest = min(shortest, milliseconds)
                break
    return min(_HOUR_MS, shortest / 4) / 1000


def replicas_for(wanted: TopicsWanted, found: Mapping[str, Found], racks: Mapping[int, str | None]) -> Replicas:
    """Of topics that are to be made: those of the one that is there, so that one broker leads a partition of both.

    ``racks``: of the brokers, by node id. Raises :class:`_BrokersMissing`.
    """
    for topic in found.values():
        return topic.replicas
    if len(racks) < wanted.replication_factor:
        there_are = "there is 1 broker" if len(racks) == 1 else f"there are {len(racks)} brokers"
        factor = f"offsets.topic.replication.factor is {wanted.replication_factor}"
        raise _BrokersMissing(f"{ErrorCode.INVALID_REPLICATION_FACTOR.name}: {factor}, and {there_are}")
    return tuple(_spread(racks, partition)[: wanted.replication_factor] for partition in range(wanted.partitions))


def _spread(racks: Mapping[int, str | None], partition: int) -> tuple[int, ...]:
    """All brokers, best first. Who asks for the same brokers gets the same, whenever it is."""
    nodes = sorted(racks)
    round_of_all, at = divmod(partition, len(nodes))
    leader, others = nodes[at], nodes[at + 1 :] + nodes[:at]
    # Each round another one comes second, so that what a broker led is divided among all when it dies.
    shift = round_of_all % max(1, len(others))
    seen: Counter[str | int] = Counter()
    ranked = []
    for node in (leader, *others[shift:], *others[:shift]):
        rack = racks[node] or node
        ranked.append((seen[rack], node))
        seen[rack] += 1
    return tuple(node for _, node in sorted(ranked, key=itemgetter(0)))


async def make_ready(
    cluster: Cluster, settings: Settings, wanted: TopicsWanted, patience_seconds: float = PATIENCE_SECONDS
) -> LogTopics:
    """Both topics are there, are fit, and have leaders, as far as the broker knows that was asked. By CreateTopics
    (KIP-4) and DescribeConfigs (KIP-133): brokers since 0.11, with KRaft or ZooKeeper (tried: 2.8.2, 3.9.2, 4.3.1).

    Any number of processes may do it at the same time. Raises :class:`TopicsUnfit` for what stays until somebody
    changes it, :class:`UpstreamError` for what passes by itself, and has not for ``patience_seconds``; a connection
    that fails is not waited for.
    """
    with closing(_Brokers(cluster, settings)) as brokers:
        # First, as nothing is to be made for a log that cannot be.
        again = await _in_time(brokers.owner_again_seconds, patience_seconds)
        found = await _in_time(lambda: brokers.topics(wanted), patience_seconds)
    offsets, history = (found[name] for name in wanted.names)
    return LogTopics(
        *wanted.names,
        offsets.topic_id,
        history.topic_id,
        wanted.partitions,
        int(offsets.configs["max.message.bytes"]),
        int(history.configs["max.message.bytes"]),
        int(offsets.configs["delete.retention.ms"]),
        again,
    )


class Looked(NamedTuple):
    """What the topics are like while they are in use. ``complaints``: what may lose data, as :func:`complaints`."""

    complaints: tuple[str, ...]
    delete_retention_ms: int
    """Of the offsets."""


async def look(cluster: Cluster, settings: Settings, wanted: TopicsWanted) -> Looked:
    """As one broker tells. Raises :class:`TopicsUnfit` where it may not, or a topic is not there;
    :class:`UpstreamError`."""
    with closing(_Brokers(cluster, settings)) as brokers:
        found = await brokers.there(wanted.names)
    missing = [name for name in wanted.names if name not in found]
    if missing:
        raise TopicsUnfit(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not there")
    return Looked(tuple(complaints(wanted, found)), _retention_ms(wanted.offsets, found[wanted.offsets]))


async def look_up_retention(cluster: Cluster, settings: Settings, wanted: TopicsWanted) -> int:
    """`delete.retention.ms` of the offsets, whatever there is of the history. Raises as :func:`look`."""
    with closing(_Brokers(cluster, settings)) as brokers:
        found = await brokers.there((wanted.offsets,))
    if wanted.offsets not in found:
        raise TopicsUnfit(f"{wanted.offsets} is not there")
    return _retention_ms(wanted.offsets, found[wanted.offsets])


def _retention_ms(name: str, found: Found) -> int:
    retention = found.configs.get("delete.retention.ms", "")
    if not retention.isdecimal():
        raise TopicsUnfit(f"topic {name}: delete.retention.ms is {retention or 'not told'}")
    return int(retention)


async def _in_time(ask: Callable[[], Awaitable[Answer]], patience_seconds: float) -> Answer:
    deadline = time.monotonic() + patience_seconds
    is_told = False
    while True:
        try:
            return await ask()
        except _BrokersMissing as error:
            if time.monotonic() > deadline:
                raise TopicsUnfit(str(error)) from error
            if not is_told:
                is_told = True
                log.info("waiting for more brokers, for %g seconds at most: %s", patience_seconds, error)
        except _NotYet:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_RETRY_S)  # a broker tells nobody when it knows more


class _Brokers:
    """What they are asked. Each question may be asked twice, making a topic among them."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._connections = KeptConnections(settings)

    async def owner_again_seconds(self) -> float:
        """Every broker is asked for its own, but for those that cannot be reached as long as others can."""
        _, view, _ = await self._found(())
        addresses = {broker.node_id: HostPort(broker.host, broker.port) for broker in view.brokers}
        asked = [self._forgetting(node_id, address) for node_id, address in addresses.items()]
        told: dict[int, Mapping[str, str]] = {}
        failures: list[UpstreamError] = []
        for node_id, answer in zip(addresses, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(answer, UpstreamError):
                failures.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                told[node_id] = answer
        if not told:
            raise failures[0]
        return owner_again_seconds(told)

    async def _forgetting(self, node_id: int, address: HostPort) -> Mapping[str, str]:
        name = str(node_id)
        return (await self._configs(self._connections.to(address), _BROKER, (name,), _FORGETTING))[name]

    async def topics(self, wanted: TopicsWanted) -> dict[str, Found]:
        """What is not there is made, and then it is not ready yet."""
        asked, view, found = await self._found(wanted.names)
        unfit = "; ".join(complaints(wanted, found))
        if unfit:
            raise TopicsUnfit(unfit)
        missing = [name for name in wanted.names if name not in found]
        if missing:
            replicas = replicas_for(wanted, found, {broker.node_id: broker.rack for broker in view.brokers})
            await self._make(asked, view, [_topic(wanted, name, replicas) for name in missing])
            raise _NotYet(f"{asked.address}: knows nothing yet of {' and '.join(missing)}")
        for name, each in found.items():
            if each.leaderless:
                raise _NotYet(f"topic {name}: no broker leads partition {each.leaderless[0]}")
        return found

    async def there(self, names: Collection[str]) -> dict[str, Found]:
        """Those of them that are there, by name."""
        _, _, found = await self._found(names)
        return found

    async def _found(
        self, names: Collection[str]
    ) -> tuple[KeptConnection, metadata.MetadataResponse, dict[str, Found]]:
        """As the first broker tells that answers all of it."""
        failures: list[str] = []
        for address in self._cluster.any_address():
            asked = self._connections.to(address)
            try:
                view, found = await self._told_by(asked, names)
            except _NotYet:
                raise
            except UpstreamError as error:
                failures.append(str(error))
                continue
            if failures:
                log.info("%s is asked about topics of the log: %s", address, "; ".join(failures))
            return asked, view, found
        raise UpstreamError("; ".join(failures) or "no broker is known")

    async def _told_by(
        self, asked: KeptConnection, names: Collection[str]
    ) -> tuple[metadata.MetadataResponse, dict[str, Found]]:
        view = await self._view(asked, names)
        there = [topic for topic in view.topics if topic.error_code != _NOT_THERE]
        _raise_for(metadata.API, [_Told(f"topic {topic.name}", topic.error_code) for topic in there])
        configs = await self._configs(asked, _TOPIC, [topic.name or "" for topic in there], _SETTINGS)
        return view, {topic.name or "": _found(topic, configs[topic.name or ""]) for topic in there}

    async def _view(self, asked: KeptConnection, names: Collection[str]) -> metadata.MetadataResponse:
        request = metadata.MetadataRequest(
            tuple(metadata.MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=False
        )
        view = await asked.ask(metadata.API, request, at_least=_WITHOUT_MAKING)
        # At an address there may be another cluster by now.
        if view.brokers and (not self._cluster.looked_up or view.cluster_id == self._cluster.cluster_id):
            return view
        raise UpstreamError(f"{asked.address}: knows no broker yet, or is of another cluster")

    async def _configs(
        self, asked: KeptConnection, kind: int, names: Sequence[str], settings: tuple[str, ...]
    ) -> dict[str, dict[str, str]]:
        """By resource and setting, without those that the broker does not have."""
        if not names:
            return {}
        resources = tuple(describe_configs.DescribeConfigsResource(kind, name, settings) for name in names)
        answer = await asked.ask(describe_configs.API, describe_configs.DescribeConfigsRequest(resources))
        where = "topic {}" if kind == _TOPIC else "the cluster"
        _raise_for(
            describe_configs.API,
            [_Told(where.format(told.resource_name), told.error_code, told.error_message) for told in answer.results],
        )
        return {
            told.resource_name: {config.name: config.value for config in told.configs if config.value is not None}
            for told in answer.results
        }

    async def _make(
        self, asked: KeptConnection, view: metadata.MetadataResponse, topics: Sequence[create_topics.CreatableTopic]
    ) -> None:
        """At the controller, as brokers with ZooKeeper want it. With KRaft any broker is named, and hands it on.

        First it is asked whether all of them could be made. It knows of a topic that the broker with the view has not
        heard of yet, and whose replicas are to be taken; and where one is refused, the other is not made.
        """
        addresses = {broker.node_id: HostPort(broker.host, broker.port) for broker in view.brokers}
        controller = self._connections.to(addresses.get(view.controller_id, asked.address))
        for only_asked in (True, False):
            request = create_topics.CreateTopicsRequest(tuple(topics), _MAKING_MS, only_asked)
            answer = await controller.ask(create_topics.API, request, at_least=_WITHOUT_DOING)
            new = [told for told in answer.topics if told.error_code != ErrorCode.TOPIC_ALREADY_EXISTS]
            _raise_for(
                create_topics.API, [_Told(f"topic {told.name}", told.error_code, told.error_message) for told in new]
            )
            if len(new) < len(topics):
                return  # another process was faster, and what it made is looked at as any other
        log.info("made %s", " and ".join(topic.name for topic in topics))

    def close(self) -> None:
        self._connections.close()


def _found(topic: metadata.MetadataResponseTopic, configs: Mapping[str, str]) -> Found:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return Found(
        topic.topic_id,
        tuple(partition.replica_nodes for partition in partitions),
        tuple(partition.partition_index for partition in partitions if partition.leader_id < 0),
        configs,
    )


def _topic(wanted: TopicsWanted, name: str, replicas: Replicas) -> create_topics.CreatableTopic:
    assignments = (create_topics.CreatableReplicaAssignment(*each) for each in enumerate(replicas))
    configs = (create_topics.CreatableTopicConfig(*each) for each in configuration(wanted, name, replicas).items())
    return create_topics.CreatableTopic(name, _BY_ASSIGNMENTS, _BY_ASSIGNMENTS, tuple(assignments), tuple(configs))


def _raise_for(api: Api[Any, Any], told: Iterable[_Told]) -> None:
    """Raises :class:`TopicsUnfit`, :class:`_BrokersMissing` or :class:`_NotYet` where not all codes are 0: a line of
    all of one kind."""
    lines: dict[type[Exception], list[str]] = {TopicsUnfit: [], _BrokersMissing: [], _NotYet: []}  # the worst first
    for resource, code, message in sorted(told, key=itemgetter(0)):  # brokers answer in any order
        if code in _NO_RIGHT:
            lines[TopicsUnfit].append(f"the shim's principal needs {_RIGHTS[api.key]} on {resource}")
        elif code:
            words = " ".join((message or "").split())  # a policy's may have lines
            line = f"{api.name}: {resource}: {ErrorCode.for_code(code).name}" + (f": {words}" if words else "")
            lines[_kind_of(code)].append(line)
    for kind, its in lines.items():
        if its:
            raise kind("; ".join(its))


def _kind_of(code: int) -> type[Exception]:
    if code == ErrorCode.INVALID_REPLICATION_FACTOR:
        return _BrokersMissing
    return TopicsUnfit if code in _STAYS else _NotYet
