"""What the records of a log say, applied to whatever keeps it: a coordinator as it loads, or a table of offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Final, Protocol, cast

from protocol.errors import DecodeError
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue, UnknownKey
from protocol.own.position import Position, Producer
from protocol.own.record_sets import LoggedRecord
from protocol.partition import partition_for
from protocol.replay import RecordDecoder
from shim.coordinator import Key, Value
from shim.log import LogError

_MOST_CHECKED: Final = 100_000
_LOOKED_AT: Final = 100


class Replayed(Protocol):
    """As :class:`shim.coordinator.ReplayedPartition` has it."""

    def replay(self, key: Key, value: Value | None) -> None: ...

    def replay_pending(
        self, producer: Producer, position: Position | None, key: OffsetCommitKey, value: OffsetCommitValue
    ) -> None: ...

    def replay_end(self, producer: Producer, position: Position | None, *, committed: bool) -> None: ...


class Home:
    """A partition, of which each group that is found in its records has to be."""

    def __init__(self, number: int, num_partitions: int, place: Path | str) -> None:
        """``place``: its folder, or, of one on a topic of the cluster, its name."""
        self.number = number
        self._num_partitions = num_partitions
        self._place = place
        self._checked: set[str] = set()

    def check(self, group: str) -> None:
        """That the records are not another partition's: of its groups nobody would be served an offset, and the offsets
        may be older than those where they belong. Raises LogError.
        """
        if group in self._checked:
            return
        belongs = partition_for(group, self._num_partitions)
        if belongs != self.number:
            raise LogError(
                f"{self._place} holds group {group!r}, which belongs into partition {belongs} of "
                f"{self._num_partitions}: these records are another partition's"
            )
        if len(self._checked) >= _MOST_CHECKED:
            self._checked.clear()
        self._checked.add(group)

    def check_some(self, groups: Iterable[str]) -> None:
        """Likewise, of all groups of a partition: the first of them stand for the rest, as files change their place
        together."""
        for group in islice(groups, _LOOKED_AT):
            self.check(group)

    def where(self, offset: int) -> str:
        """That one of its records, for people."""
        name = self._place.name if isinstance(self._place, Path) else self._place
        return f"{name} offset {offset}"


class Replay:
    """Of one partition. ``skipped`` is told offset and type of a record whose key is of no type that is known."""

    def __init__(self, into: Replayed, home: Home, skipped: Callable[[int, int], None] = lambda _offset, _type: None):
        self._into = into
        self._home = home
        self._skipped = skipped
        self._decode = RecordDecoder().decode

    def apply(self, records: Iterable[LoggedRecord]) -> None:
        """Records that follow those before. Raises LogError where one is no record of this partition's."""
        replay, home, decode = self._into.replay, self._home, self._decode
        last = None
        for offset, _, raw_key, raw_value, transaction in records:
            if transaction is not None and transaction.committed is not None:
                self._into.replay_end(transaction.producer, transaction.position, committed=transaction.committed)
                continue
            try:
                key, value = decode(raw_key, raw_value)
            except DecodeError as error:
                # The batch's CRC is right: this is what was once written, and skipping it could lose a commit.
                raise LogError(f"{home.where(offset)}: the record cannot be decoded: {error}") from error
            if isinstance(key, UnknownKey):
                self._skipped(offset, key.version)
                continue
            if key.group is not last:
                home.check(key.group)
                last = key.group
            if transaction is None:
                replay(key, cast(Value | None, value))
            elif isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                self._into.replay_pending(transaction.producer, transaction.position, key, value)
            else:
                raise LogError(f"{home.where(offset)}: no offset, in a transaction")
