"""What waits for one leader, and how much of it goes out in one request."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from shim.config import HostPort
from shim.kafka_log.producing.calls import Batch

MAX_REQUEST_BYTES: Final = 32 << 20
"""Of batches in one request, unless one alone has more. Brokers refuse more than ``socket.request.max.bytes`` (100 MiB
unless they are told otherwise) by closing the connection."""


class Lane:
    """A request at a time, as the leader's connection takes them: ``asked`` are in the one that is under way, which
    ``task`` has sent."""

    def __init__(self, leader: HostPort) -> None:
        self.leader = leader
        self.waiting: list[Batch] = []
        self.asked: Collection[Batch] = ()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_unawaited(self) -> bool:
        """Nobody waits for what was asked: what is behind it is not to wait for it either."""
        return bool(self.asked) and not any(batch.is_awaited for batch in self.asked)

    def take(self, now: float) -> tuple[dict[int, Batch], list[Batch]]:
        """What goes out together, and what has no time left. Those that were tried more often have more time, and go by
        themselves."""
        waiting = [batch for batch in self.waiting if batch.is_awaited]
        taken: dict[int, Batch] = {}
        overdue: list[Batch] = []
        size = attempt = 0
        self.waiting = []
        for batch in waiting:
            if batch.until <= now:
                overdue.append(batch)
                continue
            fits = size + len(batch.data) <= MAX_REQUEST_BYTES and batch.number not in taken
            if not taken or (fits and batch.attempt == attempt):
                attempt = batch.attempt
                size += len(batch.data)
                taken[batch.number] = batch
            else:
                self.waiting.append(batch)
        return taken, overdue

    def leave(self, why: str | None = None) -> list[Batch]:
        """What waits goes elsewhere. ``why``: what is said of it, where it is not as if it had not been here."""
        left, self.waiting = [batch for batch in self.waiting if batch.is_awaited], []
        if why is not None:
            for batch in left:
                batch.why = why
        return left
