"""Requests that a client sends again and again as the same bytes, but for the correlation id: decoded once.

Heartbeats are such requests, and so are the offset fetches of whoever watches a group. Messages are never changed, so
one may be given out many times.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, TypeVar

from protocol.api import Api
from protocol.codec import Buffer
from protocol.headers import RequestHeader

Req = TypeVar("Req")
Resp = TypeVar("Resp")

# What is kept, decoded, is bounded by both: so many requests of at most so many bytes.
_KEPT: Final = 1024
_SHORT: Final = 256

_HEAD: Final = Struct(">hhi")  # api key, version, correlation id
_new: Final[Any] = tuple.__new__  # it skips the constructors of named tuples


class Repeated(Api[Req, Resp]):
    """The API; its short requests are looked up before they are decoded."""

    def __init__(self, api: Api[Req, Resp]) -> None:
        super().__init__(
            key=api.key,
            name=api.name,
            request=api.request,
            response=api.response,
            versions=api.versions,
            flexible_since=api.flexible_since,
        )
        self._known: dict[tuple[int, bytes], tuple[RequestHeader, Req]] = {}

    def parse_request(self, version: int, frame: Buffer, pos: int = 0) -> tuple[RequestHeader, Req]:
        if not isinstance(frame, bytes) or not 0 <= pos <= len(frame) - _HEAD.size or len(frame) - pos > _SHORT:
            return super().parse_request(version, frame, pos)
        key = version, frame[pos + _HEAD.size :]
        known = self._known.get(key)
        if known is not None:
            header, request = known
            return _new(RequestHeader, (*_HEAD.unpack_from(frame, pos), *header[3:])), request
        parsed = super().parse_request(version, frame, pos)
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[key] = parsed
        return parsed
