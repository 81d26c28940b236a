"""Who reads next of those that have much to pass on, so that nobody waits long behind them.

One turn of the event loop reads every connection that has bytes, libuv up to 32 times each. Beside hundreds of
consumers that are hundreds of MB before a commit is read. So what may be passed on in one turn has a bound: when it is
spent, reads are short, and who passes much on all the same stands in a queue. The next turn has a share again, first of
all for those who have waited, in the order in which they came.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from shim.upstream.read_buffer import READ_BYTES

SHARE_BYTES: Final = READ_BYTES
"""What is passed on in one turn before others wait. As much as one read: with less, one that is busy alone would stop
and go on for each; with four times as much commits waited longer, and no more was passed on (docs/performance.md)."""

HURRIED_BYTES: Final = SHARE_BYTES >> 2
"""The share, and the most that one read brings, after a request that the shim answers itself, but not at once: an
answer that has to be durable takes four turns or five. It costs processor time for each byte, so turns are whole where
there are no such requests (docs/performance.md)."""

HURRIED_TURNS: Final = 32
"""After the last such request. Only turns that pass much on count: it is 8 MiB, some 6 ms of what can be passed on."""

SHORT_BYTES: Final = 1 << 14
"""What a read brings at most when the share is spent: requests and answers of the usual size do not notice. What brings
less is not counted: so many connections bound what all of them pass on."""


class Reader(Protocol):
    """A connection that may stand in the queue."""

    def wait(self) -> None:
        """Do not read until :meth:`go_on`."""

    def go_on(self) -> bool:
        """Read on. False: it is not read from all the same, for another reason."""


class Turns:
    """No I/O and no clock: whoever runs the loop calls :meth:`turn` at the beginning of the next turn when
    ``wants_turn`` says so.
    """

    def __init__(self, wants_turn: Callable[[], object], share_bytes: int = SHARE_BYTES) -> None:
        """``wants_turn`` is called when the share is spent, and again after the next :meth:`turn`."""
        self._wants_turn = wants_turn
        self._wanted = False
        self._share = self._left = share_bytes
        self._whole = READ_BYTES
        self._hurried = 0
        self._usual = READ_BYTES  # what a read brings, of late
        self._queue: OrderedDict[Reader, None] = OrderedDict()
        # Those of the queue whose turn it is and who have not read yet. The first of them may read whatever the others
        # have brought: in which order the loop comes to them is not known.
        self._going_on: dict[Reader, None] = {}
        self._first: Reader | None = None

    def __len__(self) -> int:
        """Those that wait."""
        return len(self._queue)

    def room(self, reader: Reader) -> int:
        """Bytes that a read may bring now."""
        if reader in self._going_on:
            whole = self._left > 0 or reader is self._first
        else:
            whole = self._left > 0 and not self._queue and not self._going_on
        return self._whole if whole else SHORT_BYTES

    def hurry(self) -> None:
        """A request has come that the shim answers itself, but not at once."""
        self._hurried = HURRIED_TURNS
        self._whole = HURRIED_BYTES

    def passed_on(self, reader: Reader, count: int) -> None:
        """``reader`` has passed so many bytes on in one read. It may have to wait now."""
        if count < SHORT_BYTES:
            if self._going_on:
                self._going_on.pop(reader, None)
            return
        may_have_more = count >= self.room(reader)
        self._going_on.pop(reader, None)
        if count > SHORT_BYTES:
            self._usual += (count - self._usual) // 8
        self._left -= count
        spent = self._left <= 0
        if spent:
            self._want_turn()
        # One that has read all there was waits behind others only: alone it would stop and go on for nothing.
        if self._queue or self._going_on or (spent and may_have_more):
            self._queue[reader] = None
            reader.wait()
        if spent and self._going_on:
            self._call_back()

    def leave(self, reader: Reader) -> None:
        """It is gone; nothing is called on it any more."""
        self._queue.pop(reader, None)
        self._going_on.pop(reader, None)
        if reader is self._first:
            self._first = None

    def turn(self) -> None:
        """A turn begins."""
        self._wanted = False
        self._hurried -= self._hurried > 0
        self._whole, self._left = (
            (HURRIED_BYTES, min(HURRIED_BYTES, self._share)) if self._hurried else (READ_BYTES, self._share)
        )
        self._going_on.clear()
        self._first = None
        coming = 0
        while self._queue and coming < self._left:
            reader, _ = self._queue.popitem(last=False)
            if reader.go_on():
                self._going_on[reader] = None
                self._first = reader if self._first is None else self._first
                coming += self._usual
        if self._queue or self._going_on:
            self._want_turn()

    def _call_back(self) -> None:
        """More has come than usual: those who have not read yet are the first in the next turn."""
        for reader in reversed([each for each in self._going_on if each is not self._first]):
            del self._going_on[reader]
            self._queue[reader] = None
            self._queue.move_to_end(reader, last=False)
            reader.wait()

    def _want_turn(self) -> None:
        if not self._wanted:
            self._wanted = True
            self._wants_turn()
