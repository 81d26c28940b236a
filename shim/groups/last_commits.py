"""Who committed last, of each group that somebody looks at again and again: of the history, only what has come since
the last look is read."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from shim.groups.history import History
from shim.groups.words import Moved

MOST_KEPT: Final = 1_000
"""Groups; of those beyond, the one that was looked at longest ago is looked up anew."""

_READ_SECONDS: Final = 3.0
"""A large history of a group that has been idle for long is not read to its end for this."""
_AGAIN_SECONDS: Final = 60.0
"""Before that is tried once more."""


class _Known(NamedTuple):
    """``end``: of the history, up to which it was read. ``again_at``: not all of that was, and will be, the newest
    first, from that time of the loop on; None: there is no need."""

    moved: Moved | None
    end: int
    again_at: float | None = None


class LastCommits:
    """For the event loop."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._known: dict[str, _Known] = {}  # the one that was looked at longest ago is the first

    async def of(self, group: str) -> Moved | None:
        """The newest, also where retention has taken it since; where what has come since the last look could not be
        read in time it may be an older one for a minute. None where there is none, or it was not found in time. Raises
        Refused."""
        end, now = await self._history.end(group), asyncio.get_running_loop().time()
        known = self._known.get(group)
        if known is not None and (known.end > end or (known.again_at is not None and known.again_at <= now)):
            known = None
        if known is None or known.end < end:
            known = await self._looked(group, known, end, now)
        self._known.pop(group, None)
        self._known[group] = known
        if len(self._known) > MOST_KEPT:
            del self._known[next(iter(self._known))]
        return known.moved

    async def _looked(self, group: str, known: _Known | None, end: int, now: float) -> _Known:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                found = await self._history.last_commit(group, 0 if known is None else known.end)
        except TimeoutError:
            # What was not read is passed over until then: a group that is idle beside busy ones would have it read, to
            # no end, at each look.
            return _Known(None if known is None else known.moved, end, now + _AGAIN_SECONDS)
        return _Known(found, end) if found is not None or known is None else known._replace(end=end)
