"""How often it was asked in vain who leads a partition: now and then another broker is asked first then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

IN_VAIN_TIMES: Final = 4
"""So many, and another broker is asked first: who leads changes, and what comes first is in vain for a moment."""


class AskedInVain:
    """Of one topic. Who is asked first when it goes well stays that, as the one before may still be cut off."""

    def __init__(self) -> None:
        self._times: Counter[int | None] = Counter()

    def failed(self, partition: int | None) -> None:
        """None: it was asked how many there are."""
        self._times[partition] += 1

    def passed_over(self, partition: int | None) -> int:
        """How many brokers were asked first, and are not any more; see :meth:`TopicLeaders.look_up`."""
        return self._times[partition] // IN_VAIN_TIMES

    @contextmanager
    def asking(self, partition: int | None) -> Iterator[int]:
        """Gives how many are :meth:`passed_over`. Whatever ends it but an answer is in vain, among it that nobody waits
        any more."""
        try:
            yield self.passed_over(partition)
        except BaseException:
            self.failed(partition)
            raise
