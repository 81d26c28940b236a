"""Request headers v1 and v2, response headers v0 and v1. Source: Kafka 4.3, KIP-482.

Request header v0, without a client id, belongs to ControlledShutdown v0 alone and is not here. Which API version has
which header: `protocol.api.Api.request_header_version` and `.response_header_version`. All functions raise
UnsupportedVersion for another version of the header.
"""

from typing import Annotated, Final, NamedTuple, TypeVar

from protocol.codec import Buffer, Codec, codec
from protocol.errors import UnsupportedVersion
from protocol.wire import Int16, Int32, NullableString, TaggedFields, never_compact

T = TypeVar("T")


class RequestHeader(NamedTuple):
    """The client id is a nullable string with an int16 length in both versions, so that any server can read it."""

    api_key: Int16
    api_version: Int16
    correlation_id: Int32
    client_id: Annotated[NullableString, never_compact]
    tagged: TaggedFields = ()


class ResponseHeader(NamedTuple):
    """All that a response says of itself: which request it answers."""

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
    return _of(_REQUEST, header_version).decode(buf, pos)


def encode_request_header(header_version: int, header: RequestHeader) -> bytes:
    """Raises EncodeError."""
    return _of(_REQUEST, header_version).encode(header)


def decode_response_header(header_version: int, buf: Buffer, pos: int = 0) -> tuple[ResponseHeader, int]:
    """The header at `pos` (after the frame's size) and the position of the body. Raises DecodeError."""
    return _of(_RESPONSE, header_version).decode(buf, pos)


def encode_response_header(header_version: int, header: ResponseHeader) -> bytes:
    """Raises EncodeError."""
    return _of(_RESPONSE, header_version).encode(header)


def _of(codecs: dict[int, Codec[T]], header_version: int) -> Codec[T]:
    found = codecs.get(header_version)
    if found is None:
        raise UnsupportedVersion(f"header version {header_version} is not one of {min(codecs)}-{max(codecs)}")
    return found
