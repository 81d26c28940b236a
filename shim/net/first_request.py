"""What the first bytes of a connection say of the client, pure: for the list of clients, and to know connections of
the shim's own that come back to it."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from protocol.apis import ApiKey

_HEAD: Final = Struct(">iHHih")
# Size, api key, version, correlation id, and the size of the client id, which every version of the header has there.

_SOFTWARE_SINCE: Final = 3
"""The first version of ApiVersions that has the client's software in it (KIP-511)."""


_LONGEST_ID: Final = 200
"""Bytes of a client id that are looked at."""

MOST_BYTES: Final = _HEAD.size + _LONGEST_ID
"""Of a connection's beginning, that are enough in any case."""


class FirstRequest(NamedTuple):
    """``kind``: ``api_key << 16 | api_version``. ``client_id``: "" where there is none."""

    kind: int
    correlation_id: int
    client_id: str

    @property
    def may_name_software(self) -> bool:
        return self.kind >> 16 == ApiKey.API_VERSIONS and self.kind & 0xFFFF >= _SOFTWARE_SINCE


def first_request(data: bytes | memoryview) -> FirstRequest | None:
    """The request that ``data`` begins with; None where that is too little to tell, and more will come."""
    if len(data) < _HEAD.size:
        return None
    _, api_key, api_version, correlation_id, size = _HEAD.unpack_from(data)
    end = _HEAD.size + min(max(size, 0), _LONGEST_ID)
    if len(data) < end:
        return None
    client_id = bytes(data[_HEAD.size : end]).decode("utf-8", "replace")
    return FirstRequest(api_key << 16 | api_version, correlation_id, client_id)
