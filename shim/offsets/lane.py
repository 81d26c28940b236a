"""The turns of one group in an outbox: one at a time, one that fails again and again until it does not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from shim.offsets.store import StoreError, StoreUnavailable

log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 0.1
_AGAIN_MOST_SECONDS: Final = 5.0

Waiting = list[asyncio.Future[None]]


class Lane:
    """``take`` is a turn, and raises :class:`StoreError`. ``said``: told what turns fail of when that is something else
    than before, as (before, now), "" for nothing, None where they are given up. ``over``: nothing is left to be done,
    and nobody holds it.
    """

    def __init__(
        self,
        group: str,
        take: Callable[[str], Awaitable[None]],
        said: Callable[[str, str | None], None],
        over: Callable[[], None],
    ) -> None:
        self.why = ""
        """What the last turn has failed of."""
        self._group = group
        self._take = take
        self._said = said
        self._over = over
        self._touched_at: float | None = None
        self._begun_with: float | None = None
        self._waiting: Waiting = []
        self._task: asyncio.Task[None] | None = None
        self._given_up = False
        self._turn = asyncio.Lock()
        self._holders = 0
        self._prompt = asyncio.Event()

    @property
    def since(self) -> float | None:
        """Of the oldest change that is not there yet, those of the turn under way among them; of time.monotonic()."""
        return self._touched_at if self._begun_with is None else self._begun_with

    def touch(self, since: float | None = None) -> None:
        now = time.monotonic()
        self._touched_at = min(each for each in (self._touched_at, since, now) if each is not None)
        self._start()

    def hasten(self) -> None:
        """Try again at once what has failed."""
        self._prompt.set()

    async def fed(self) -> None:
        """Wait for the first turn that begins from here on. Raises what it fails of."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._prompt.set()
        self.touch()
        await waiting

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """No turn is under way, or begins, meanwhile."""
        self._holders += 1
        try:
            async with self._turn:
                yield
        finally:
            self._holders -= 1
            self._look()

    def give_up(self) -> None:
        """What there is to be done need not be any more, and whoever waits is told so; what comes from here on has
        its turn when the one under way has ended."""
        self._touched_at = self._begun_with = None
        self._say(None)
        if self._task is not None and not self._given_up:
            self._given_up = True
            self._task.cancel()
        self._tell_waiting()
        self._look()

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"outbox of {self._group}")
            self._task.add_done_callback(self._ended)

    async def _run(self) -> None:
        pause = _AGAIN_SECONDS
        while self._touched_at is not None:
            self._prompt.clear()
            if await self._took_turn():
                pause = _AGAIN_SECONDS
                continue
            with suppress(TimeoutError):  # the store tells nobody when it can be written again
                await asyncio.wait_for(self._prompt.wait(), pause)
            pause = min(2 * pause, _AGAIN_MOST_SECONDS)

    async def _took_turn(self) -> bool:
        async with self._turn:
            self._begun_with, self._touched_at = self._touched_at, None
            waiting, self._waiting = self._waiting, []
            try:
                error = await self._failure()
            except BaseException:
                _tell(waiting, self._gone())
                raise
            finally:
                begun_with, self._begun_with = self._begun_with, None
        if error is not None and begun_with is not None:
            self._touched_at = begun_with  # older than what has come meanwhile
        self._say("" if error is None else str(error))
        _tell(waiting, error)
        return error is None

    async def _failure(self) -> StoreError | None:
        try:
            await self._take(self._group)
        except StoreError as error:
            return error
        except (Exception, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            log.exception("group %s: a turn of the outbox broke off", self._group)
            return StoreUnavailable(f"group {self._group}: the turn broke off")
        return None

    def _say(self, why: str | None) -> None:
        before, self.why = self.why, why or ""
        if before != self.why:
            self._said(before, why)

    def _gone(self) -> StoreError:
        return StoreUnavailable(f"group {self._group}: it is not kept there any more")

    def _tell_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        _tell(waiting, self._gone())

    def _ended(self, task: asyncio.Task[None]) -> None:
        given_up, self._given_up, self._task = self._given_up, False, None
        if task.cancelled() and not given_up:  # the loop ends
            self._touched_at = None
            self._tell_waiting()
        if self._touched_at is not None:
            self._start()
        self._look()

    def _look(self) -> None:
        if self._task is None and not self._holders:
            self._say(None)
            self._over()


def _tell(waiting: Waiting, error: StoreError | None) -> None:
    for each in waiting:
        if each.done():
            continue  # nobody waits for it any more
        if error is None:
            each.set_result(None)
        else:
            each.set_exception(error)
