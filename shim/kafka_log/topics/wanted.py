"""What the two topics are to be like: how they are made, what is not fit of those that are there, and who gets which
replicas. All of it is decided by what the brokers told, and pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Final, NamedTuple, Self

from protocol.errors import ErrorCode
from protocol.records.batch_layout import HEADER_SIZE
from shim.config import Settings
from shim.log.segments.batching import MAX_BATCH_BYTES
from shim.upstream import UpstreamError

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""What the topics are made with."""

LEAST_MESSAGE_BYTES: Final = MAX_BATCH_BYTES + HEADER_SIZE
"""What a batch may have that several record sets share; a little more than brokers have by default."""

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS

FORGETTING: Final = ("producer.id.expiration.ms", "transactional.id.expiration.ms")
"""When brokers forget a producer, and so a fence: the first of these that they have. The second did so before 3.4
(KIP-854)."""

Replicas = tuple[tuple[int, ...], ...]
"""Of each partition, who would lead it first."""


class TopicsUnfit(Exception):
    """The log cannot be kept on these topics, or on this cluster, until somebody changes something there: one line."""


class NotYet(UpstreamError):
    """It may be otherwise in a moment."""


class BrokersMissing(NotYet):
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

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            settings.offsets_log_topics_prefix,
            settings.offsets_topic_num_partitions,
            settings.offsets_topic_replication_factor,
            settings.offsets_topic_segment_bytes,
            settings.offsets_history_retention_minutes,
        )

    @property
    def offsets(self) -> str:
        return f"{self.prefix}_offsets"

    @property
    def history(self) -> str:
        return f"{self.prefix}_history"

    @property
    def names(self) -> tuple[str, str]:
        return self.offsets, self.history


class Found(NamedTuple):
    """A topic, as a broker tells of it."""

    topic_id: bytes
    replicas: Replicas
    leaderless: tuple[int, ...]
    configs: Mapping[str, str]
    """Those that are in force, wherever they are set."""


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

SETTINGS: Final = tuple(sorted({need.setting for need in (*_OF_BOTH, *_OF_REPLICATED, *_OF_OFFSETS, *_OF_HISTORY)}))


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
        for setting in FORGETTING:
            if setting in settings:
                milliseconds = int(settings[setting])
                if milliseconds < _MINUTE_MS:
                    raise TopicsUnfit(f"broker {node_id}: {setting} is {milliseconds}, needed is at least {_MINUTE_MS}")
                shortest = min(shortest, milliseconds)
                break
    return min(_HOUR_MS, shortest / 4) / 1000


def retention_ms(name: str, found: Found) -> int:
    """`delete.retention.ms` of a topic. Raises :class:`TopicsUnfit` where it is not told."""
    retention = found.configs.get("delete.retention.ms", "")
    if not retention.isdecimal():
        raise TopicsUnfit(f"topic {name}: delete.retention.ms is {retention or 'not told'}")
    return int(retention)


def replicas_for(wanted: TopicsWanted, found: Mapping[str, Found], racks: Mapping[int, str | None]) -> Replicas:
    """Of topics that are to be made: those of the one that is there, so that one broker leads a partition of both.

    ``racks``: of the brokers, by node id. Raises :class:`BrokersMissing`.
    """
    for topic in found.values():
        return topic.replicas
    if len(racks) < wanted.replication_factor:
        there_are = "there is 1 broker" if len(racks) == 1 else f"there are {len(racks)} brokers"
        factor = f"offsets.topic.replication.factor is {wanted.replication_factor}"
        raise BrokersMissing(f"{ErrorCode.INVALID_REPLICATION_FACTOR.name}: {factor}, and {there_are}")
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
