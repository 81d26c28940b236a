"""What the log says of offsets."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.offsets_log import OffsetCommitKey
from tests.coordinator.transacting import KafkaRule, Written


class Table(KafkaRule):
    """The offsets that the log makes, each with its place in the log, or that of its tombstone where it is gone."""

    def __init__(self, written: Iterable[Written] = ()) -> None:
        self.gone: dict[OffsetCommitKey, int] = {}
        self.times: dict[int, int] = {}
        super().__init__(written)

    def take(self, written: Written) -> None:
        for at, (key, value) in enumerate(written.records, self.next):
            if value is None:
                self.gone[key] = at
            else:
                self.times[at] = value.commit_timestamp
        super().take(written)

    def place(self, key: OffsetCommitKey) -> int:
        return self.offsets[key][0] if key in self.offsets else self.gone.get(key, -1)

    def offset(self, key: OffsetCommitKey) -> int:
        return self.offsets[key][1] if key in self.offsets else -1

    def committed_at(self, key: OffsetCommitKey) -> int:
        return self.times[self.offsets[key][0]]

    def has_group(self, group: str) -> bool:
        return any(key.group == group for key in (*self.offsets, *self.unstable()))
