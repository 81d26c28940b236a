"""Who else has the topics of the log: shims that share them are members of a group of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from protocol.errors import DecodeError, ErrorCode
from protocol.messages import describe_groups
from protocol.own.shim_group import decode_member
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
        """For people, the shims that share the topics: each by the address where its clients bootstrap, or the host
        that it comes from. Not the one with ``own_id``, its `shim.instance.id`, which may be missed only in some
        seconds. Raises UpstreamError."""
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
        return [_called(each) for each in members if (each.group_instance_id or each.member_id) != own_id]

    async def _members(self) -> tuple[ErrorCode, Sequence[describe_groups.DescribedGroupMember] | None]:
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
        return ErrorCode.NONE, group.members

    def close(self) -> None:
        self._coordinators.close()


def _called(member: describe_groups.DescribedGroupMember) -> str:
    """Brokers tell what a member has said of itself only where nothing is being shared out anew."""
    try:
        return decode_member(member.member_metadata).name
    except DecodeError:
        return f"one at {member.client_host.removeprefix('/')}"
