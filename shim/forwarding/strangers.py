"""Who connects where shims do, and is none, by what it says first: for people."""

from __future__ import annotations

from struct import Struct
from typing import Final

from protocol.apis import ApiKey

_BEGINNING: Final = Struct(">ihh")
"""Of a Kafka client's request: size, api key and version."""

MOST_BYTES: Final = _BEGINNING.size
"""That are looked at."""

_TLS_HELLO: Final = b"\x16\x03"
_HTTP: Final = (b"GET ", b"POST", b"HEAD", b"PUT ")
_CLIENTS_BEGIN_WITH: Final = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.SASL_HANDSHAKE)
_NEWEST: Final = 31
"""No version of these is as new. A shim has two letters there, of which log it is."""


def named(first: bytes) -> str:
    """ "" where that is not known."""
    if first.startswith(_TLS_HELLO):
        return "a TLS hello on a plaintext port"
    if first.startswith(_HTTP):
        return "an HTTP request"
    if len(first) >= MOST_BYTES:
        _, api_key, version = _BEGINNING.unpack_from(first)
        if api_key in _CLIENTS_BEGIN_WITH and 0 <= version <= _NEWEST:
            return "a Kafka client's request; clients bootstrap at another port"
    return ""
