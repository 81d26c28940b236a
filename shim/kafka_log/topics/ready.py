"""The two topics that the log is kept on: made where they are not there, looked at where they are."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Final, NamedTuple, TypeVar

from shim.config import Settings
from shim.kafka_log.topics.brokers import Brokers
from shim.kafka_log.topics.wanted import (
    BrokersMissing,
    Found,
    NotYet,
    TopicsUnfit,
    TopicsWanted,
    complaints,
    retention_ms,
)
from shim.upstream import Cluster

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 30.0
_RETRY_S: Final = 0.1

_TOLD_OF_BEHIND_S: Final = 2.0
"""Topics are made, and their leaders elected, in less; of what takes longer a line tells."""

_WAITING: Final = "waiting for the topics of the log, for %g seconds at most: %s"
_WAITING_FOR_BROKERS: Final = "waiting for more brokers, for %g seconds at most: %s"

Answer = TypeVar("Answer")


class LogTopics(NamedTuple):
    """The topics as they are. Ids are zero where the brokers are too old to tell (before 2.8)."""

    offsets: str
    history: str
    offsets_id: bytes
    partitions: int
    max_message_bytes: int
    """Of the offsets: no batch may be larger."""
    history_max_message_bytes: int
    """Likewise, of the history."""
    delete_retention_ms: int
    """Of the offsets: how long a tombstone stays at least."""
    owner_again_seconds: float
    """An owner that has had nothing acknowledged for so long writes its `Owner` record again, before brokers forget
    it."""


async def make_ready(
    cluster: Cluster, settings: Settings, wanted: TopicsWanted, patience_seconds: float = PATIENCE_SECONDS
) -> LogTopics:
    """Both topics are there, are fit, and have leaders, as far as the broker knows that was asked. By CreateTopics
    (KIP-4) and DescribeConfigs (KIP-133): brokers since 0.11, with KRaft or ZooKeeper (tried: 2.8.2, 3.9.2, 4.3.1).

    Any number of processes may do it at the same time. Raises :class:`TopicsUnfit` for what stays until somebody
    changes it, :class:`UpstreamError` for what passes by itself, and has not for ``patience_seconds``; a connection
    that fails is not waited for, but for one to who makes topics.
    """
    with closing(Brokers(cluster, settings)) as brokers:
        # First, as nothing is to be made for a log that cannot be.
        again = await _in_time(brokers.owner_again_seconds, patience_seconds)
        found = await _in_time(lambda: brokers.topics(wanted), patience_seconds)
    offsets, history = (found[name] for name in wanted.names)
    return LogTopics(
        *wanted.names,
        offsets.topic_id,
        wanted.partitions,
        int(offsets.configs["max.message.bytes"]),
        int(history.configs["max.message.bytes"]),
        retention_ms(wanted.offsets, offsets),
        again,
    )


class Looked(NamedTuple):
    """What the topics are like while they are in use. ``complaints``: what may lose data, as :func:`complaints`."""

    complaints: tuple[str, ...]
    delete_retention_ms: int
    """Of the offsets."""


async def look(cluster: Cluster, settings: Settings, wanted: TopicsWanted) -> Looked:
    """As all brokers tell that can be asked: what one of them complains of counts, and the least retention. Raises
    :class:`TopicsUnfit` where it may not, or a topic is not there; :class:`UpstreamError`."""
    told = await _told(cluster, settings, wanted, wanted.names)
    lines = dict.fromkeys(line for found in told for line in complaints(wanted, found))
    return Looked(tuple(lines), _least_retention_ms(wanted, told))


async def look_up_retention(cluster: Cluster, settings: Settings, wanted: TopicsWanted) -> int:
    """The least `delete.retention.ms` of the offsets that a broker tells, whatever there is of the history. Raises as
    :func:`look`."""
    return _least_retention_ms(wanted, await _told(cluster, settings, wanted, (wanted.offsets,)))


async def _told(
    cluster: Cluster, settings: Settings, wanted: TopicsWanted, names: Sequence[str]
) -> list[dict[str, Found]]:
    """See :meth:`Brokers.there`; each of these topics somebody knows."""
    with closing(Brokers(cluster, settings)) as brokers:
        told = await brokers.there(names)
    missing = [name for name in names if all(name not in found for found in told)]
    if missing:
        raise TopicsUnfit(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not there")
    return told


def _least_retention_ms(wanted: TopicsWanted, told: Iterable[Mapping[str, Found]]) -> int:
    return min(retention_ms(wanted.offsets, found[wanted.offsets]) for found in told if wanted.offsets in found)


async def _in_time(ask: Callable[[], Awaitable[Answer]], patience_seconds: float) -> Answer:
    began_at = time.monotonic()
    is_told = False
    while True:
        try:
            return await ask()
        except NotYet as error:
            waited = time.monotonic() - began_at
            few = isinstance(error, BrokersMissing)
            if waited > patience_seconds:
                if few:
                    raise TopicsUnfit(str(error)) from error
                raise
            if not is_told and (few or waited > _TOLD_OF_BEHIND_S):
                is_told = True
                log.info(_WAITING_FOR_BROKERS if few else _WAITING, patience_seconds, error)
        await asyncio.sleep(_RETRY_S)  # a broker tells nobody when it knows more
