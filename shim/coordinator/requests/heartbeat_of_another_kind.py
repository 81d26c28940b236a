"""ConsumerGroupHeartbeat, versions 0-1 (KIP-848), StreamsGroupHeartbeat, version 0 (KIP-1071), and ShareGroupHeartbeat,
version 1 (KIP-932; all Kafka 4.3): a group that the shim serves has the classic protocol.

They are answered as a broker answers for a classic group whose protocol may not be changed, with a message that says
what to do: clients end with it.
"""

from collections.abc import Mapping
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.group_kinds import OTHER_KINDS, Kind
from shim.coordinator import events
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Asker, Caller

_KINDS: Final[Mapping[type, Kind]] = {kind.heartbeat.request: kind for kind in OTHER_KINDS}


def heartbeat_of_another_kind(decision: Decision, caller: Caller, _version: int, request: Any, asker: Asker) -> None:
    """Of the kind that this is the request of."""
    kind = _KINDS[type(request)]
    if not request.group_id:
        # As brokers say it, which clients show.
        code, why = ErrorCode.INVALID_REQUEST, "GroupId can't be empty."
    else:
        what_to_do = _what_to_do(kind, decision.state.from_zookeeper(request.group_id))
        decision.tell(events.of_another_kind(kind, request, caller, what_to_do))
        code = ErrorCode.GROUP_ID_NOT_FOUND
        why = f"Group {request.group_id} is served by offset-shim, with the classic protocol: {what_to_do}"
    decision.answer(asker, kind.heartbeat.response(0, code, why))


def _what_to_do(kind: Kind, from_zookeeper: bool) -> str:
    """A step back is one towards ZooKeeper, for a group that was there."""
    if kind.stays:  # brokers make none of a classic group either
        return f"it does not become a {kind.name} group, use another group.id"
    to_the_cluster = (
        "moved on to the cluster (offset-shim migrate advance"
        if from_zookeeper
        else "given back to the cluster (offset-shim migrate rollback"
    )
    return f"use group.protocol=classic, or have it {to_the_cluster}, until it is upstream)"
