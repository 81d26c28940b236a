"""All groups with their lag, looked at now and then: what the console shows costs the same, however many look at it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from shim.admin.live.asked.migration import PASSED_THROUGH, GroupStatus, NotKnown, Refused
from shim.admin.live.asked.shim import NotReady, Shim
from shim.admin.live.sampled.lag_series import MOST_SERIES, LagSeries, Sample

log = logging.getLogger(__name__)

STATUS_SECONDS: Final = 2.0
"""How old a status may be that is told."""
_TOGETHER: Final = 20  # so few are asked for in one go that clients have their turn between
_CHUNK_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 10.0  # after something that nobody has thought of


class Pace(NamedTuple):
    """``asked``: seconds between two looks at lags while somebody asks for them, ``idle``: otherwise. A look that
    takes long is followed by a pause of ``rest`` times as long, so that it is never more than a small part of the
    shim's work."""

    asked: float = 10.0
    idle: float = 30.0
    rest: float = 20.0

    def pause(self, took: float, *, asked: bool) -> float:
        return max(self.asked if asked else self.idle, self.rest * took)


class Sampler:
    """For the event loop. Looks at the lag of the groups that are served, and, while somebody asks, of those that are
    passed through, too; at most :data:`MOST_SERIES`."""

    def __init__(self, shim: Shim, pace: Pace | None = None, clock: Callable[[], float] = time.time) -> None:
        self._shim = shim
        self._pace = pace or Pace()
        self._clock = clock
        self._series = LagSeries()
        self._lags: Mapping[str, int | None] = {}
        self._statuses: Sequence[GroupStatus] = ()
        self._statuses_at: float | None = None
        self._looking = asyncio.Lock()
        self._asked_at: float | None = None
        self._wanted = asyncio.Event()
        self._sampled_at: float | None = None

    async def statuses(self) -> Sequence[GroupStatus]:
        """Of all groups that the shim has heard of, a moment old at most. Raises Refused, NotKnown, NotReady."""
        if self._asked_at is None or self._loop_time() - self._asked_at > self._pace.idle:
            self._wanted.set()  # whoever has just come does not wait for the next look that would be anyway
        self._asked_at = self._loop_time()
        return await self._fresh()

    def lag(self, group: str) -> int | None:
        """In records, as of the newest look; None where it could not be told, or the group was not looked at."""
        return self._lags.get(group)

    def recent(self, group: str) -> list[Sample]:
        """The oldest first; empty of a group that was never looked at."""
        return self._series.of(group)

    def changed(self) -> None:
        """What was told of groups is out of date."""
        self._statuses_at = None

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            self._wanted.clear()
            begun = self._loop_time()
            pause = _AGAIN_SECONDS
            try:
                await self._look()
                pause = self._pace.pause(self._loop_time() - begun, asked=self._is_asked())
            except (Refused, NotKnown, NotReady) as error:  # the next look will tell
                log.debug("lags were not looked at: %s", error)
            except Exception:
                log.exception("the look at lags broke off; it begins again in %g s", pause)
            try:
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _fresh(self) -> Sequence[GroupStatus]:
        async with self._looking:
            if self._statuses_at is None or self._loop_time() - self._statuses_at >= STATUS_SECONDS:
                at = self._statuses_at = self._loop_time()
                try:
                    self._statuses = await self._shim.migration.status(None)
                except BaseException:
                    self.changed()
                    raise
                if self._statuses_at != at:  # somebody has moved a group meanwhile
                    self.changed()
            return self._statuses

    async def _look(self) -> None:
        names = list(await self._shim.migration.served())
        if self._is_asked():
            names += [each.group for each in await self._fresh() if each.step == PASSED_THROUGH]
        names = list(dict.fromkeys(names))[:MOST_SERIES]  # one may have changed hands in between
        lags: dict[str, int | None] = {}
        for at in range(0, len(names), _TOGETHER):
            lags |= await self._lags_of(names[at : at + _TOGETHER])
            await asyncio.sleep(0)
        self._lags = lags
        if self._sampled_at is None or self._loop_time() - self._sampled_at >= self._pace.idle * 0.9:
            self._sampled_at = self._loop_time()
            self._series.add(int(self._clock() * 1000), lags)

    async def _lags_of(self, names: Sequence[str]) -> Mapping[str, int | None]:
        try:
            async with asyncio.timeout(_CHUNK_SECONDS):
                return {name: each.lag for name, each in (await self._shim.groups.lags(names)).items()}
        except (Refused, NotKnown, TimeoutError) as error:
            if len(names) == 1 or isinstance(error, TimeoutError):
                return dict.fromkeys(names)
            # It may be for one of them alone.
            return {name: (await self._lags_of([name]))[name] for name in names}

    def _is_asked(self) -> bool:
        return self._asked_at is not None and self._loop_time() - self._asked_at <= self._pace.idle

    @staticmethod
    def _loop_time() -> float:
        return asyncio.get_running_loop().time()
