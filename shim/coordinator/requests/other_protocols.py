"""ConsumerGroupHeartbeat, versions 0-1 (KIP-848), StreamsGroupHeartbeat, version 0 (KIP-1071), and ShareGroupHeartbeat,
version 1 (KIP-932; all Kafka 4.3): a group that the shim serves has the classic protocol.

They are answered as a broker answers for a classic group whose protocol may not be changed, with a message that says
what to do: clients end with it.
"""

from collections.abc import Callable
from typing import Any

from protocol.errors import ErrorCode
from protocol.group_kinds import CONSUMER, SHARE, STREAMS, Kind
from shim.coordinator import events
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Asker, Caller


def _refused(kind: Kind) -> Callable[[Decision, Caller, int, Any, Asker], None]:
    """What decides a heartbeat of that kind, whoever it is of."""
    response_of = kind.heartbeat.response

    def refuse(decision: Decision, caller: Caller, _version: int, request: Any, asker: Asker) -> None:
        if not request.group_id:
            # As brokers say it, which clients show.
            response = response_of(0, ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
        else:
            what_to_do = _what_to_do(kind, decision.state.from_zookeeper(request.group_id))
            decision.tell(events.of_another_kind(kind, request, caller, what_to_do))
            why = f"Group {request.group_id} is served by offset-shim, with the classic protocol: {what_to_do}"
            response = response_of(0, ErrorCode.GROUP_ID_NOT_FOUND, why)
        decision.answer(asker, response)

    return refuse


consumer_group_heartbeat = _refused(CONSUMER)
streams_group_heartbeat = _refused(STREAMS)
share_group_heartbeat = _refused(SHARE)


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
