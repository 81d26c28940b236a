"""Writes the offsets of a commit to ZooKeeper, on condition or not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from compat import zookeeper as layout
from protocol.own.state_log import ABSENT
from protocol.topic_partition import Partition
from shim.offsets.store import Moved, StoreConflict, StoredOffset, StoreUnavailable
from shim.offsets.zookeeper.ensemble import Ensemble
from shim.offsets.zookeeper.in_store_words import in_store_words
from shim.offsets.zookeeper.znodes import (
    ANY_VERSION,
    Create,
    MultiFailed,
    NoZnode,
    Operation,
    Set,
    WrongVersion,
    Znode,
    ZnodeExists,
)

_TRIES: Final = 5
"""Of a request whose znodes somebody creates and deletes at the same time."""

_OTHERS_CHANGED: Final = (NoZnode, ZnodeExists, WrongVersion)


class _Write(NamedTuple):
    partition: Partition
    path: str
    data: bytes
    expected: int | None

    def fits(self, found: Znode | None) -> bool:
        """Whether what is there is what is expected."""
        return self.expected is None or self.expected == (ABSENT if found is None else found.version)

    def operation(self, absent: bool) -> Operation:
        if absent:
            return Create(self.path, self.data)
        return Set(self.path, self.data, ANY_VERSION if self.expected is None else self.expected)


async def commit(ensemble: Ensemble, group: str, offsets: Mapping[Partition, StoredOffset]) -> dict[Partition, int]:
    """As :meth:`shim.offsets.store.OffsetStore.commit`."""
    writes = [
        _Write(
            (topic, partition),
            layout.offset_path(group, topic, partition),
            layout.offset_data(each.offset),
            each.version,
        )
        for (topic, partition), each in offsets.items()
    ]
    # Where it is created, a znode has an ACL that can be longer in the ensemble's own messages than in ours.
    limit = ensemble.jute_maxbuffer * 7 // 8
    written: dict[Partition, int] = {}
    for portion in layout.portions(writes, lambda each: ensemble.size_of(each.operation(True)), limit):
        with in_store_words(written):
            versions = await _write(ensemble, group, portion, written)
        written.update(zip((each.partition for each in portion), versions, strict=True))
    return written


async def _write(
    ensemble: Ensemble, group: str, writes: Sequence[_Write], written: Mapping[Partition, int]
) -> list[int]:
    """The new versions. ``written``: what of the commit has been before, for errors."""
    absent = {each.path for each in writes if each.expected == ABSENT}
    for _ in range(_TRIES):
        try:
            versions = await ensemble.multi([each.operation(each.path in absent) for each in writes])
        except MultiFailed as failed:
            if not isinstance(failed.reason, _OTHERS_CHANGED):
                raise
        else:
            return [version for version in versions if version is not None]
        found = await ensemble.get_many([each.path for each in writes])
        moved = {
            write.partition: _moved(znode) for write, znode in zip(writes, found, strict=True) if not write.fits(znode)
        }
        if moved:
            raise StoreConflict(group, moved, written)
        absent = {write.path for write, znode in zip(writes, found, strict=True) if znode is None}
        await _make_topics(ensemble, group, {each.partition[0] for each in writes if each.path in absent})
    raise StoreUnavailable(f"group {group!r}: somebody else creates and deletes its offsets all the time", written)


def _moved(found: Znode | None) -> Moved:
    if found is None:
        return Moved(None, ABSENT)
    try:
        return Moved(layout.parse_offset(found.data), found.version)
    except layout.NotAnOffset:
        return Moved(None, found.version)


async def _make_topics(ensemble: Ensemble, group: str, topics: set[str]) -> None:
    if not topics:
        return
    await ensemble.make_path(layout.offsets_path(group))  # once, not by each topic at the same time
    await asyncio.gather(*(ensemble.make_path(layout.topic_path(group, topic)) for topic in topics))
