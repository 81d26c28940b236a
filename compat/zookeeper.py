"""The znodes of the consumers of Kafka 0.7 to 1.1: where in ZooKeeper their offsets are, and as what.

Source: `kafka.utils.ZkUtils` of 0.8.2 and the wiki page "Kafka data structures in Zookeeper"; what may be a name is
`org.apache.zookeeper.common.PathUtils` (3.4 to 3.9).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

CONSUMERS: Final = "/consumers"
"""Its children are the groups."""

NO_PARTITION: Final = "not the name of a partition"
"""Why a znode below a topic is not taken that cannot be one of an offset."""

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_OFFSET: Final = re.compile(rb"[+-]?[0-9]{1,30}")  # what Java's Long.parseLong takes, of ASCII
_INT32_MAX: Final = 2**31 - 1
_INT64: Final = range(-(2**63), 2**63)

# Java sees a character beyond the 16 bits as two surrogates.
_NO_NAME: Final = re.compile("[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff/]")

_SHOWN: Final = 40  # bytes of a value in a message

T = TypeVar("T")


class NotAName(ValueError):
    """A group or topic of that name cannot be in ZooKeeper."""


class NotAnOffset(ValueError):
    """The value of an offset's znode is no number of 64 bits."""


class PartitionName(NamedTuple):
    """``broker_id``: in the layout of 0.7, where partitions were counted for each broker; None in the one since 0.8."""

    partition: int
    broker_id: int | None = None


class Offsets(NamedTuple):
    """A group's znode ``offsets``, or one below it: of a topic, or of a partition, which is ``name``."""

    group: str
    topic: str | None = None
    name: str | None = None

    @property
    def path(self) -> str:
        """Raises :class:`NotAName`."""
        if self.topic is None:
            return offsets_path(self.group)
        topic = topic_path(self.group, self.topic)
        return topic if self.name is None else f"{topic}/{self.name}"


def group_path(group: str) -> str:
    """Raises :class:`NotAName`, as the others do."""
    return f"{CONSUMERS}/{checked_name(group)}"


def ids_path(group: str) -> str:
    """Its children are the consumers that are there (ephemeral)."""
    return f"{group_path(group)}/ids"


def owners_path(group: str) -> str:
    """Its children are topics; theirs are the partitions that a consumer has (ephemeral)."""
    return f"{group_path(group)}/owners"


def consumer_of(thread: bytes) -> str:
    """The id of the consumer that a thread is of, given what stands in the znode of a partition that it owns."""
    return thread.decode("utf-8", "replace").rpartition("-")[0]


def offsets_path(group: str) -> str:
    """Its children are topics."""
    return f"{group_path(group)}/offsets"


def topic_path(group: str, topic: str) -> str:
    """Its children are partitions."""
    return f"{offsets_path(group)}/{checked_name(topic)}"


def offset_path(group: str, topic: str, partition: int) -> str:
    """Its value is the offset."""
    return f"{topic_path(group, topic)}/{partition}"


def parse_offsets_path(path: str) -> Offsets | None:
    """None where it is another znode."""
    match path.split("/"):
        case ["", consumers, group, "offsets", *below] if f"/{consumers}" == CONSUMERS and len(below) <= 2:
            return Offsets(group, *below)
        case _:
            return None


def checked_name(name: str) -> str:
    """``name``, where a znode can be called so. Raises :class:`NotAName`."""
    if name in ("", ".", "..") or _NO_NAME.search(name):
        raise NotAName(f"{name!r} cannot be the name of a znode")
    return name


def parse_partition(name: str) -> PartitionName | None:
    """What partition a znode below a topic is of: ``3``, or ``0-3`` of broker 0. None where it is of none."""
    numbers = name.split("-")
    if len(numbers) > 2 or not all(_NUMBER.fullmatch(each) and int(each) <= _INT32_MAX for each in numbers):
        return None
    *broker, partition = map(int, numbers)
    return PartitionName(partition, broker[0] if broker else None)


def parse_offset(data: bytes) -> int:
    """A negative one can stand there, too; consumers take it as none. Raises :class:`NotAnOffset`."""
    if not _OFFSET.fullmatch(data) or int(data) not in _INT64:
        shown = data if len(data) <= _SHOWN else data[:_SHOWN] + b"..."
        raise NotAnOffset(f"{shown!r} is no offset")
    return int(data)


def offset_data(offset: int) -> bytes:
    """The value of an offset's znode. Raises :class:`NotAnOffset`."""
    if offset not in _INT64:
        raise NotAnOffset(f"{offset} is no offset: it has more than 64 bits")
    return b"%d" % offset


class Chosen(NamedTuple):
    """Of a topic's znodes: ``names``: partition → the one that says its offset; ``strange``: name → why it is not
    taken."""

    names: Mapping[int, str]
    strange: Mapping[str, str]


def choose(names: Iterable[str]) -> Chosen:
    """Which of a topic's znodes say offsets.

    The layout since 0.8 goes before the one of 0.7. Where there is the latter alone, and of several brokers, they were
    different partitions, and none of them is this one.
    """
    since_08: dict[int, str] = {}
    of_07: dict[int, list[str]] = {}
    strange: dict[str, str] = {}
    for name in sorted(names):
        match parse_partition(name):
            case None:
                strange[name] = NO_PARTITION
            case PartitionName(partition, None):
                since_08[partition] = name
            case PartitionName(partition, _):
                of_07.setdefault(partition, []).append(name)
    chosen = dict(since_08)
    for partition, alike in of_07.items():
        if len(alike) == 1:
            chosen.setdefault(partition, alike[0])
        elif partition not in chosen:
            strange |= dict.fromkeys(alike, f"partition {partition} of several brokers")
    return Chosen(chosen, strange)


def portions(items: Iterable[T], size_of: Callable[[T], int], limit: int) -> Iterator[list[T]]:
    """``items`` in their order, in lists of ``limit`` bytes at most; one that is larger stands alone."""
    portion: list[T] = []
    size = 0
    for item in items:
        more = size_of(item)
        if portion and size + more > limit:
            yield portion
            portion, size = [], 0
        portion.append(item)
        size += more
    if portion:
        yield portion
