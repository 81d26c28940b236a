"""All that is done with groups at the word of whoever looks after them."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from shim.groups.beforehand import Beforehand
from shim.groups.changing import Changing
from shim.groups.deleting import Deleting
from shim.groups.history import History
from shim.groups.looking import Looking
from shim.groups.resetting import Resetting
from shim.groups.words import Change, Deleted, Details, GroupLag, Moved, Plan, Refused, Scope, Target, Window
from shim.migration.hands.first_contact import FirstContact
from shim.migration.hands.placements import Placements
from shim.migration.stores import Stores
from shim.offsets.cluster.describing import LOOK_SECONDS
from shim.offsets.cluster.groups import ClusterGroups
from shim.runtime import Clock, Runtime
from shim.runtime.history_log import HistoryLog
from shim.upstream import ClusterTopics, UpstreamError
from shim.upstream.log_ends import Asked

Answer = TypeVar("Answer")


class Groups:
    """For the event loop. Everything raises Refused, and NotKnown for a group that there is not."""

    def __init__(
        self,
        runtime: Runtime,
        history_log: HistoryLog,
        clock: Clock,
        first_contact: FirstContact,
        placements: Placements,
        stores: Stores,
        cluster_groups: ClusterGroups,
        brokers: Asked,
        topics: ClusterTopics,
    ) -> None:
        self._history = History(history_log)
        self._beforehand = Beforehand(first_contact, placements, stores)
        before = self._beforehand, Changing(runtime, placements, stores)
        self._looking = Looking(runtime, placements, cluster_groups, brokers, self._history, clock)
        self._resetting = Resetting(*before, self._looking, self._history, cluster_groups, brokers, topics, clock)
        self._deleting = Deleting(*before, self._looking, cluster_groups)

    async def details(self, group: str, *, with_last_commit: bool = True) -> Details:
        """``with_last_commit``: that alone needs the history on the disk."""
        details = await _refused(self._looking.details(group, with_last_commit=with_last_commit))
        return details._replace(zookeeper_consumers=await self._beforehand.consumers_in_zookeeper(group))

    async def lags(self, groups: Sequence[str]) -> dict[str, GroupLag]:
        """Of each group all partitions' together."""
        return await _refused(self._looking.lags(groups))

    async def history(self, group: str, window: Window) -> list[Moved] | None:
        """What the history has of it, the oldest first; None where that is nothing at all, whatever the window: it may
        be that there is no such group."""
        return await self._history.moves(group, window)

    async def plan_reset(self, group: str, target: Target, scope: Scope, *, soon: bool = False) -> Plan:
        """``soon``: brokers are waited for as by who only looks."""
        return await _refused(self._resetting.plan(group, target, scope, LOOK_SECONDS if soon else None))

    async def reset(self, group: str, changes: Sequence[Change], cause: str, host: str) -> None:
        """Raises NotCertain besides."""
        await _refused(self._resetting.reset(group, changes, cause, host))

    async def look_at_deletion(self, group: str) -> Deleted:
        return await _refused(self._deleting.look(group))

    async def delete(self, group: str, cause: str, host: str) -> Deleted:
        """Raises NotCertain besides."""
        return await _refused(self._deleting.delete(group, cause, host))

    def close(self) -> None:
        self._history.close()


async def _refused(asked: Awaitable[Answer]) -> Answer:
    try:
        return await asked
    except UpstreamError as error:
        raise Refused(f"the cluster cannot be asked: {error}") from error
