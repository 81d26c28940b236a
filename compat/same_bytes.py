"""APIs whose v1 has the same bytes as v0, which Kafka 4 dropped all the same: only the number changes.

Source: Kafka 3.9's message definitions.
"""

from __future__ import annotations

from typing import Final

from compat.translation import Translation, renumbered
from protocol.api import Api
from protocol.codec import Buffer
from protocol.headers import (
    RequestHeader,
    ResponseHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)

_SIZE: Final = 4


class SameBytes(Api[bytes, bytes]):
    """Versions 0 and 1 of an API, its messages unread. Neither is flexible."""

    def __init__(self, key: int, name: str) -> None:
        super().__init__(key=key, name=name, request=bytes, response=bytes, versions=(0, 1), flexible_since=None)

    def parse_request(self, version: int, frame: Buffer, pos: int = 0) -> tuple[RequestHeader, bytes]:
        header, pos = decode_request_header(1, frame, pos)
        return header, bytes(frame[pos:])

    def parse_response(self, version: int, frame: Buffer, pos: int = 0) -> tuple[int, bytes]:
        header, pos = decode_response_header(0, frame, pos)
        return header.correlation_id, bytes(frame[pos:])

    def request_frame(self, version: int, correlation_id: int, client_id: str | None, msg: bytes) -> bytes:
        header = encode_request_header(1, RequestHeader(self.key, version, correlation_id, client_id))
        return (len(header) + len(msg)).to_bytes(_SIZE, "big") + header + msg

    def response_frame(self, version: int, correlation_id: int, msg: bytes) -> bytes:
        header = encode_response_header(0, ResponseHeader(correlation_id))
        return (len(header) + len(msg)).to_bytes(_SIZE, "big") + header + msg


_APIS: Final = {
    34: "AlterReplicaLogDirs",
    35: "DescribeLogDirs",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
}

TRANSLATIONS: Final = tuple(Translation(SameBytes(*each), 0, 0, 1, renumbered) for each in _APIS.items())
