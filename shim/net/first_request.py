"""What the first bytes of a connection say of the client, pure: for the list of clients, and for nothing else."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from protocol.apis import ApiKey

_HEAD: Final = Struct(">iHHih")
# Size, api key, version, correlation id, and the size of the client id, which every version of the header has there.

_SOFTWARE_SINCE: Final = 3
"""The first version of ApiVersions that has the client's software in it (KIP-511)."""


class FirstRequest(NamedTuple):
    """``kind``: ``api_key << 16 | api_version``. ``client_id``: "" where there is none, or not all of it is there."""

    kind: int
    client_id: str

    @property
    def may_name_software(self) -> bool:
        return self.kind >> 16 == ApiKey.API_VERSIONS and self.kind & 0xFFFF >= _SOFTWARE_SINCE


def first_request(data: bytes | memoryview) -> FirstRequest | None:
    """The request that ``data`` begins with; None where that is too little to tell."""
    if len(data) < _HEAD.size:
        return None
    _, api_key, api_version, _, size = _HEAD.unpack_from(data)
    end = _HEAD.size + max(size, 0)
    name = bytes(data[_HEAD.size : end]) if end <= len(data) else b""
    return FirstRequest(api_key << 16 | api_version, name.decode("utf-8", "replace"))
