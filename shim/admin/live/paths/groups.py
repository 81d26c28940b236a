"""What is behind the paths of the admin interface that are about groups, but for those that move them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web

from shim.admin.live.asked.groups import GroupLag, Groups
from shim.admin.live.asked.migration import GroupStatus, NotKnown, Refused
from shim.admin.live.asked.shim import Shim
from shim.admin.live.over_http.answering import ANSWER_SECONDS, json_response
from shim.admin.live.over_http.receiving import body_of, query_of
from shim.admin.live.over_http.sending import send_all
from shim.admin.live.requests.choosing import Choice, choice_of
from shim.admin.live.requests.fields import BadRequest
from shim.admin.live.requests.resets import (
    deletion_wanted,
    history_wanted,
    is_dry_run,
    plan_wanted,
    reset_wanted,
)
from shim.admin.live.shown.documents import JSON, Row, list_in_pieces, one_line
from shim.admin.live.shown.group_rows import change_row, deleted_row, details_row, moved_row, offset_row, plan_row
from shim.admin.live.shown.migration_rows import status_row
from shim.admin.live.streamed.in_lines import in_lines


class GroupPaths:
    """Each takes a request and answers it. Raises BadRequest, NotKnown, Refused, NotCertain, NotReady, and TimeoutError
    where a look takes too long."""

    def __init__(self, shim: Shim, stopping: asyncio.Event) -> None:
        self._shim = shim
        self._stopping = stopping

    @property
    def _groups(self) -> Groups:
        """Raises NotReady."""
        return self._shim.groups

    async def groups(self, request: web.Request) -> web.StreamResponse:
        choice = choice_of(query_of(request))
        async with asyncio.timeout(ANSWER_SECONDS):
            statuses, left_out = await self._statuses(choice), await self._left_out(choice)
        return await send_all(request, JSON, list_in_pieces(left_out, "groups", map(status_row, statuses)))

    async def describe(self, request: web.Request) -> web.StreamResponse:
        names = choice_of(query_of(request)).names
        if names is None or len(names) != 1:
            raise BadRequest("one group has to be named: describe?group=…")
        async with asyncio.timeout(ANSWER_SECONDS):
            (status,) = await self._statuses(Choice(names))
            if status.members is None:  # whoever knows would be waited for once more
                raise Refused(f"group {status.group} is passed through, and not told of: {status.alarm}")
            details = await self._groups.details(status.group)
        document = {**status_row(status), **details_row(details)}
        return await send_all(request, JSON, list_in_pieces(document, "offsets", map(offset_row, details.offsets)))

    async def lag(self, request: web.Request) -> web.StreamResponse:
        choice = choice_of(query_of(request))
        async with asyncio.timeout(ANSWER_SECONDS):
            statuses, left_out = await self._statuses(choice), await self._left_out(choice)
            # Of the others the broker that has their offsets would be waited for once more.
            lags = dict(await self._groups.lags([each.group for each in statuses if each.members is not None]))
        rows: list[Row] = [
            {**status_row(each), **lags.get(each.group, GroupLag(None, each.alarm))._asdict()} for each in statuses
        ]
        return await send_all(request, JSON, list_in_pieces(left_out, "groups", rows))

    async def history(self, request: web.Request) -> web.StreamResponse:
        group, window = history_wanted(query_of(request))
        async with asyncio.timeout(ANSWER_SECONDS):
            moves = await self._groups.history(group, window)
            if moves is None:  # a group that is passed through has none; one that nobody knows is misspelt
                await self._statuses(Choice((group,)))
        return await send_all(request, JSON, list_in_pieces({"group": group}, "moves", map(moved_row, moves or ())))

    async def plan_reset(self, request: web.Request) -> web.StreamResponse:
        wanted, soon = plan_wanted(await body_of(request)), is_dry_run(query_of(request))
        async with asyncio.timeout(ANSWER_SECONDS):
            plan = await self._groups.plan_reset(*wanted, soon=soon)
        return json_response(plan_row(plan))

    async def reset(self, request: web.Request) -> web.StreamResponse:
        wanted = reset_wanted(await body_of(request))
        cause = wanted.cause or "groups reset, asked for at the admin interface"
        await self._groups.reset(wanted.group, wanted.changes, cause, _host_of(request))
        rows = map(change_row, wanted.changes)
        return await send_all(request, JSON, list_in_pieces({"group": wanted.group, "cause": cause}, "offsets", rows))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        wanted, host = deletion_wanted(await body_of(request)), _host_of(request)
        cause = wanted.cause or "groups delete, asked for at the admin interface"
        groups = self._groups  # a shim that only starts says so before the first line

        async def step(names: Sequence[str]) -> list[Row]:
            return [await _deleted(groups, name, cause, host, dry_run=wanted.dry_run) for name in names]

        return await in_lines(request, wanted.groups, step, stopping=self._stopping, changes=True)

    async def _left_out(self, choice: Choice) -> Row:
        """Lines that say why these may not be all; nothing where they are."""
        lines = () if choice.names is not None else await self._shim.migration.left_out()
        return {"unanswered": list(map(one_line, lines))} if lines else {}

    async def _statuses(self, choice: Choice) -> Sequence[GroupStatus]:
        """Raises NotKnown, Refused, NotReady."""
        found = {each.group: each for each in await self._shim.migration.status(choice.names)}
        if choice.names is None:
            return [found[name] for name in choice.fitting(found)]
        if missing := set(choice.names).difference(found):
            raise NotKnown(f"there is no group {min(missing)!a}")
        return list(found.values())


async def _deleted(groups: Groups, group: str, cause: str, host: str, *, dry_run: bool) -> Row:
    deleted = await (groups.look_at_deletion(group) if dry_run else groups.delete(group, cause, host))
    return deleted_row(deleted, dry_run=dry_run)


def _host_of(request: web.Request) -> str:
    """The address of whoever asks."""
    return request.remote or "unknown"
