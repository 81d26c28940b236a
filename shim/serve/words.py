"""APIs as they are called where people read of them."""

from __future__ import annotations

from typing import Final

from protocol.apis import ApiKey

PROBES: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""A client that is about to say what it is begins with one of these."""


def api_name(key: int) -> str:
    """As Kafka calls it: OffsetCommit."""
    return "".join(map(str.capitalize, ApiKey(key).name.split("_")))
