"""The znodes that say offsets: what they are of, and what they say."""

from __future__ import annotations

from typing import NamedTuple

from compat import zookeeper as layout
from protocol.own.state_log import ABSENT
from protocol.topic_partition import Partition
from shim.offsets.store import StoredOffset
from shim.offsets.zookeeper.znodes import Znode


class OffsetZnode(NamedTuple):
    """A znode that says an offset. One in the layout of 0.7 is read only: what is written stands beside it."""

    group: str
    partition: Partition
    path: str
    writable: bool


def offset_znode(group: str, topic: str, name: str) -> OffsetZnode:
    """``name``: of the znode below the topic's. Raises ValueError where it is the name of no partition."""
    named = layout.parse_partition(name)
    if named is None:
        raise ValueError(f"{name!r} is not the name of a partition")
    path = f"{layout.topic_path(group, topic)}/{name}"
    return OffsetZnode(group, (topic, named.partition), path, named.broker_id is None)


def stored(at: OffsetZnode, znode: Znode) -> StoredOffset:
    """What stands there, with the version that a write is to expect. Raises :class:`compat.zookeeper.NotAnOffset`."""
    return StoredOffset(layout.parse_offset(znode.data), znode.version if at.writable else ABSENT)
