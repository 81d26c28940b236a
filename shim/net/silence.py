"""``connections.max.idle.ms``, and requests that never end: which connections are to be closed, pure.

Kafka's broker (4.3.1, measured) counts every byte that comes or goes as activity, though it be the next of a request
that never ends. Here that is the same, but for a request of which a part is kept: it has to be whole in time, or those
that wait for its room would wait for ever.
"""

from __future__ import annotations

from typing import Final

LOOKS: Final = 8
"""In the time after which a connection is closed it is looked at so many times."""


def pause_seconds(idle_seconds: float, unfinished_seconds: float) -> float:
    """Between two looks."""
    return min(idle_seconds, unfinished_seconds) / LOOKS


class Silence:
    """Of one connection, looked at now and then: on the way of its bytes nothing but a flag is set.

    It is never closed too early; too late by two pauses at most.
    """

    __slots__ = ("_quiet_since", "_unfinished", "_unfinished_since", "_unsent")

    def __init__(self, now: float) -> None:
        self._quiet_since = now
        self._unsent = 0
        self._unfinished: object = None
        self._unfinished_since = now

    def idle_seconds(self, now: float, *, active: bool, unsent: int) -> float:
        """``active``: whether bytes came or were written since the last look; ``unsent``: what waits to be sent, which
        shrinks as the client reads.
        """
        if active or unsent != self._unsent:
            self._quiet_since, self._unsent = now, unsent
        return now - self._quiet_since

    def unfinished_seconds(self, now: float, unfinished: object) -> float:
        """``unfinished`` stands for the request of which a part is kept, the same at each look; None: there is none."""
        if unfinished is None or unfinished is not self._unfinished:
            self._unfinished, self._unfinished_since = unfinished, now
        return now - self._unfinished_since
