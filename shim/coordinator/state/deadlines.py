"""Deadlines in a lazy heap: putting off a known deadline, as every heartbeat does, costs two assignments.

Sorting out what was put off is done in small steps, so that nothing waits for it, however many come up at once.
"""

import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# Below this many heap entries, those that stand for no deadline are not worth sweeping out.
_SWEEP_FROM: Final = 64

# Entries for each deadline, above that: what groups are counted to take has room for so many.
ENTRIES_FOR_EACH: Final = 1.5

# How many entries that were put off, or are of no use any more, one call sorts out at most.
_NEXT_STEPS: Final = 16
_POP_STEPS: Final = 256


class _Entry(Generic[K]):
    """`due` is None when it was cancelled, and there is no key then. `queued`: the time of the heap entry that stands
    for it, never later."""

    __slots__ = ("due", "key", "queued")

    def __init__(self, key: K, at: int) -> None:
        self.key = key
        self.due: int | None = at
        self.queued = at


class Deadlines(Generic[K]):
    """At most one deadline for each key, in milliseconds since the epoch."""

    __slots__ = ("_count", "_entries", "_heap")

    def __init__(self) -> None:
        self._entries: dict[K, _Entry[K]] = {}
        self._heap: list[tuple[int, int, _Entry[K]]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> int | None:
        """The key's deadline, or None."""
        entry = self._entries.get(key)
        return entry.due if entry is not None else None

    def set(self, key: K, at: int) -> None:
        """Set the key's deadline, in place of an earlier setting."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(key, at)
        else:
            entry.due = at
            if at >= entry.queued:
                return
            entry.queued = at
        self._sweep_where_most_are_of_no_use()
        self._count += 1  # entries are never compared: among equal times, first set is first due
        heapq.heappush(self._heap, (at, self._count, entry))

    def cancel(self, key: K) -> None:
        """Forget the key's deadline; nothing happens when there is none."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.due = None
            del entry.key  # the heap keeps the entry until it comes up, and a key may hold a whole request
            self._sweep_where_most_are_of_no_use()

    def next(self) -> int | None:
        """The earliest deadline, or None when there is none. Where many were put off, it may be an earlier time."""
        heap = self._heap
        for _ in range(_NEXT_STEPS):
            if not heap:
                return None
            at, _, entry = heap[0]
            if entry.due == at:
                return at
            self._settle_first()
        return heap[0][0] if heap else None

    def may_be_before(self, time: int) -> bool:
        """Whether `next` may be before that time; nothing is sorted out."""
        heap = self._heap
        return bool(heap) and heap[0][0] < time

    def pop_due(self, now: int) -> K | None:
        """Remove and return the key with the earliest deadline if that is at or before `now`, otherwise None.

        None as well when `next` is to be asked again, since many were put off: it is at or before `now` then.
        """
        heap = self._heap
        for _ in range(_POP_STEPS):
            if not heap or heap[0][0] > now:
                return None
            at, _, entry = heap[0]
            if entry.due == at:
                heapq.heappop(heap)
                entry.due = None
                del self._entries[entry.key]
                self._sweep_where_most_are_of_no_use()
                return entry.key
            self._settle_first()
        return None

    def _settle_first(self) -> None:
        """The first entry of the heap is not at its deadline: put it there, if it still stands for one."""
        at, _, entry = self._heap[0]
        if entry.due is None or entry.queued != at:  # cancelled; a later `set` of an earlier time pushed another entry
            heapq.heappop(self._heap)
            return
        entry.queued = entry.due
        self._count += 1
        heapq.heapreplace(self._heap, (entry.due, self._count, entry))

    def _sweep_where_most_are_of_no_use(self) -> None:
        if len(self._heap) > max(_SWEEP_FROM, ENTRIES_FOR_EACH * len(self._entries)):
            self._sweep()

    def _sweep(self) -> None:
        self._heap = [each for each in self._heap if each[2].due is not None and each[2].queued == each[0]]
        heapq.heapify(self._heap)
