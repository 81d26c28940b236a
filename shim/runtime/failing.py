"""Writes of one partition that fail: how long it is not served then, and of which failure there is a line."""

from __future__ import annotations

from typing import Final

FIRST_PAUSE_MS: Final = 500
LONGEST_PAUSE_MS: Final = 10_000


class Failing:
    """Each client would have a write fail as soon as it is served again, and all of it read back: so it pauses, for
    twice as long after each write that fails, until one lands. Times are those of the shim's clock, in milliseconds."""

    __slots__ = ("_pause", "_until", "_why")

    def __init__(self) -> None:
        self._pause = self._until = 0
        self._why: str | None = None

    def __bool__(self) -> bool:
        """Whether the last write has failed."""
        return self._pause > 0

    def failed(self, now: int, error: Exception) -> bool:
        """Whether that is new: it went well before, or something else was wrong."""
        self._pause = min(2 * self._pause, LONGEST_PAUSE_MS) or FIRST_PAUSE_MS
        self._until = now + self._pause
        why, self._why = self._why, str(error)
        return why != self._why

    def landed(self) -> None:
        self._pause = self._until = 0
        self._why = None

    def left(self, now: int) -> int:
        """Of the pause."""
        return max(0, self._until - now)
