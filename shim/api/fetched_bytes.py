"""Records that are fetched to be told otherwise, or looked at: the whole response is kept until then.

All connections share what is kept, so that many that fetch do not take more memory than one that fetches as much.
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
    """Whoever fetches has a share while it does. For the event loop."""

    def __init__(self) -> None:
        self._fetching = 0

    @contextmanager
    def share(self) -> Iterator[int]:
        """How many bytes one may fetch that begins now."""
        self._fetching += 1
        try:
            yield max(LEAST_FETCH_BYTES, min(MOST_FETCH_BYTES, FETCH_BYTES // self._fetching))
        finally:
            self._fetching -= 1
