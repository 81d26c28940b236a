"""One API of the Kafka protocol: its number, its versions, and in each of them its messages, headers and frames.

Source: Kafka 4.3, KIP-482 (headers), KIP-511 (the responses of ApiVersions).
"""

from struct import Struct
from struct import error as struct_error
from typing import Any, Final, Generic, TypeVar

from protocol.codec import Buffer, Codec, codec
from protocol.errors import EncodeError, ErrorCode, UnsupportedVersion
from protocol.headers import (
    RequestHeader,
    ResponseHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)

Req = TypeVar("Req")
Resp = TypeVar("Resp")

API_VERSIONS_KEY: Final = 18

_SIZE = Struct(">i")
# The size of the frame, and a response header as it nearly always is: the correlation id, and no tagged fields.
_RESPONSE_HEADS = (Struct(">ii"), Struct(">iix"))
_MAX_FRAME = 2**31 - 1
_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class Api(Generic[Req, Resp]):
    """An API and its codecs, compiled at first use.

    `versions` are the oldest and the newest version that there is a schema for; `flexible_since` is the first
    flexible one (KIP-482), None when there is none. Every method that takes a version raises UnsupportedVersion
    outside `versions`, but for those that tell of headers.

    Who asks for ApiVersions does not know yet what the server has. So a server that lacks the version asked answers
    UNSUPPORTED_VERSION in version 0 (KIP-511), and a response of ApiVersions with this error is read and written in
    version 0 here, whatever version is named.
    """

    def __init__(
        self,
        *,
        key: int,
        name: str,
        request: type[Req],
        response: type[Resp],
        versions: tuple[int, int],
        flexible_since: int | None,
    ) -> None:
        self.key = key
        self.name = name
        self.request = request
        self.response = response
        self.versions = versions
        self.flexible_since = flexible_since
        self._request_codecs: dict[int, Codec[Req]] = {}
        self._response_codecs: dict[int, Codec[Resp]] = {}
        self._response_heads: dict[int, Struct] = {}

    def __repr__(self) -> str:
        return f"Api({self.key} {self.name} {self.versions[0]}-{self.versions[1]})"

    def is_flexible(self, version: int) -> bool:
        """Whether `version` has compact lengths and tagged fields, in its body and its request header."""
        return self.flexible_since is not None and version >= self.flexible_since

    def request_header_version(self, version: int) -> int:
        """1, or 2 for a flexible version."""
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """0, or 1 for a flexible version; always 0 for ApiVersions (KIP-511)."""
        return 1 if self.is_flexible(version) and self.key != API_VERSIONS_KEY else 0

    def request_codec(self, version: int) -> Codec[Req]:
        """The codec of the request's body."""
        found = self._request_codecs.get(version)
        if found is None:
            found = self._request_codecs[version] = self._make(self.request, version)
        return found

    def response_codec(self, version: int) -> Codec[Resp]:
        """The codec of the response's body."""
        found = self._response_codecs.get(version)
        if found is None:
            found = self._response_codecs[version] = self._make(self.response, version)
        return found

    def decode_request(self, version: int, buf: Buffer, pos: int = 0) -> tuple[Req, int]:
        """The request body at `pos`, and the position after it. Raises DecodeError."""
        return self.request_codec(version).decode(buf, pos)

    def decode_response(self, version: int, buf: Buffer, pos: int = 0) -> tuple[Resp, int]:
        """The response body at `pos`, and the position after it. Raises DecodeError."""
        return self._as_answered(self.response_codec(version), buf, pos).decode(buf, pos)

    def parse_request(self, version: int, frame: Buffer, pos: int = 0) -> tuple[RequestHeader, Req]:
        """Header and body of the request whose header begins at `pos`. Raises DecodeError.

        Bytes after the body are left alone, as brokers do.

        UnsupportedVersion here is what a broker ends the connection for. Not over ApiVersions: it leaves the body
        unread and answers version 0 with UNSUPPORTED_VERSION, and its own range of ApiVersions as the only API, from
        which the client takes the version to ask again in (KIP-511). All of the header that such an answer needs can be
        had of any version by `decode_request_header(1, frame, pos)`: later headers begin as that one does.
        """
        found = self.request_codec(version)
        header, pos = decode_request_header(self.request_header_version(version), frame, pos)
        return header, found.decode(frame, pos)[0]

    def parse_response(self, version: int, frame: Buffer, pos: int = 0) -> tuple[int, Resp]:
        """Correlation id and body of the response whose header begins at `pos`. Raises DecodeError.

        Bytes after the body are left alone, as clients do.
        """
        found = self.response_codec(version)
        header, pos = decode_response_header(self.response_header_version(version), frame, pos)
        return header.correlation_id, self._as_answered(found, frame, pos).decode(frame, pos)[0]

    def encode_request(self, version: int, msg: Req) -> bytes:
        """The request's body alone. Raises EncodeError."""
        return self.request_codec(version).encode(msg)

    def encode_response(self, version: int, msg: Resp) -> bytes:
        """The response's body alone. Raises EncodeError."""
        return self._to_answer(self.response_codec(version), msg).encode(msg)

    def request_frame(self, version: int, correlation_id: int, client_id: str | None, msg: Req) -> bytes:
        """The whole frame: size, request header, body. Raises EncodeError."""
        found = self.request_codec(version)
        header = RequestHeader(self.key, version, correlation_id, client_id)
        return _framed(found.encode(msg, encode_request_header(self.request_header_version(version), header)), found)

    def response_frame(self, version: int, correlation_id: int, msg: Resp) -> bytes:
        """The whole frame: size, response header, body. Raises EncodeError."""
        found = self._response_codecs.get(version) or self.response_codec(version)
        if self.key == API_VERSIONS_KEY:
            found = self._to_answer(found, msg)
        body = found.encode(msg)
        head = self._response_heads.get(version)
        if head is None:
            head = self._response_heads[version] = _RESPONSE_HEADS[self.response_header_version(version)]
        size = head.size - _SIZE.size + len(body)
        if size <= _MAX_FRAME:
            try:
                return head.pack(size, correlation_id) + body
            except struct_error:
                pass  # the codec says what is wrong with the header
        header = encode_response_header(self.response_header_version(version), ResponseHeader(correlation_id))
        return _framed(header + body, found)

    def _as_answered(self, asked: Codec[Resp], buf: Buffer, pos: int) -> Codec[Resp]:
        """The codec that the response at `pos` needs."""
        if self.key == API_VERSIONS_KEY and buf[pos : pos + 2] == _UNSUPPORTED:
            return self.response_codec(0)
        return asked

    def _to_answer(self, asked: Codec[Resp], msg: Resp) -> Codec[Resp]:
        """The codec for a response."""
        if self.key == API_VERSIONS_KEY and getattr(msg, "error_code", 0) == ErrorCode.UNSUPPORTED_VERSION:
            return self.response_codec(0)
        return asked

    def _make(self, cls: type[Any], version: int) -> Codec[Any]:
        oldest, newest = self.versions
        if not oldest <= version <= newest:
            raise UnsupportedVersion(f"{self.name} version {version} is not one of {oldest}-{newest}")
        return codec(cls, version, self.is_flexible(version))


def _framed(payload: bytes, codec: Codec[Any]) -> bytes:
    if len(payload) > _MAX_FRAME:
        raise EncodeError(f"the frame takes {len(payload)} bytes", codec.cls.__name__)
    return _SIZE.pack(len(payload)) + payload
