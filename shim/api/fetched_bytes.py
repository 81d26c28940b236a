"""Records that are fetched to be told otherwise, or looked at: the whole response is kept until the client has it.

All connections share what is kept for requests of one kind, so that many that fetch do not take more memory than one
that fetches as much, be it that none of them reads what it has asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from compat.translation import MOST_FETCH_BYTES

FETCH_BYTES: Final = 64 << 20
LEAST_FETCH_BYTES: Final = 1 << 20
"""Of records, by all connections together, and by each all the same. What is kept of those that are converted is some
two and a half times that until the client has read it."""


class FetchedBytes:
    """For requests of one kind: whoever fetches has a share until the client has what was fetched. For the event
    loop."""

    def __init__(self) -> None:
        self._fetching = 0
        self._given = 0

    @contextmanager
    def share(self) -> Iterator[int]:
        """How many bytes one may fetch that begins now. To be held until they have left."""
        self._fetching += 1
        fair = min(MOST_FETCH_BYTES, FETCH_BYTES // self._fetching, FETCH_BYTES - self._given)
        share = max(LEAST_FETCH_BYTES, fair)
        self._given += share
        try:
            yield share
        finally:
            self._fetching -= 1
            self._given -= share
