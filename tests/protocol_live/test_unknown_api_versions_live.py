"""ApiVersions in versions that a broker lacks: it answers in version 0, whatever was asked (KIP-511)."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from protocol.errors import ErrorCode
from protocol.messages.api_versions import API, ApiVersionsRequest
from shim.demo.parts import Broker
from shim.demo.parts.jars import KAFKA
from tests.legacy.parts import KAFKA_0_10, KAFKA_1, KAFKA_3, LegacyBroker
from tests.protocol_live.place import Place

NEWEST = API.versions[1]


@pytest.mark.parametrize(
    ("release", "version", "says_its_own"),
    [
        *((KAFKA_0_10, version, False) for version in range(1, NEWEST + 1)),
        *((KAFKA_1, version, False) for version in range(2, NEWEST + 1)),
        (KAFKA_3, 99, True),
        (KAFKA, 99, True),
        (KAFKA, -1, True),
    ],
)
def test_what_brokers_answer(
    broker: Broker, legacy: Callable[[str], LegacyBroker], release: str, version: int, says_its_own: bool
) -> None:
    port = broker.port if release == KAFKA else legacy(release).port
    with Place(port, release) as place:
        asked = min(version, NEWEST) if version > 0 else 0
        frame = API.request_frame(asked, 7, "me", ApiVersionsRequest("test", "1"))
        place.client.socket.sendall(frame[:6] + struct.pack(">h", version) + frame[8:])
        answered = place.client.receive_frame()
        own_range = place.advertised()[API.key]
    for read_as in range(NEWEST + 1):
        correlation_id, answer = API.parse_response(read_as, answered)
        assert (correlation_id, answer.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
        assert [each[:3] for each in answer.api_keys] == ([(API.key, *own_range)] if says_its_own else [])
        assert API.response_frame(read_as, 7, answer)[4:] == answered
