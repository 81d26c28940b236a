"""What callers have on its way, and what they are told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from protocol.own.position import UNKNOWN_EPOCH
from shim.boottime import boottime
from shim.kafka_log.producing.produced import Produced, Verdict

Known: TypeAlias = Callable[[Mapping[int, Produced]], Mapping[int, bytes]]
"""Told of partitions what came of their batches; what it gives is sent next."""


class Batch:
    """``until``, of CLOCK_BOOTTIME: behind a suspend it is not sent any more, as the brokers may have forgotten who may
    send it."""

    __slots__ = ("attempt", "call", "data", "leader_epoch", "number", "sent_at", "until", "why")

    def __init__(self, call: Call, number: int, data: bytes, now: float) -> None:
        self.call = call
        self.number = number
        self.data = data
        self.sent_at = now
        self.until = now + call.seconds
        self.attempt = 0
        self.leader_epoch = UNKNOWN_EPOCH
        self.why = "not sent yet"

    @property
    def is_awaited(self) -> bool:
        return self.call.left.get(self.number) is self

    @property
    def unknown(self) -> Produced:
        return Produced(Verdict.UNKNOWN, self.sent_at, why=self.why)


class Call:
    """One call's; at most one batch of each partition at a time, which has ``seconds``. ``over``: nothing of it is on
    its way any more."""

    def __init__(self, seconds: float, known: Known) -> None:
        self.seconds = seconds
        self.left: dict[int, Batch] = {}
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._known = known

    def begin(self, batches: Mapping[int, bytes]) -> list[Batch]:
        """To be sent now."""
        now = boottime()
        begun = [Batch(self, number, data, now) for number, data in batches.items()]
        self.left.update((batch.number, batch) for batch in begun)
        return begun

    def tell(self, produced: Mapping[int, Produced]) -> list[Batch]:
        """Of some of what is left, which is not then. Gives what is to be sent next."""
        for number in produced:
            del self.left[number]
        try:
            begun = self.begin(self._known(produced))
        except Exception as error:  # it is the caller's, and no other call is to suffer from it
            self.fail(error)
            return []
        if not self.left and not self.over.done():
            self.over.set_result(None)
        return begun

    def fail(self, error: BaseException) -> None:
        self.left.clear()
        if not self.over.done():
            self.over.set_exception(error)


class Calls:
    """Those that are waited for, of one topic."""

    def __init__(self) -> None:
        self._waiting: set[Call] = set()

    def add(self, call: Call) -> None:
        self._waiting.add(call)

    def end(self, call: Call) -> None:
        """Nobody waits for it any more."""
        self._waiting.discard(call)
        call.left.clear()

    @property
    def left(self) -> Collection[Batch]:
        return [batch for call in self._waiting for batch in call.left.values()]

    def tell(self, told: Iterable[tuple[Batch, Produced]]) -> list[Batch]:
        """Each call once. Gives what is to be sent next."""
        by_call: dict[Call, dict[int, Produced]] = {}
        for batch, produced in told:
            if batch.is_awaited:
                by_call.setdefault(batch.call, {})[batch.number] = produced
        return [batch for call, its in by_call.items() for batch in call.tell(its)]

    def fail(self, error: BaseException) -> None:
        """All of them."""
        for call in self._waiting:
            call.fail(error)
