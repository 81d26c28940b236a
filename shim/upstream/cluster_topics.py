"""Asks the brokers for topics: by name, as a list of all leaves out those that the shim may not see."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages import metadata
from shim.config import HostPort, Settings
from shim.upstream.cluster import Cluster
from shim.upstream.errors import UpstreamError
from shim.upstream.first_answer import NEXT_AFTER_SECONDS, first_answer
from shim.upstream.kept_connection import KeptConnections

log = logging.getLogger(__name__)

# An older Metadata request makes the topics that it asks for, where brokers do so.
_WITHOUT_MAKING: Final = 4

TOPICS_AT_ONCE: Final = 500
"""So many are asked for in one request."""

_LEGAL: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}\Z")
"""What a topic can be called (Kafka 4.3, `Topic.validate`)."""

_KEPT_BACK_S: Final = 1.0
"""A client's Metadata response, at most, until the brokers have told of ids."""

_NOT_THERE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION})


class Topic(NamedTuple):
    """``topic_id`` is zero where the brokers are too old to tell (before 2.8)."""

    topic_id: bytes
    partitions: int


View = Mapping[str, Topic | None]
"""Of the topics asked for; None of one that does not exist. One of which nothing can be said is missing."""


def is_legal(name: str) -> bool:
    """Whether there can be a topic of that name."""
    return _LEGAL.match(name) is not None


class ClusterTopics:
    """Keeps a connection to each broker that it has asked, which takes one request at a time."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._connections = KeptConnections(settings)
        self._answered: HostPort | None = None  # who is asked first the next time
        self._told_of_rights = False

    async def one(self, names: Collection[str]) -> View:
        """As the first broker says that answers (:func:`first_answer`). Raises :class:`UpstreamError`."""

        async def ask(address: HostPort) -> View:
            view = seen(await self._ask(address, names))
            self._answered = address
            return view

        known = sorted(self._cluster.any_address(), key=lambda each: each != self._answered)
        return await first_answer(known, ask, NEXT_AFTER_SECONDS)

    async def all(self, names: Collection[str]) -> View:
        """As all brokers say that each of them knows of; a topic of which they do not all say the same is missing.

        One that knows of other brokers may have lost touch: it is as if it had not answered. Then the others say which
        topic it is, but not that there is none. So it is with one that hangs while most have answered. Raises
        :class:`UpstreamError` where no more than half of them answer.
        """
        brokers = dict(self._cluster.brokers)
        if not brokers:
            raise UpstreamError("no broker is known")
        asked = {node_id: asyncio.create_task(self._ask(address, names)) for node_id, address in brokers.items()}
        try:
            await _answered_by_most(asked.values())
        finally:
            for task in asked.values():
                task.cancel()
            await asyncio.gather(*asked.values(), return_exceptions=True)
        views: list[View] = []
        failures: list[UpstreamError] = []
        for node_id, task in asked.items():
            if task.cancelled():
                failures.append(UpstreamError(f"broker {node_id} has not answered, and most others have"))
            elif isinstance(error := task.exception(), UpstreamError):
                failures.append(error)
            elif {broker.node_id for broker in task.result().brokers} != brokers.keys():
                failures.append(UpstreamError(f"broker {node_id} knows of other brokers than {sorted(brokers)}"))
            else:
                views.append(seen(task.result()))
        if 2 * len(views) <= len(brokers):
            raise failures[0]
        said = agreed(views)
        return {name: topic for name, topic in said.items() if topic is not None} if failures else said

    async def each(self, names: Collection[str]) -> Sequence[View | None]:
        """As the brokers say, each for itself; None of one that does not answer in time."""
        tasks = [asyncio.create_task(self._ask(address, names)) for address in self._cluster.brokers.values()]
        if not tasks:
            return []
        try:
            done, _ = await asyncio.wait(tasks, timeout=_KEPT_BACK_S)
        finally:  # the client may leave meanwhile
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        views: list[View | None] = [None] * (len(tasks) - len(done))
        for task in done:
            try:
                views.append(seen(task.result()))
            except UpstreamError:
                views.append(None)  # the look says so
        return views

    async def _ask(self, address: HostPort, names: Collection[str]) -> metadata.MetadataResponse:
        self._connections.close_others(self._cluster.any_address())
        asked = self._connections.to(address)
        wanted = metadata.MetadataRequest(
            tuple(metadata.MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=False
        )
        answer = await asked.ask(metadata.API, wanted, at_least=_WITHOUT_MAKING)
        # One that starts may know nothing yet, and at an address there may be another cluster by now.
        if not answer.brokers or answer.cluster_id != self._cluster.cluster_id:
            raise UpstreamError(f"{address}: knows no broker yet, or is of another cluster")
        self._note_refusals(answer)
        return answer

    def _note_refusals(self, answer: metadata.MetadataResponse) -> None:
        """Once: what is refused is asked for again and again."""
        refused = [topic.name for topic in answer.topics if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        if refused and not self._told_of_rights:
            self._told_of_rights = True
            log.warning(
                "the shim may not describe %s: offsets for what does not exist are taken, and a topic that is deleted "
                "or made anew is not noticed; allow its principal Describe on all topics",
                f"{refused[0]} and other topics" if len(refused) > 1 else refused[0],
            )

    def close(self) -> None:
        self._connections.close()


async def _answered_by_most(asked: Collection[asyncio.Task[metadata.MetadataResponse]]) -> None:
    """Until they are done, or more than half have answered, and for so long no other one."""
    left = set(asked)
    while left:
        answered = sum(task.done() and task.exception() is None for task in asked)
        timeout = NEXT_AFTER_SECONDS if 2 * answered > len(asked) else None
        done, left = await asyncio.wait(left, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return


def seen(answer: metadata.MetadataResponse) -> dict[str, Topic | None]:
    """What a response says of topics: nothing of one with an error that may pass."""
    view: dict[str, Topic | None] = {}
    for topic in answer.topics:
        if topic.name is None:
            continue
        if topic.error_code == ErrorCode.NONE and topic.partitions:
            view[topic.name] = Topic(topic.topic_id, 1 + max(each.partition_index for each in topic.partitions))
        elif topic.error_code in _NOT_THERE:
            view[topic.name] = None
    return view


def agreed(views: Sequence[View]) -> dict[str, Topic | None]:
    """What all say; of partitions there are as many as the one says who has heard of the most."""
    all_say: dict[str, Topic | None] = {}
    for name in views[0]:
        said = [view[name] for view in views if name in view]
        if len(said) == len(views) and len({topic and topic.topic_id for topic in said}) == 1:
            all_say[name] = max(said, key=lambda topic: topic.partitions if topic is not None else 0)
    return all_say
