"""When members of groups that are passed through were last heard of here."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

_MOST: Final = 100_000
"""Members of which that is known: the ones that were heard of last."""


class Seen(NamedTuple):
    """``at``: seconds, of a clock that only runs forward."""

    at: float
    generation: int


class MembersSeen:
    """By the requests of theirs that have come through this shim."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], Seen] = {}

    def saw(self, group_id: str, member_id: str, generation: int) -> None:
        """A request of a member has come."""
        if not member_id:
            return
        self._last.pop((group_id, member_id), None)  # so that it goes to the end
        if len(self._last) >= _MOST:
            del self._last[next(iter(self._last))]
        self._last[group_id, member_id] = Seen(time.monotonic(), generation)

    def seen(self, group_id: str, member_id: str, within_seconds: float) -> Seen | None:
        found = self._last.get((group_id, member_id))
        return found if found is not None and time.monotonic() - found.at <= within_seconds else None

    def silent_seconds(self, group_id: str, member_id: str) -> float | None:
        """Since the last request of a member has come here; None where that is not known: it may have come another way,
        or none."""
        found = self._last.get((group_id, member_id))
        return None if found is None else time.monotonic() - found.at
