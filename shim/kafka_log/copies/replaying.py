"""What the records of an offsets partition on a topic say, applied to a coordinator as it loads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from protocol.errors import DecodeError
from protocol.own.record_sets import LoggedRecord
from protocol.own.state_log import GroupChangeKey, GroupHandsValue
from protocol.own.topic_log import (
    Owner,
    OwnerKey,
    PendingKey,
    PendingValue,
    Place,
    PlaceKey,
    PositionKey,
    PositionValue,
    decode_own,
    is_own,
)
from shim.coordinator import ReplayedPartition
from shim.log import LogError
from shim.runtime.replaying import Home, Replay


class TopicReplay:
    """Of one partition. Compaction may have left of each key the newest record only: what the coordinator knows then is
    the same, but for what is neither served nor needed by then. That is a group that has no offset any more, and of
    which there was never a record of its own; and a transaction of which all offsets were deleted. Where something that
    was pending may have been deleted, that is taken for certain.

    Who has written before is looked at where the partition is read (:class:`ReadPart`). ``skipped`` is told offset and
    type of a record whose key is of no type that is known, and not one of ours.
    """

    def __init__(
        self,
        into: ReplayedPartition,
        home: Home,
        skipped: Callable[[int, int], None] = lambda _offset, _type: None,
    ) -> None:
        self._into = into
        self._home = home
        self._replay = Replay(into, home, skipped)
        self.place: Place | None = None
        """What it says last of which place counts; None: nothing."""
        self.changes: dict[GroupChangeKey, GroupHandsValue] = {}
        """Where groups stood before, which no coordinator knows."""

    def apply(self, records: Iterable[LoggedRecord]) -> None:
        """Records that follow those before. Raises LogError where one is no record of this partition's."""
        # It takes one after the other, so that our own are applied between those before and those behind them.
        self._replay.apply(self._but_own(records))

    def _but_own(self, records: Iterable[LoggedRecord]) -> Iterator[LoggedRecord]:
        for record in records:
            if not is_own(record.key):
                yield record
                continue
            try:
                self._apply_own(record)
            except DecodeError as error:
                reason = f"{self._home.where(record.offset)}: the record cannot be decoded: {error}"
                raise LogError(reason) from error

    def _apply_own(self, record: LoggedRecord) -> None:
        into = self._into
        match decode_own(record.key, record.value):
            case PendingKey() as key, PendingValue() as value:
                self._home.check(key.group)
                begun = None if value.begun is None else value.begun.of(key.followed)
                into.replay_pending_begun(key.producer, begun, key.offset, value.value)
            case PendingKey() as key, None:
                into.replay_settled(key.producer, key.offset)
            case PositionKey() as key, PositionValue() as value:
                into.replay_position(value.of(key.followed))
            case OwnerKey(), Owner():
                pass
            case PlaceKey(), Place() as place:
                self.place = place
            case key, value:
                self._home.check(key.group)
                if isinstance(key, GroupChangeKey) and isinstance(value, GroupHandsValue):
                    self.changes[key] = value
                into.replay_state(key, value)
