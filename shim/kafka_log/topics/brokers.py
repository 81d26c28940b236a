"""What brokers are asked about the topics of the log, and what they are asked to make; what it means that they say."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import create_topics, describe_configs, metadata
from shim.config import HostPort, Settings
from shim.kafka_log.topics.wanted import (
    FORGETTING,
    SETTINGS,
    BrokersMissing,
    Found,
    NotYet,
    Replicas,
    TopicsUnfit,
    TopicsWanted,
    complaints,
    configuration,
    owner_again_seconds,
    replicas_for,
)
from shim.upstream import Cluster, UpstreamError
from shim.upstream.kept_connection import KeptConnection, KeptConnections

log = logging.getLogger(__name__)

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


class _Told(NamedTuple):
    """What a broker says of one of the things that it was asked for."""

    resource: str
    code: int
    message: str | None = None


class Brokers:
    """What they are asked. Each question may be asked twice, making a topic among them."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._connections = KeptConnections(settings)
        self._passed_over = ""
        """Which brokers were asked in vain the last time, and why."""

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
        return (await self._configs(self._connections.to(address), _BROKER, (name,), FORGETTING))[name]

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
            raise NotYet(f"{asked.address}: knows nothing yet of {' and '.join(missing)}")
        for name, each in found.items():
            if each.leaderless:
                raise NotYet(f"topic {name}: no broker leads partition {each.leaderless[0]}")
        return found

    async def there(self, names: Collection[str]) -> list[dict[str, Found]]:
        """Those of them that are there, by name, as each broker tells that answers: one that is cut off from the
        controllers tells what was. Raises what one of them has refused, TopicsUnfit or UpstreamError, where none
        tells."""
        addresses = list(self._cluster.brokers.values()) or list(self._cluster.any_address())
        asked = (self._told_by(self._connections.to(address), names) for address in addresses)
        told: list[dict[str, Found]] = []
        unfit: list[TopicsUnfit] = []
        failures: list[str] = []
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, TopicsUnfit):
                unfit.append(answer)
            elif isinstance(answer, UpstreamError):
                failures.append(str(answer))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                told.append(answer[1])
        if not told and unfit:
            raise unfit[0]
        if not told:
            raise UpstreamError("; ".join(failures) or "no broker is known")
        return told

    async def _found(
        self, names: Collection[str]
    ) -> tuple[KeptConnection, metadata.MetadataResponse, dict[str, Found]]:
        """As the first broker tells that answers all of it."""
        failures: list[str] = []
        for address in self._cluster.any_address():
            asked = self._connections.to(address)
            try:
                view, found = await self._told_by(asked, names)
            except NotYet:
                raise
            except UpstreamError as error:
                failures.append(str(error))
                continue
            passed_over = "; ".join(failures)
            if passed_over and passed_over != self._passed_over:
                log.info("%s is asked about topics of the log: %s", address, passed_over)
            self._passed_over = passed_over
            return asked, view, found
        raise UpstreamError("; ".join(failures) or "no broker is known")

    async def _told_by(
        self, asked: KeptConnection, names: Collection[str]
    ) -> tuple[metadata.MetadataResponse, dict[str, Found]]:
        view = await self._view(asked, names)
        there = [topic for topic in view.topics if topic.error_code != _NOT_THERE]
        _raise_for(metadata.API, [_Told(f"topic {topic.name}", topic.error_code) for topic in there])
        configs = await self._configs(asked, _TOPIC, [topic.name or "" for topic in there], SETTINGS)
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
            try:
                answer = await controller.ask(create_topics.API, request, at_least=_WITHOUT_DOING)
            except UpstreamError as error:
                if not isinstance(error.__cause__, OSError) or isinstance(error.__cause__, ssl.SSLError):
                    raise
                # One that comes up is named before it takes connections.
                raise NotYet(f"who makes topics takes no connections: {error}") from error
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
    """Raises :class:`TopicsUnfit`, :class:`BrokersMissing` or :class:`NotYet` where not all codes are 0: a line of
    all of one kind."""
    lines: dict[type[Exception], list[str]] = {TopicsUnfit: [], BrokersMissing: [], NotYet: []}  # the worst first
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
        return BrokersMissing
    return TopicsUnfit if code in _STAYS else NotYet
