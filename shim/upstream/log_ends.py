"""Where the logs of partitions begin and end, and which offset was the first at or after a time, as their leaders say
(ListOffsets)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from protocol.api import Api
from protocol.errors import ErrorCode
from protocol.messages import list_offsets, metadata
from protocol.topic_partition import Partition
from shim.config import HostPort
from shim.upstream.errors import UpstreamError

LATEST: Final = -1
"""As a timestamp: where the log ends, the high watermark."""
EARLIEST: Final = -2
"""Where it begins."""
NO_RECORD: Final = -1
"""As an offset: there is no record at or after that time."""

NO_OFFSET: Final = -1
"""As a committed offset: there is none. Clients may commit it, and any other negative number means the same."""

_FROM_A_CONSUMER: Final = -1
_TOPICS_A_REQUEST: Final = 500
_PARTITIONS_A_REQUEST: Final = 5_000
_WITHOUT_MAKING: Final = 4
"""An older Metadata request makes the topics that it asks for, where brokers do so."""
_SINGLE_OFFSET: Final = 1
"""ListOffsets v0 gives several offsets a partition."""
_NEWEST: Final = 9
"""What newer versions add nobody asks for here."""

Request = TypeVar("Request", bound=tuple[Any, ...])
Response = TypeVar("Response", bound=tuple[Any, ...])


class NotLed(UpstreamError):
    """There is no such partition, or nobody leads it."""


class Asked(Protocol):
    """The brokers of one cluster. Everything raises UpstreamError."""

    @property
    def addresses(self) -> Mapping[int, HostPort]:
        """By node id."""

    async def ask(
        self, node_id: int, api: Api[Request, Response], request: Request, *, version: int | None = None
    ) -> Response:
        """By default in the newest version that both sides have."""

    async def newest(self, node_id: int, api: Api[Any, Any], *, at_least: int, at_most: int) -> int:
        """The newest version of these that the broker has."""


def lag_of(committed: int, end: int | None) -> int | None:
    """How many offsets a group is behind in a partition, as Kafka's own tool counts it: those that retention has
    deleted since, too. Never below 0, though a commit may be newer than what the leader has said of the log's ``end``.

    None where nobody can tell: no offset is committed, or the end is not known.
    """
    if committed < 0 or end is None or end < 0:
        return None
    return max(end - committed, 0)


async def log_ends(
    cluster: Asked,
    partitions: Collection[Partition],
    timestamp: int = LATEST,
    *,
    within_seconds: float | None = None,
) -> dict[Partition, int | UpstreamError]:
    """The offset of each partition: at :data:`LATEST`, :data:`EARLIEST`, or the first at or after a time (ms since the
    epoch; :data:`NO_RECORD` where there is none). Where a partition does not exist, or cannot be asked for, why.
    ``within_seconds``: for how long each answer of a broker is waited for, where that is less than a request may take.

    Raises UpstreamError where no broker says who leads them.
    """
    cluster = cluster if within_seconds is None else _Impatient(cluster, within_seconds)
    leaders = await _leaders(cluster, {topic for topic, _ in partitions})
    found: dict[Partition, int | UpstreamError] = {}
    by_node: dict[int, list[Partition]] = {}
    for at in sorted(set(partitions)):
        code = leaders.refused.get(at[0]) or leaders.refused.get(at) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if at in leaders.nodes:
            by_node.setdefault(leaders.nodes[at], []).append(at)
        else:
            found[at] = NotLed(_refusal(at, code))
    asked = (_of_node(cluster, node_id, its, timestamp) for node_id, its in by_node.items())
    for answer in await asyncio.gather(*asked):
        found.update(answer)
    return found


class _Impatient:
    """See :class:`Asked`. Raises UpstreamError, too, of a broker that has not answered in that time: at once where that
    was so before."""

    def __init__(self, cluster: Asked, within_seconds: float) -> None:
        self._cluster = cluster
        self._within_seconds = within_seconds
        self._silent: dict[int, str] = {}

    @property
    def addresses(self) -> Mapping[int, HostPort]:
        return self._cluster.addresses

    async def ask(
        self, node_id: int, api: Api[Request, Response], request: Request, *, version: int | None = None
    ) -> Response:
        async with self._answering(node_id):
            return await self._cluster.ask(node_id, api, request, version=version)

    async def newest(self, node_id: int, api: Api[Any, Any], *, at_least: int, at_most: int) -> int:
        async with self._answering(node_id):
            return await self._cluster.newest(node_id, api, at_least=at_least, at_most=at_most)

    @asynccontextmanager
    async def _answering(self, node_id: int) -> AsyncIterator[None]:
        if node_id in self._silent:
            raise UpstreamError(self._silent[node_id])
        try:
            async with asyncio.timeout(self._within_seconds):
                yield
        except TimeoutError:
            address = self.addresses.get(node_id)
            named = f"broker {node_id}" if address is None else f"broker {node_id} at {address}"
            self._silent[node_id] = f"{named} has not answered in {self._within_seconds:g} s"
            raise UpstreamError(self._silent[node_id]) from None


class _Leaders(NamedTuple):
    """``nodes``: the leader's node id. ``refused``: the error codes of topics, and of partitions."""

    nodes: dict[Partition, int]
    refused: dict[str | Partition, int]


def _refusal(at: Partition, code: int) -> str:
    return f"{at[0]}-{at[1]}: {ErrorCode.name_of(code)}"


async def _leaders(cluster: Asked, topics: Collection[str]) -> _Leaders:
    found = _Leaders({}, {})
    names = sorted(topics)
    for first in range(0, len(names), _TOPICS_A_REQUEST):
        for topic in (await _any_broker(cluster, names[first : first + _TOPICS_A_REQUEST])).topics:
            if topic.name is None:
                continue
            if topic.error_code:
                found.refused[topic.name] = topic.error_code
            for each in topic.partitions:
                at = (topic.name, each.partition_index)
                if each.leader_id in cluster.addresses:
                    found.nodes[at] = each.leader_id
                else:
                    found.refused[at] = each.error_code or ErrorCode.LEADER_NOT_AVAILABLE
    return found


async def _any_broker(cluster: Asked, names: Collection[str]) -> metadata.MetadataResponse:
    wanted = metadata.MetadataRequest(
        tuple(metadata.MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=False
    )
    failures = []
    for node_id in list(cluster.addresses):
        try:
            newest = metadata.API.versions[1]
            version = await cluster.newest(node_id, metadata.API, at_least=_WITHOUT_MAKING, at_most=newest)
            return await cluster.ask(node_id, metadata.API, wanted, version=version)
        except UpstreamError as error:
            failures.append(str(error))
    raise UpstreamError("; ".join(failures) or "no broker of the cluster is known")


async def _of_node(
    cluster: Asked, node_id: int, partitions: Collection[Partition], timestamp: int
) -> dict[Partition, int | UpstreamError]:
    found: dict[Partition, int | UpstreamError] = {}
    wanted = list(partitions)
    for first in range(0, len(wanted), _PARTITIONS_A_REQUEST):
        some = wanted[first : first + _PARTITIONS_A_REQUEST]
        try:
            found.update(await _asked(cluster, node_id, some, timestamp))
        except UpstreamError as error:
            found.update(dict.fromkeys(some, error))
    return found


async def _asked(
    cluster: Asked, node_id: int, partitions: Collection[Partition], timestamp: int
) -> dict[Partition, int | UpstreamError]:
    by_topic: dict[str, list[list_offsets.ListOffsetsPartition]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(list_offsets.ListOffsetsPartition(number, timestamp=timestamp))
    request = list_offsets.ListOffsetsRequest(
        _FROM_A_CONSUMER,
        topics=tuple(list_offsets.ListOffsetsTopic(topic, tuple(its)) for topic, its in by_topic.items()),
    )
    version = await cluster.newest(node_id, list_offsets.API, at_least=_SINGLE_OFFSET, at_most=_NEWEST)
    answer = await cluster.ask(node_id, list_offsets.API, request, version=version)
    nothing = UpstreamError(f"broker {node_id} has answered with nothing of it")
    found: dict[Partition, int | UpstreamError] = dict.fromkeys(partitions, nothing)
    return found | {
        (topic.name, each.partition_index): UpstreamError(_refusal((topic.name, each.partition_index), each.error_code))
        if each.error_code
        else each.offset
        for topic in answer.topics
        for each in topic.partitions
    }
