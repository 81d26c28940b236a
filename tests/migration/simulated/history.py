"""What was done to each partition of a group, in order, and what may be left of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

Value = int | None


class By(Enum):
    """Who has written: a client of the shim, or an old consumer, to ZooKeeper."""

    CLIENT = auto()
    CONSUMER = auto()


@dataclass
class Written:
    value: Value
    by: By
    acknowledged: bool = False
    """Until then, and where it has failed, nobody knows whether it was done, or yet will be."""
    begun: float = 0.0
    """By the loop's time: when a client has asked, or a consumer has written."""


@dataclass
class History:
    """Of one partition. Each writes one after the other. ``written``: in the order in which it was begun."""

    written: list[Written] = field(default_factory=lambda: [Written(None, By.CONSUMER, acknowledged=True)])

    deletions: int = 0

    def deleted(self) -> None:
        """Somebody has deleted the znode, which is no commit: what the log has stands there again, and of what was
        written directly it may have nothing yet."""
        self.deletions += 1
        for each in self.written[1:]:
            if each.by is By.CONSUMER:
                each.acknowledged = False

    def has_failed(self, value: Value) -> bool:
        """Whether that was written last by somebody who knows nothing of it."""
        return any(each.value == value for each in self.written[self.last(*By) + 1 :])

    def begin(self, value: Value, by: By, begun: float = 0.0) -> Written:
        written = Written(value, by, begun=begun)
        self.written.append(written)
        return written

    def last(self, *by: By) -> int:
        """Which one is the last that was acknowledged, of those writers."""
        known = (at for at, each in enumerate(self.written) if each.acknowledged and (each.by in by or not at))
        return max(known)

    def since(self, first: int) -> list[Value]:
        """What may stand there, where that one, or a later one, is what was done last."""
        return [each.value for each in self.written[first:]]

    def possible(self, *, both_at_once: bool) -> list[Value]:
        """What may stand there in the end. Where two write at once the order of the two is anybody's."""
        if not both_at_once:
            return self.since(self.last(*By))
        return [
            each.value
            for at, each in enumerate(self.written)
            if at >= self.last(each.by) and (at or not any(self.last(by) for by in By))
        ]

    def possible_where_the_log_is_right(self) -> list[Value]:
        """As that, with both at once: what a consumer had written before a client committed is older than that."""
        last = self.last(By.CLIENT)
        begun = self.written[last].begun
        return [
            each.value
            for at, each in enumerate(self.written)
            if at >= last or (each.by is By.CONSUMER and each.begun >= begun and (last or at >= self.last(By.CONSUMER)))
        ]

    def settle(self, value: Value) -> None:
        """That is what is left."""
        self.written = [Written(value, By.CONSUMER, acknowledged=True)]


PARTITIONS: Final = range(3)
