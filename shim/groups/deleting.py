"""Deleting groups with all their offsets, as DeleteGroups does it for clients."""

from __future__ import annotations

import logging

from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult
from shim.coordinator import Caller
from shim.counted import counted
from shim.groups.beforehand import Beforehand
from shim.groups.changing import Changing
from shim.groups.looking import Looking
from shim.groups.refusal import refusal
from shim.groups.words import Deleted, NotCertain, Refused
from shim.offsets.cluster.brokers import BrokerRefused
from shim.offsets.cluster.describing import DEAD, LOOK_SECONDS
from shim.offsets.cluster.groups import ClusterGroups
from shim.upstream import UpstreamError

log = logging.getLogger(__name__)


class Deleting:
    """For the event loop. Everything raises UpstreamError, Refused and NotKnown."""

    def __init__(
        self, beforehand: Beforehand, changing: Changing, looking: Looking, cluster_groups: ClusterGroups
    ) -> None:
        self._beforehand = beforehand
        self._changing = changing
        self._looking = looking
        self._cluster_groups = cluster_groups

    async def look(self, group: str) -> Deleted:
        """What would be deleted; what would be refused, is."""
        return await self._looked(group, LOOK_SECONDS)

    async def _looked(self, group: str, within_seconds: float | None) -> Deleted:
        served = await self._beforehand.is_served(group, opening=False, within_seconds=within_seconds)
        if served:
            await self._beforehand.ready(group)
        described = await self._looking.described(group, within_seconds)
        in_use = self._looking.in_use(described)
        offsets = await self._looking.offsets(group, within_seconds)
        if described.group_state == DEAD and not offsets:
            raise refusal(group, ErrorCode.GROUP_ID_NOT_FOUND)
        if in_use:
            raise Refused(f"group {group}: {in_use}")
        return Deleted(group, len(offsets))

    async def delete(self, group: str, cause: str, host: str) -> Deleted:
        """``cause``: for the history; ``host``: from where it was asked for. Raises NotCertain besides."""
        deleted = await self._looked(group, None)
        if await self._beforehand.is_served(group, opening=False):
            await self._delete_here(group, cause, Caller("offset-shim", f"/{host}"))
        else:
            async with self._changing.passing(group):
                await self._delete_there(group)
        # The message is the event: none is left out for others, however many are deleted in a minute.
        log.info("%s", f"group {group} was deleted with {counted(deleted.offsets, 'offset')} from {host}: {cause}")
        return deleted

    async def _delete_here(self, group: str, cause: str, caller: Caller) -> None:
        answer: DeletableGroupResult = await self._changing.decided(
            group, lambda coordinator, now, asker: coordinator.delete_group(now, caller, group, asker, cause)
        )
        if answer.error_code:
            raise await self._looking.refusal(group, ErrorCode.for_code(answer.error_code))

    async def _delete_there(self, group: str) -> None:
        try:
            await self._cluster_groups.delete_group(group)
        except BrokerRefused as error:
            if error.code in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND):
                raise await self._looking.refusal(group, ErrorCode.for_code(error.code)) from error
            raise Refused(str(error)) from error
        except UpstreamError as error:
            self._cluster_groups.forget(group)
            raise NotCertain(f"group {group}: whether the cluster has deleted it is not known: {error}") from error
