"""How far another log has been taken over into this one, said in the batch that was taken over: a header of its record.

A record header, as every reader of the format passes over those that it does not know. The position is durable with
what it is the position of, or not at all. Of several the last one counts: where the other log has lost its end, the
position goes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.wire import ZERO_UUID

if TYPE_CHECKING:
    from protocol.records.batches import BatchHeader

Header = tuple[str, bytes | None]

POSITION_HEADER: Final = "offset-shim.position"

_POSITION: Final = Struct(">iqiq16s")
UNKNOWN_EPOCH: Final = -1


class Producer(NamedTuple):
    """Whose transaction was taken over: a producer id, and the partition of the other log that it was read from (-1
    where nothing says so). In one partition a producer's transactions come one after the other.
    """

    followed: int
    producer_id: int


class Position(NamedTuple):
    """All offsets of that partition below ``next_offset`` have been taken over, or are no concern.

    ``leader_epoch``: of the last batch below; ``epoch_offset``: where that epoch began, at the latest. By them is told
    whether the log is still the one that was read (KIP-101). ``topic_id``: of that log's topic; zero where the cluster
    does not say any (before Kafka 2.8).
    """

    partition: int
    next_offset: int
    leader_epoch: int = UNKNOWN_EPOCH
    epoch_offset: int = 0
    topic_id: bytes = ZERO_UUID

    def behind(self, batch: BatchHeader) -> Position:
        """Once that batch, the next one, has been read."""
        epoch = batch.partition_leader_epoch
        epoch_offset = self.epoch_offset if epoch == self.leader_epoch else self.next_offset
        return self._replace(next_offset=batch.next_offset, leader_epoch=epoch, epoch_offset=epoch_offset)

    def agreed(self, leader_epoch: int, end_offset: int) -> Position:
        """How far the log at the leader is the one that was read, where that has been asked for the end of this
        position's epoch, and has answered with the newest epoch up to that one that it knows, and where that one ends.
        """
        if leader_epoch == self.leader_epoch:
            end = min(self.next_offset, end_offset)
            return self._replace(next_offset=end, epoch_offset=min(self.epoch_offset, end))
        # What was read of later epochs is not in it, and of this one it may have what was never read.
        end = min(self.epoch_offset, end_offset)
        return self._replace(next_offset=end, leader_epoch=leader_epoch, epoch_offset=end)

    def is_of_another_topic(self, topic_id: bytes) -> bool:
        """Whether the topic was made anew, where both ids are known."""
        return ZERO_UUID not in (self.topic_id, topic_id) and self.topic_id != topic_id


def position_header(position: Position) -> Header:
    """Raises struct.error for numbers beyond an int32 and an int64."""
    return POSITION_HEADER, _POSITION.pack(*position)


def position_of(headers: Iterable[Header]) -> Position | None:
    """What the headers of a record say; None when they say nothing, or it is malformed."""
    for name, value in headers:
        if name == POSITION_HEADER and value is not None and len(value) == _POSITION.size:
            return Position(*_POSITION.unpack(value))
    return None
