"""Deadlines in a lazy heap: putting off a known deadline, as every heartbeat does, costs one dict assignment."""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# Below this many heap entries, those of cancelled deadlines are not worth sweeping out.
_SWEEP_FROM = 1_024


class Deadlines(Generic[K]):
    """At most one deadline for each key, in milliseconds since the epoch."""

    __slots__ = ("_count", "_due", "_heap", "_queued")

    def __init__(self) -> None:
        self._due: dict[K, int] = {}
        # The time of the heap entry that stands for the key. It may be earlier than the key's deadline (the entry is
        # pushed again when it comes up), never later.
        self._queued: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def get(self, key: K) -> int | None:
        """The key's deadline, or None."""
        return self._due.get(key)

    def set(self, key: K, at: int) -> None:
        """Set the key's deadline, in place of an earlier setting."""
        self._due[key] = at
        queued = self._queued.get(key)
        if queued is None or at < queued:
            self._push(key, at)

    def cancel(self, key: K) -> None:
        """Forget the key's deadline; nothing happens when there is none."""
        self._due.pop(key, None)

    def next(self) -> int | None:
        """The earliest deadline, or None when there is none."""
        heap = self._heap
        while heap:
            at, _, key = heap[0]
            if self._queued.get(key) != at:  # a later `set` of an earlier time pushed another entry
                heapq.heappop(heap)
                continue
            due = self._due.get(key)
            if due == at:
                return at
            heapq.heappop(heap)
            del self._queued[key]
            if due is not None:
                self._push(key, due)
        return None

    def pop_due(self, now: int) -> K | None:
        """Remove and return the key with the earliest deadline if that is at or before `now`, otherwise None."""
        at = self.next()
        if at is None or at > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._queued[key]
        del self._due[key]
        return key

    def _push(self, key: K, at: int) -> None:
        if len(self._heap) >= max(_SWEEP_FROM, 4 * len(self._due)):
            self._sweep()
        self._queued[key] = at
        self._count += 1  # keys are never compared: among equal times, first set is first due
        heapq.heappush(self._heap, (at, self._count, key))

    def _sweep(self) -> None:
        self._heap = [entry for entry in self._heap if entry[2] in self._due and self._queued.get(entry[2]) == entry[0]]
        heapq.heapify(self._heap)
        self._queued = {key: at for at, _, key in self._heap}
