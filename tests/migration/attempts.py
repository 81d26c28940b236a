"""What was written of one partition's offset by one who writes, and whether what stands there goes with it."""

from __future__ import annotations

import threading
from collections.abc import Iterable


class WrongOffset(AssertionError):
    """What stands there is nothing that may."""


class Attempts:
    """The offsets that somebody has written for one partition, each sent after the one before had been answered or
    given up, and no two of them the same. From any thread.

    So whatever becomes of the places, what stands there in the end is the last one that was acknowledged, or one that
    was sent after it.
    """

    def __init__(self, first: int) -> None:
        """``first`` is there."""
        self._lock = threading.Lock()
        self._sent = [first]
        self._acknowledged = 0

    def sending(self, offset: int) -> None:
        with self._lock:
            assert offset not in self._sent, "who stands there could not be told"
            self._sent.append(offset)

    def acknowledge(self) -> None:
        """What was sent last."""
        with self._lock:
            self._acknowledged = len(self._sent) - 1

    def possible(self) -> list[int]:
        """What may stand there."""
        with self._lock:
            return self._sent[self._acknowledged :]


def check(found: int, writers: Iterable[Attempts], what: str) -> None:
    """Raises :class:`WrongOffset`."""
    possible = [offset for writer in writers for offset in writer.possible()]
    if found not in possible:
        raise WrongOffset(f"{what} is {found}, and may be one of {possible}")
