"""Answers that are overdue: the network may have lost the way to a broker, and then nobody is told. Pure."""

from __future__ import annotations

from typing import Final

from shim.net.responses import Expected

LOOKS: Final = 8
"""In the shorter one of the times after which an answer is overdue."""


class Overdue:
    """Of one link, looked at now and then: an answer is found to be overdue never too early, and two looks too late at
    most.

    It is late when the broker sends no byte while it is the next one that is due: what the shim itself waits for
    (``Expected.prompt``) after ``request.timeout.ms``; any other after ``connections.max.idle.ms``, as a broker may
    keep it for as long as the client has said, but ends a connection itself on which nothing happens for so long.
    """

    __slots__ = ("_answer_seconds", "_due", "_idle_seconds", "_since")

    def __init__(self, answer_seconds: float, idle_seconds: float) -> None:
        self._answer_seconds = answer_seconds
        self._idle_seconds = idle_seconds
        self._due: Expected | None = None
        self._since = 0.0

    @property
    def pause_seconds(self) -> float:
        """Between two looks."""
        return min(self._answer_seconds, self._idle_seconds) / LOOKS

    def look(self, now: float, due: Expected | None, *, heard: bool) -> str | None:
        """Why the link cannot be any more; None: it may. ``due``: what comes next; None where nothing does, or where it
        cannot come for reasons of the shim's own. ``heard``: whether the broker has sent anything since the last look.
        """
        if heard or due is None or due is not self._due:
            self._due, self._since = due, now
        if due is None:
            return None
        silent = now - self._since
        if due.prompt and silent >= self._answer_seconds:
            return "the broker does not answer what the shim waits for (request.timeout.ms)"
        if silent >= self._idle_seconds:
            return "the broker owes an answer, and is silent (connections.max.idle.ms)"
        return None
