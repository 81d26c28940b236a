"""What is behind the paths of the admin interface that move groups from step to step, and look at how that would go."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from aiohttp import web

from shim.admin.live.asked.migration import (
    Candidates,
    GroupStatus,
    Migration,
    Move,
    Refused,
    Source,
    may_move,
)
from shim.admin.live.asked.shim import Shim
from shim.admin.live.over_http.answering import ANSWER_SECONDS
from shim.admin.live.over_http.receiving import body_of, query_of
from shim.admin.live.over_http.sending import send_all
from shim.admin.live.requests.choosing import Choice, Wanted, look_wanted, move_of, wanted_of
from shim.admin.live.requests.fields import BadRequest
from shim.admin.live.shown.documents import JSON, Row, list_in_pieces, one_line
from shim.admin.live.shown.migration_rows import looked_row, planned_row, status_row, verified_row
from shim.admin.live.streamed.in_lines import Step, in_lines

_AT_ONCE: Final = 100  # groups looked at in one go

_MoveOne = Callable[[str, str], Awaitable[GroupStatus]]


class MigrationPaths:
    """Each takes a request and answers it. Raises BadRequest, NotKnown, Refused, NotReady, and TimeoutError where a
    look takes too long."""

    def __init__(self, shim: Shim, stopping: asyncio.Event) -> None:
        self._shim = shim
        self._stopping = stopping

    @property
    def _migration(self) -> Migration:
        """Raises NotReady."""
        return self._shim.migration

    # -- looking

    async def candidates(self, request: web.Request) -> web.StreamResponse:
        move, choice, at = move_of(query_of(request))
        meant = await self._movable(move, choice, at)
        return await send_all(request, JSON, list_in_pieces(_beside(meant), "groups", meant.groups))

    async def plan(self, request: web.Request) -> web.StreamResponse:
        async def step(names: Sequence[str]) -> list[Row]:
            async with asyncio.timeout(ANSWER_SECONDS):
                return [planned_row(each) for each in await self._migration.plan(names)]

        choice = (await self._wanted(request)).choice
        known = Candidates(choice.names or ())
        if choice.names is None:
            async with asyncio.timeout(ANSWER_SECONDS):
                known = _fitting(choice, await self._migration.candidates())
                known = known._replace(unanswered=[*known.unanswered, *await self._migration.left_out()])
        return await self._in_lines(request, known, step, together=_AT_ONCE)

    async def status(self, request: web.Request) -> web.StreamResponse:
        choice = (await self._wanted(request)).choice
        told: dict[str, GroupStatus] = {}
        meant = Candidates(choice.names or ())
        if choice.names is None:  # brokers that hang are waited for once
            async with asyncio.timeout(ANSWER_SECONDS):
                told = {each.group: each for each in await self._migration.status(None)}
                meant = Candidates(choice.fitting(told), await self._migration.left_out())

        async def step(names: Sequence[str]) -> list[Row]:
            if choice.names is None:
                return [status_row(told[name]) for name in names]
            async with asyncio.timeout(ANSWER_SECONDS):
                return [status_row(each) for each in await self._migration.status(names)]

        return await self._in_lines(request, meant, step, together=_AT_ONCE)

    async def verify(self, request: web.Request) -> web.StreamResponse:
        async def step(names: Sequence[str]) -> list[Row]:
            async with asyncio.timeout(ANSWER_SECONDS):
                return [verified_row(await self._migration.verify(name)) for name in names]

        choice = (await self._wanted(request)).choice
        meant = Candidates(choice.names or ())
        if choice.names is None:
            async with asyncio.timeout(ANSWER_SECONDS):
                served = [each.group for each in await self._migration.status_of_served()]
                meant = Candidates(choice.fitting(served), await self._migration.left_out())
        return await self._in_lines(request, meant, step)

    async def look(self, request: web.Request) -> web.StreamResponse:
        """At what a move would do."""
        move, choice, at = look_wanted(await body_of(request))

        async def step(names: Sequence[str]) -> list[Row]:
            async with asyncio.timeout(ANSWER_SECONDS):
                return [looked_row(await self._migration.look(name, move)) for name in names]

        meant = await self._movable(move, choice, at)
        return await self._in_lines(request, meant, step)

    # -- moving

    async def start(self, request: web.Request) -> web.StreamResponse:
        return await self._move(request, "start", lambda source: partial(self._migration.start, source=source))

    async def advance(self, request: web.Request) -> web.StreamResponse:
        return await self._move(request, "advance", self._without_source(self._migration.advance))

    async def rollback(self, request: web.Request) -> web.StreamResponse:
        return await self._move(request, "rollback", self._without_source(self._migration.rollback))

    def _without_source(self, make: _MoveOne) -> Callable[[Source | None], _MoveOne]:
        def move(source: Source | None) -> _MoveOne:
            if source is not None:
                raise BadRequest("from is for start alone")
            return make

        return move

    async def _move(
        self, request: web.Request, move: Move, making: Callable[[Source | None], _MoveOne]
    ) -> web.StreamResponse:
        """A group that is named is tried in any case."""
        choice, cause, source, at = await self._wanted(request)
        make = making(source)
        said = cause or f"{request.path}, asked for at the admin interface"

        async def step(names: Sequence[str]) -> list[Row]:
            return [status_row(await make(name, said)) for name in names]

        meant = await self._movable(move, choice, at)
        return await self._in_lines(request, meant, step, changes=True)

    async def _in_lines(
        self, request: web.Request, meant: Candidates, step: Step, *, together: int = 1, changes: bool = False
    ) -> web.StreamResponse:
        return await in_lines(
            *(request, meant.groups, step),
            together=together,
            stopping=self._stopping,
            more=_beside(meant),
            changes=changes,
        )

    # -- which groups

    async def _wanted(self, request: web.Request) -> Wanted:
        return wanted_of(await body_of(request))

    async def _movable(self, move: Move, choice: Choice, at: str | None) -> Candidates:
        """Groups that are not named have to be at one step, or it has to be said which is meant: done again after it
        was broken off, a move would be made twice with some. None of its ``groups`` is left alone."""
        if choice.names is not None:
            return Candidates(choice.names)
        if move == "start":  # what it is about, the shim need not have heard of
            return await self._to_start(choice)
        async with asyncio.timeout(ANSWER_SECONDS):
            left_out = await self._migration.left_out()
            served = await self._migration.status_of_served()  # the others neither move means
            found = {each.group: each for each in served if may_move(move, each)}
        steps = {name: found[name].step for name in choice.fitting(found)}
        counts = Counter(steps.values())
        if at is None and len(counts) > 1:
            they = ", ".join(f"{count} at {step}" for step, count in counts.items())
            raise BadRequest(f"these groups are at different steps, say at which: {they}")
        return Candidates([name for name, step in steps.items() if at in (None, step)], left_out)

    async def _to_start(self, choice: Choice) -> Candidates:
        """Raises Refused where there may be others; of partitions that are not served none can be started."""
        async with asyncio.timeout(ANSWER_SECONDS):
            known, left_out = await self._migration.candidates(), await self._migration.left_out()
        if known.unanswered:
            why = "; ".join(known.unanswered)
            raise Refused(f"which groups there are is not known, name those that are meant: {why}")
        fitting = _fitting(choice, known)
        groups = [name for name in fitting.groups if name not in fitting.left_alone]
        return fitting._replace(groups=groups, unanswered=left_out)


def _fitting(choice: Choice, known: Candidates) -> Candidates:
    groups = choice.fitting(known.groups)
    left_alone = {name: known.left_alone[name] for name in groups if name in known.left_alone}
    return known._replace(groups=groups, left_alone=left_alone)


def _beside(meant: Candidates) -> Row:
    """What is to be said beside the groups; nothing of what there is none of."""
    found: Row = {
        "unanswered": list(map(one_line, meant.unanswered)),
        "left_alone": [{"group": name, "why": one_line(why)} for name, why in meant.left_alone.items()],
    }
    return {name: its for name, its in found.items() if its}
