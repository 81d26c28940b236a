"""Requests of every kind in one go, as clients send them: the responses come in that order, as a broker's do."""

from collections.abc import Callable
from itertools import permutations

import pytest

from protocol.messages.api_versions import API as API_VERSIONS
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.find_coordinator import API as FIND_COORDINATOR
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import API as HEARTBEAT
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import API as METADATA
from protocol.messages.metadata import MetadataRequest
from shim.demo.parts import Broker
from tests.shim_process import Shim
from tests.wire import WireClient

_CLIENT_ID = "pipelined"


def _passed_through(correlation_id: int) -> bytes:
    """ListTransactions v0 with no filters, which the shim does not read beyond its header."""
    api_key_and_version, client_id_null_no_tags, no_filters_no_tags = (
        b"\x00\x42\x00\x00",
        b"\xff\xff\x00",
        b"\x01\x01\x00",
    )
    body = api_key_and_version + correlation_id.to_bytes(4, "big") + client_id_null_no_tags + no_filters_no_tags
    return len(body).to_bytes(4, "big") + body


_REQUESTS: dict[str, Callable[[int], bytes]] = {
    "passed through": _passed_through,
    "asked, FindCoordinator": lambda number: FIND_COORDINATOR.request_frame(
        4, number, _CLIENT_ID, FindCoordinatorRequest(key_type=0, coordinator_keys=("nobody",))
    ),
    "asked, ApiVersions": lambda number: API_VERSIONS.request_frame(
        3, number, _CLIENT_ID, ApiVersionsRequest(_CLIENT_ID, "1")
    ),
    "rewritten": lambda number: METADATA.request_frame(12, number, _CLIENT_ID, MetadataRequest(topics=())),
    "served": lambda number: HEARTBEAT.request_frame(4, number, _CLIENT_ID, HeartbeatRequest("nobody", 1, "nobody")),
}


@pytest.mark.parametrize("through", ["shim", "broker"])
def test_answered_in_their_order(through: str, shim: Shim, broker: Broker) -> None:
    port = {"shim": shim.broker_port(broker.node_id), "broker": broker.port}[through]
    for order in permutations(_REQUESTS):
        with WireClient(port) as client:
            client.socket.sendall(b"".join(_REQUESTS[kind](number) for number, kind in enumerate(order)))
            for number in range(len(order)):
                try:
                    answered = int.from_bytes(client.receive_frame()[:4], "big")
                except TimeoutError:
                    pytest.fail(f"{order}: no answer to the one at position {number}")
                assert answered == number, order
