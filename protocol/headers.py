"""Request headers v1 and v2, response headers v0 and v1. Source: Kafka 4.3, KIP-482.

Request header v0, without a client id, belongs to ControlledShutdown v0 alone and is not here. Which API version has
which header: `protocol.api.Api.request_header_version` and `.response_header_version`.
"""

from typing import Annotated, Final, NamedTuple

from protocol.compiler import Buffer, Codec, codec
from protocol.wire import Int16, Int32, NullableString, TaggedFields, never_compact


class RequestHeader(NamedTuple):
    """The client id is a nullable string with an int16 length in both versions, so that any server can read it."""

    api_key: Int16
    api_version: Int16
    correlation_id: Int32
    client_id: Annotated[NullableString, never_compact]
    tagged: TaggedFields = ()


class ResponseHeader(NamedTuple):
    correlation_id: Int32
    tagged: TaggedFields = ()


_REQUEST: Final[dict[int, Codec[RequestHeader]]] = {
    1: codec(RequestHeader, 1, flexible=False),
    2: codec(RequestHeader, 2, flexible=True),
}
_RESPONSE: Final[dict[int, Codec[ResponseHeader]]] = {
    0: codec(ResponseHeader, 0, flexible=False),
    1: codec(ResponseHeader, 1, flexible=True),
}


def decode_request_header(header_version: int, buf: Buffer, pos: int = 0) -> tuple[RequestHeader, int]:
    """The header at `pos` (after the frame's size) and the position of the body. Raises DecodeError."""
    return _REQUEST[header_version].decode(buf, pos)


def encode_request_header(header_version: int, header: RequestHeader) -> bytes:
    """Raises EncodeError."""
    return _REQUEST[header_version].encode(header)


def decode_response_header(header_version: int, buf: Buffer, pos: int = 0) -> tuple[ResponseHeader, int]:
    """The header at `pos` (after the frame's size) and the position of the body. Raises DecodeError."""
    return _RESPONSE[header_version].decode(buf, pos)


def encode_response_header(header_version: int, header: ResponseHeader) -> bytes:
    """Raises EncodeError."""
    return _RESPONSE[header_version].encode(header)
