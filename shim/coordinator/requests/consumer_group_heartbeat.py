"""ConsumerGroupHeartbeat, versions 0-1 (Kafka 4.3, KIP-848): a group that the shim serves has the classic protocol.

It is answered as a broker answers for a classic group whose protocol may not be changed, with a message that says what
to do: clients end with it.
"""

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from shim.coordinator import events
from shim.coordinator.decision import Decision
from shim.coordinator.outcome import Asker, Caller


def consumer_group_heartbeat(
    decision: Decision, caller: Caller, _version: int, request: ConsumerGroupHeartbeatRequest, asker: Asker
) -> None:
    """Refuse it, whoever it is of."""
    if not request.group_id:
        response = ConsumerGroupHeartbeatResponse(0, ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    else:
        decision.tell(events.of_consumer_protocol(request, caller))
        response = ConsumerGroupHeartbeatResponse(0, ErrorCode.GROUP_ID_NOT_FOUND, _what_to_do(request.group_id))
    decision.answer(asker, response)


def _what_to_do(group_id: str) -> str:
    return (
        f"Group {group_id} is served by offset-shim, with the classic protocol: use group.protocol=classic, or have it "
        "given back to the cluster (offset-shim migrate rollback)."
    )
