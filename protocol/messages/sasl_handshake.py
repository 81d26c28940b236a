"""SaslHandshake (key 17), versions 0-1. Source: Kafka 4.3, KIP-43.

After version 0 the client's SASL bytes follow without any Kafka header, after 1 in SaslAuthenticate (KIP-152). No
version is flexible.
"""

from typing import NamedTuple

from protocol.api import Api
from protocol.wire import Int16, String


class SaslHandshakeRequest(NamedTuple):
    mechanism: String


class SaslHandshakeResponse(NamedTuple):
    error_code: Int16
    mechanisms: tuple[String, ...]


API = Api(
    key=17,
    name="SaslHandshake",
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
    versions=(0, 1),
    flexible_since=None,
)
