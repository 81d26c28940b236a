"""All workers of a shim, as one shim for whoever is at the admin port, which is at the first of them.

Each answers for the groups whose offsets partitions it has. What is asked about all is put together, and not told where
one of them cannot say: nobody is to take a part for the whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from protocol.partition import partition_for
from shim.admin.live.asked.groups import Change, Deleted, Details, GroupLag, Moved, Plan, Scope, Target, Window
from shim.admin.live.asked.migration import Candidates, GroupStatus, Looked, Planned, Source, StepMove, Verified
from shim.admin.live.asked.overview import ClientsOf, Overview
from shim.admin.live.asked.shim import NotReady, Shim
from shim.log import Share
from shim.metrics import Kind, Sample, Series, families
from shim.metrics.together import together
from shim.workers.remote_calls import Asks

_LOOK_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 5.0
_METRICS_WITHIN_SECONDS: Final = 8.0
"""Who asks for metrics waits for 10 seconds, by Prometheus's default."""


class _Own:
    """This worker, asked as others are: see :class:`shim.workers.remote_calls.Asks`."""

    def __init__(self, own: Shim) -> None:
        self._shim = own

    async def __call__(self, part: str, name: str, *arguments: Any, **named: Any) -> Any:
        found = getattr(getattr(self._shim, part) if part else self._shim, name)(*arguments, **named)
        return await found if asyncio.iscoroutine(found) else found


class _All:
    """Of each worker a part, in the order of their numbers."""

    def __init__(self, part: str, workers: Sequence[Asks], num_partitions: int) -> None:
        self._part = part
        self.workers = workers
        self._num_partitions = num_partitions
        self._share = Share(0, len(workers))  # this is at the first of them

    def _of(self, group: str) -> int:
        return self._share.holder(partition_for(group, self._num_partitions))

    async def about(self, group: str, name: str, *arguments: Any, **named: Any) -> Any:
        """From the worker that has the group."""
        return await self.workers[self._of(group)](self._part, name, *arguments, **named)

    async def each(self, name: str) -> Sequence[Sequence[Any]]:
        found: Sequence[Sequence[Any]] = await asyncio.gather(*(worker(self._part, name) for worker in self.workers))
        return found

    async def divided(self, name: str, groups: Sequence[str]) -> Sequence[Any]:
        """What each says of those that it has; nothing of one that has none."""
        theirs: list[list[str]] = [[] for _ in self.workers]
        for group in groups:
            theirs[self._of(group)].append(group)
        asked = (worker(self._part, name, its) for worker, its in zip(self.workers, theirs, strict=True) if its)
        return await asyncio.gather(*asked)

    def has(self, number: int, group: str) -> bool:
        return self._of(group) == number


class AllMigrations:
    """See :class:`shim.admin.live.asked.migration.Migration`."""

    def __init__(self, workers: Sequence[Asks], num_partitions: int) -> None:
        self._all = _All("migration", workers, num_partitions)

    async def candidates(self) -> Candidates:
        """See :class:`shim.admin.live.asked.migration.Migration`."""
        found = [Candidates(*each) for each in await self._all.each("candidates")]
        return Candidates(
            sorted(name for number, each in enumerate(found) for name in each.groups if self._all.has(number, name)),
            sorted({line for each in found for line in each.unanswered}),
            {
                name: why
                for number, each in enumerate(found)
                for name, why in each.left_alone.items()
                if self._all.has(number, name)
            },
        )

    async def plan(self, groups: Sequence[str]) -> Sequence[Planned]:
        """See :class:`shim.admin.live.asked.migration.Migration`."""
        return _in_order(groups, await self._all.divided("plan", groups))

    async def status(self, groups: Sequence[str] | None) -> Sequence[GroupStatus]:
        """See :class:`shim.admin.live.asked.migration.Migration`."""
        if groups is not None:
            return _in_order(groups, await self._all.divided("status", groups))
        found = await asyncio.gather(*(worker("migration", "status", None) for worker in self._all.workers))
        return _by_group(found)

    async def status_of_served(self) -> Sequence[GroupStatus]:
        """See :class:`shim.admin.live.asked.migration.Migration`."""
        return _by_group(await self._all.each("status_of_served"))

    async def left_out(self) -> Sequence[str]:
        """See :class:`shim.admin.live.asked.migration.Migration`."""
        return [line for lines in await self._all.each("left_out") for line in lines]

    async def served(self) -> Sequence[str]:
        """See :class:`shim.admin.live.asked.migration.Migration`."""
        return sorted(name for names in await self._all.each("served") for name in names)

    async def verify(self, group: str) -> Verified:
        """See :class:`shim.admin.live.asked.migration.Migration`."""
        return Verified(*await self._all.about(group, "verify", group))

    async def look(self, group: str, move: StepMove) -> Looked:
        """See :class:`shim.admin.live.asked.migration.Migration`."""
        return Looked(*await self._all.about(group, "look", group, move))

    async def start(self, group: str, cause: str, source: Source | None = None) -> GroupStatus:
        """See :class:`shim.admin.live.asked.migration.Migration`."""
        return GroupStatus(*await self._all.about(group, "start", group, cause, source=source))

    async def advance(self, group: str, cause: str) -> GroupStatus:
        """See :class:`shim.admin.live.asked.migration.Migration`."""
        return GroupStatus(*await self._all.about(group, "advance", group, cause))

    async def rollback(self, group: str, cause: str) -> GroupStatus:
        """See :class:`shim.admin.live.asked.migration.Migration`."""
        return GroupStatus(*await self._all.about(group, "rollback", group, cause))


def _by_group(found: Iterable[Iterable[GroupStatus]]) -> list[GroupStatus]:
    return sorted((each for some in found for each in some), key=lambda each: each.group)


def _in_order(groups: Sequence[str], found: Iterable[Iterable[Any]]) -> list[Any]:
    """Each as often as it is asked for, where there is something to say of it."""
    by_group = {each.group: each for some in found for each in some}
    return [by_group[group] for group in groups if group in by_group]


class AllGroups:
    """See :class:`shim.admin.live.asked.groups.Groups`."""

    def __init__(self, workers: Sequence[Asks], num_partitions: int) -> None:
        self._all = _All("groups", workers, num_partitions)

    async def details(self, group: str, *, with_last_commit: bool = True) -> Details:
        """See :class:`shim.admin.live.asked.groups.Groups`."""
        return Details(*await self._all.about(group, "details", group, with_last_commit=with_last_commit))

    async def lags(self, groups: Sequence[str]) -> Mapping[str, GroupLag]:
        """See :class:`shim.admin.live.asked.groups.Groups`."""
        found: dict[str, GroupLag] = {}
        for each in await self._all.divided("lags", groups):
            found |= each
        return found

    async def history(self, group: str, window: Window) -> Sequence[Moved] | None:
        """See :class:`shim.admin.live.asked.groups.Groups`."""
        found: Sequence[Moved] | None = await self._all.about(group, "history", group, window)
        return found

    async def plan_reset(self, group: str, target: Target, scope: Scope, *, soon: bool = False) -> Plan:
        """See :class:`shim.admin.live.asked.groups.Groups`."""
        return Plan(*await self._all.about(group, "plan_reset", group, target, scope, soon=soon))

    async def reset(self, group: str, changes: Sequence[Change], cause: str, host: str) -> None:
        """See :class:`shim.admin.live.asked.groups.Groups`."""
        await self._all.about(group, "reset", group, changes, cause, host)

    async def look_at_deletion(self, group: str) -> Deleted:
        """See :class:`shim.admin.live.asked.groups.Groups`."""
        return Deleted(*await self._all.about(group, "look_at_deletion", group))

    async def delete(self, group: str, cause: str, host: str) -> Deleted:
        """See :class:`shim.admin.live.asked.groups.Groups`."""
        return Deleted(*await self._all.about(group, "delete", group, cause, host))


class _Seen(NamedTuple):
    """What a look at another worker has found; why nothing, where it did not answer."""

    missing: Sequence[str]
    loaded: int = 0
    clients: Sequence[ClientsOf] = ()


class AllWorkers:
    """See :class:`shim.admin.live.asked.shim.Shim`. For the event loop of the first worker; what is told without
    being waited for is as the newest look at the others has found it."""

    def __init__(self, own: Shim, others: Sequence[Asks], num_partitions: int) -> None:
        """``own``: of the first worker; ``others``: in the order of their numbers, from 1 on."""
        self._own = own
        self._others = others
        self._workers: Sequence[Asks] = (_Own(own), *others)
        self._num_partitions = num_partitions
        self._seen = [_Seen(["it has not been asked yet"]) for _ in others]
        self._counted: list[Sequence[Series]] = [()] * len(others)
        """Of each what it has counted, as it told it last."""

    async def run(self) -> None:
        """Look at the others, until cancelled."""
        while True:
            await asyncio.gather(*(self._look(index, worker) for index, worker in enumerate(self._others)))
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self, index: int, worker: Asks) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                missing = await worker("", "missing")
                overview, clients = await worker("", "overview"), await worker("", "clients")
        except NotReady as error:
            self._seen[index] = _Seen([str(error)])
        except TimeoutError:
            self._seen[index] = _Seen(["it does not answer"])
        else:
            self._seen[index] = _Seen(missing, overview.loaded, clients)

    @property
    def migration(self) -> AllMigrations:
        """See :class:`shim.admin.live.asked.shim.Shim`."""
        _ = self._own.migration  # or it raises
        return AllMigrations(self._workers, self._num_partitions)

    @property
    def groups(self) -> AllGroups:
        """See :class:`shim.admin.live.asked.shim.Shim`."""
        _ = self._own.groups
        return AllGroups(self._workers, self._num_partitions)

    @property
    def relocation(self) -> None:
        """See :class:`shim.admin.live.asked.shim.Shim`. What is moved is not shared."""
        _ = self._own.relocation
        return None

    def overview(self) -> Overview:
        """See :class:`shim.admin.live.asked.shim.Shim`."""
        own = self._own.overview()
        loaded = own.loaded + sum(seen.loaded for seen in self._seen)
        return own._replace(owned=own.partitions, loaded=loaded)

    def clients(self) -> Sequence[ClientsOf]:
        """See :class:`shim.admin.live.asked.shim.Shim`. A kind of client has a row for each worker that it is
        at."""
        return [*self._own.clients(), *(each for seen in self._seen for each in seen.clients)]

    def missing(self) -> Sequence[str]:
        """See :class:`shim.admin.live.asked.shim.Shim`."""
        theirs = (f"worker {number}: {line}" for number, seen in enumerate(self._seen, 1) for line in seen.missing)
        return [*self._own.missing(), *theirs]

    async def metrics(self) -> Sequence[Series]:
        """See :class:`shim.admin.live.asked.shim.Shim`. One that does not answer is told of as that: what it has
        counted cannot have become less, and all else of it is not known."""
        theirs = (self._metrics_of(index, worker) for index, worker in enumerate(self._others))
        own, *others = await asyncio.gather(self._own.metrics(), *theirs)
        return together([[*own, _answers(0, True)], *others])

    async def _metrics_of(self, index: int, worker: Asks) -> Sequence[Series]:
        try:
            async with asyncio.timeout(_METRICS_WITHIN_SECONDS):
                found: Sequence[Series] = await worker("", "metrics")
        except (NotReady, TimeoutError):
            not_ready = Series(families.READY, [Sample((), 0.0)])
            return [*self._counted[index], not_ready, _answers(index + 1, False)]
        self._counted[index] = [each for each in found if each.metric.kind is not Kind.GAUGE]
        return [*found, _answers(index + 1, True)]


def _answers(number: int, answers: bool) -> Series:
    return Series(families.WORKER_ANSWERS, [Sample((str(number),), float(answers))])
