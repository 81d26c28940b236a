"""What is in a snapshot of a partition on a topic, as bytes.

::

    magic "OSTP", version uint16, era 16 bytes; the anchor: topic id, partition int32, next offset int64, leader epoch
    int32, and of the batch that ends there base offset int64, producer id int64, producer epoch int16, base sequence
    int32, append time int64; the owner's record: length uint32 and key, length uint32 and value; length uint64, the
    shim's own state (coordinator/state/own_dump.py); what else the coordinator has (coordinator/state/dump.py)

All big-endian, but for the last two. Whose file it is, and where it is believed: snapshots.py.

Of owners it has who has written it, and under which producer. That is all there is to know: it was taken by one that
was serving, so the leases of those before had ended, and their producers were fenced. Nor is it said which place counts
(`Place`): the topic did, or nobody would have served from it.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from protocol.own.position import Position
from protocol.own.topic_log import Owner, OwnerKey, decode_own, encode_own, is_own
from protocol.records.batches import BatchHeader
from shim.coordinator import GroupCoordinator, ReplayedPartition
from shim.coordinator.state.dump_reader import DumpReader
from shim.kafka_log.reading.read_part import ReadPart
from shim.log.partition.snapshot import Snapshot
from shim.runtime.replaying import Home

_MAGIC: Final = b"OSTP"
_VERSION: Final = 2
_HEAD: Final = Struct(">4sH16s")
_ANCHOR: Final = Struct(">16siqiqqhiq")
_LENGTH: Final = Struct(">I")
_LONG_LENGTH: Final = Struct(">Q")


class Anchor(NamedTuple):
    """The batch that a snapshot ends with, and where that stands. ``append_time_ms``: by its leader's clock."""

    topic_id: bytes
    partition: int
    next_offset: int
    leader_epoch: int
    base_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    append_time_ms: int

    @classmethod
    def of(cls, topic_id: bytes, partition: int, header: BatchHeader) -> Anchor:
        return cls(
            topic_id,
            partition,
            header.next_offset,
            header.partition_leader_epoch,
            header.base_offset,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.max_timestamp,
        )

    @property
    def position(self) -> Position:
        """Its leader's epoch has begun with it, at the latest."""
        return Position(self.partition, self.next_offset, self.leader_epoch, self.base_offset, self.topic_id)

    def goes_with(self, there: BatchHeader | None) -> bool:
        """Whether the log has it, where ``there`` is the batch with its base offset, or the next one that is left.
        Compaction may have emptied it. Where it is gone, nobody knows what stood in its place: in a cluster that was
        put back to an earlier time another batch may have, and may have been compacted since."""
        return there is not None and self == Anchor.of(self.topic_id, self.partition, there)


class Kept(NamedTuple):
    """A snapshot that was read, and is sound. ``era``: in which it was taken. ``part``: as if all before it had been
    read. ``own``, ``rest``: two parts of what the coordinator has. ``written_at``: of CLOCK_BOOTTIME, when this machine
    has written it, by its own clock, and no earlier than it was taken."""

    snapshot: Snapshot
    era: bytes
    anchor: Anchor
    part: ReadPart
    own: memoryview
    rest: memoryview
    written_at: float

    def restore(self, coordinator: GroupCoordinator, home: Home, check: Callable[[], None] = lambda: None) -> None:
        """Into a new one, which is of no more use where this fails. Raises DecodeError, LogError, and what ``check``
        raises, which is called now and then."""
        coordinator.restore(self.rest, check)
        coordinator.restore_own(self.own, check)
        home.check_some(coordinator.group_ids())


def head_of(era: bytes, anchor: Anchor, owner: Owner) -> bytes:
    """What a payload begins with."""
    parts = (_LENGTH.pack(len(each or b"")) + (each or b"") for each in encode_own((OwnerKey(), owner)))
    return b"".join((_HEAD.pack(_MAGIC, _VERSION, era), _ANCHOR.pack(*anchor), *parts))


def read_kept(topic: str, snapshot: Snapshot, written_at: float) -> Kept:
    """Raises DecodeError, LogError."""
    dump = DumpReader(snapshot.payload)
    magic, version, era = dump.unpack(_HEAD)
    if (magic, version) != (_MAGIC, _VERSION):
        dump.fail(f"no snapshot of version {_VERSION} of a partition on a topic: {magic!r}, version {version}")
    anchor = Anchor(*dump.unpack(_ANCHOR))
    key, value = (bytes(dump.take(dump.unpack(_LENGTH)[0])) for _ in range(2))
    owner = decode_own(key, value)[1] if is_own(key) else None
    if not isinstance(owner, Owner) or anchor.next_offset != snapshot.offset:
        dump.fail("no owner, or another offset")
    own = dump.take(dump.unpack(_LONG_LENGTH)[0])
    part = ReadPart.behind(topic, anchor.position, owner, {anchor.producer_id: anchor.producer_epoch})
    return Kept(snapshot, era, anchor, part, own, dump.rest(), written_at)


class TopicDump:
    """Of all that the records of a partition on a topic make; its pieces begin behind :func:`head_of`."""

    def __init__(self, made: ReplayedPartition) -> None:
        self._own = made.begin_own_dump()
        self._rest = made.begin_dump()

    def step(self) -> bool:
        return self._own.step() or self._rest.step()

    def give_up(self) -> None:
        self._own.give_up()
        self._rest.give_up()

    def pieces(self) -> list[bytes]:
        own = self._own.pieces()
        return [_LONG_LENGTH.pack(sum(map(len, own))), *own, *self._rest.pieces()]
