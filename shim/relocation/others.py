"""Who else has the topics of the log: shims that share them are members of a group of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages import describe_groups
from shim.config import Settings
from shim.upstream import Cluster, UpstreamError
from shim.upstream.coordinators import PASSES, Coordinators, KeyType

_INSTANCE_IDS_SINCE: Final = 4
"""Of DescribeGroups (Kafka 2.4)."""
_PATIENCE_S: Final = 10.0
_AGAIN_S: Final = 0.1


class OtherShims:
    """Of one prefix. For the event loop."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._group = settings.offsets_log_topics_prefix
        self._coordinators = Coordinators(cluster, settings)

    async def members(self, own_id: str) -> Sequence[str]:
        """The shims that share the topics, by `shim.instance.id`; not the one with ``own_id``, which may be missed only
        in some seconds. Raises UpstreamError."""
        error = ErrorCode.NONE
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while True:
                    error, members = await self._members()
                    if error not in PASSES:
                        break
                    await asyncio.sleep(_AGAIN_S)  # a coordinator tells nobody when it is there
        except TimeoutError:
            members = None
        if members is None:
            raise UpstreamError(f"who shares the topics, as group {self._group}, is not known: {error.name}")
        return [name for name in members if name != own_id]

    async def _members(self) -> tuple[ErrorCode, Sequence[str] | None]:
        """None where that is not known, with why. Raises UpstreamError."""
        error, coordinator = await self._coordinators.of(self._group, KeyType.GROUP)
        if coordinator is None:
            return error, None
        asked = describe_groups.DescribeGroupsRequest(groups=(self._group,))
        answer = await self._coordinators.ask(coordinator, describe_groups.API, asked, at_least=_INSTANCE_IDS_SINCE)
        (group,) = answer.groups
        error = ErrorCode.for_code(group.error_code)
        if error not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            return error, None
        return ErrorCode.NONE, [each.group_instance_id or each.member_id for each in group.members]

    def close(self) -> None:
        self._coordinators.close()
