"""Offsets that transactions had pending, and that a later record here has overtaken or deleted.

They do not come into force then, as at a broker. But the cluster has them pending, too, and nothing of that record:
whoever keeps the cluster's own offsets has to tell it, before the transaction ends there.

Who is killed before that has to know it at the next start. So it is in a dump, and what records tell of it counts, be
the cluster told of it long ago: to be told twice changes nothing there, but that what is pending by then is overruled,
too, and is brought there when it comes into force here.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from protocol.offsets_log import OffsetCommitKey, decode_key, encode_key
from protocol.topic_partition import Partition
from shim.coordinator.state.dump_reader import DumpReader

_COUNT: Final = Struct("<I")
_ENTRY: Final = Struct("<II")
_OFFSET: Final = Struct("<q")
_MOST_OFFSETS: Final = 8


class Overruled(NamedTuple):
    """``at``: rises from one to the next. ``offsets``: what was pending, as far as that is known: some of many, the
    last ones among them."""

    at: int
    offsets: frozenset[int]


class LeftOut(NamedTuple):
    """How many ``partitions`` were overruled and not noted, as there was no room; ``group``: that of the last one."""

    partitions: int
    group: str


class _Noted(NamedTuple):
    """``before``: what was noted of it until then."""

    at: tuple[str, Partition]
    offsets: frozenset[int]
    before: Overruled | None


class OverruledOffsets:
    """Of one offsets partition, by group, topic and partition, until somebody has brought them to the cluster.
    ``most``: so many partitions; of those beyond it is not known which they are."""

    __slots__ = ("_count", "_groups", "_last", "_left_out", "_most", "_noted")

    def __init__(self, most: int = 10_000) -> None:
        self._groups: dict[str, dict[Partition, Overruled]] = {}
        self._most = most
        self._count = 0
        self._noted = 0
        self._last: _Noted | None = None
        self._left_out: LeftOut | None = None

    def note(self, group: str, partition: Partition, offsets: frozenset[int]) -> None:
        """A commit or a deletion of that partition has come behind these."""
        before = self._groups.get(group, {}).get(partition)
        self._last = None
        if before is None and self._count >= self._most:
            self._left_out = LeftOut(1 if self._left_out is None else self._left_out.partitions + 1, group)
            return
        self._last = _Noted((group, partition), offsets, before)
        self._count += before is None
        self._noted += 1
        if before is not None:
            offsets |= set(islice(before.offsets - offsets, max(0, _MOST_OFFSETS - len(offsets))))
        self._groups.setdefault(group, {})[partition] = Overruled(self._noted, offsets)

    def came_into_force(self, group: str, partition: Partition, offset: int) -> None:
        """That offset of a transaction that has ended. On a topic there is a commit right before: where it is the last
        one that was noted, it was no other one's, and has overruled nothing, but what it overtakes in the cluster, too.
        """
        last, self._last = self._last, None
        if last is None or last.at != (group, partition) or offset not in last.offsets:
            return
        if last.before is not None:
            self._groups[group][partition] = last.before
        else:
            self.brought(group, {partition: self._groups[group][partition]})

    def take_left_out(self) -> LeftOut | None:
        """Since this was last asked."""
        left_out, self._left_out = self._left_out, None
        return left_out

    def of(self, group: str) -> Mapping[Partition, Overruled]:
        """A copy."""
        return dict(self._groups.get(group, {}))

    def keys(self) -> list[OffsetCommitKey]:
        """Of all groups."""
        return [OffsetCommitKey(group, *each) for group, its in self._groups.items() for each in its]

    def brought(self, group: str, those: Mapping[Partition, Overruled]) -> None:
        """``those``: as :meth:`of` gave them; what has been noted since is left."""
        self._last = None
        its = self._groups.get(group, {})
        for partition, each in those.items():
            if its.get(partition) == each:
                del its[partition]
                self._count -= 1
        if not its:
            self._groups.pop(group, None)

    def forget(self, group: str) -> None:
        """The cluster's own are right, of that one."""
        self._last = None
        self._count -= len(self._groups.pop(group, {}))

    def forget_offsets(self) -> None:
        """Which they were, as somebody else may have committed the same since."""
        self._last = None
        for its in self._groups.values():
            for partition, each in its.items():
                its[partition] = each._replace(offsets=frozenset())

    # -- dump and restore

    def dump(self) -> bytes:
        """All of it, as :meth:`restore` reads it, little-endian: how many; of each the sizes of its key, as in the log,
        and of its offsets, and these."""
        pieces = [_COUNT.pack(self._count)]
        for group, its in self._groups.items():
            for partition, each in its.items():
                raw_key = encode_key(OffsetCommitKey(group, *partition))
                pieces += (_ENTRY.pack(len(raw_key), len(each.offsets)), raw_key)
                pieces += map(_OFFSET.pack, sorted(each.offsets))
        return b"".join(pieces)

    @classmethod
    def restore(cls, raw: bytes | bytearray | memoryview) -> OverruledOffsets:
        """Raises DecodeError for anything that is no dump."""
        dump = DumpReader(raw)
        self = cls()
        for _ in range(dump.unpack(_COUNT)[0]):
            key_size, offsets = dump.unpack(_ENTRY)
            key = decode_key(bytes(dump.take(key_size)))
            if not isinstance(key, OffsetCommitKey):
                dump.fail("no offset")
            its = frozenset(dump.unpack(_OFFSET)[0] for _ in range(offsets))
            self.note(key.group, (key.topic, key.partition), its)
        dump.end()
        return self
