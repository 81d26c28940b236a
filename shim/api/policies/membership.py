"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and heartbeats of other protocols: READ on the group."""

from __future__ import annotations

from functools import partial
from typing import Final

from protocol.errors import ErrorCode
from shim.api.authorization import AnyCall, Granted, Policy
from shim.api.policies.refusals import (
    NO_GROUP,
    admit_to_group,
    group_needs,
)
from shim.coordinator.decision import join_response
from shim.security.rights import Need, Right

_FIRST_WITH_PROTOCOL: Final = 5  # of SyncGroup


def _admit_to_join(call: AnyCall, granted: Granted) -> bool:
    if Need(Right.READ_GROUP, call.request.group_id) in granted:
        return True
    call.answer(join_response(call.version, NO_GROUP, ""))  # unlike a coordinator's errors, it names no member
    return False


def _admit_to_sync(call: AnyCall, granted: Granted) -> bool:
    request = call.request
    if call.version >= _FIRST_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        call.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)  # a broker says so before it authorizes
        return False
    return admit_to_group(Right.READ_GROUP, call, granted)


OF_A_MEMBER: Final = Policy(partial(group_needs, Right.READ_GROUP), partial(admit_to_group, Right.READ_GROUP))
JOIN_GROUP: Final = Policy(OF_A_MEMBER.needs, _admit_to_join)
SYNC_GROUP: Final = Policy(OF_A_MEMBER.needs, _admit_to_sync)
